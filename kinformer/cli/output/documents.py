"""Writes objects as JSON, YAML, lines of JSON, and names."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from kinformer import KubeObject
from kinformer.cli.output.template import JSONTemplate
from kinformer.cli.output.text import clean, escaped, escaped_in_yaml, has_hidden
from kinformer.client import APIResource
from kinformer.exceptions import DecodeError

__all__ = [
    "OutputDocument",
    "from_template",
    "in_one_line",
    "object_name",
    "readable",
    "to_yaml",
    "write_from_template",
    "write_json",
    "write_lines",
    "write_yaml",
    "yaml_of",
]


# Words that PyYAML reads as strings and so writes unquoted, but that other parsers read as numbers or booleans.
_NO_TEXT_ELSEWHERE = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|0o?[0-7]+|[yYnN]")


class OutputDocument(NamedTuple):
    """Objects that are printed together.

    Attributes:
        objects: The objects, in order.
        version: The resourceVersion of the list.
        alone: True if one object was requested by name. It is printed without a List, or not at all if it is missing.
    """

    objects: Sequence[KubeObject]
    version: str
    alone: bool


# Objects are written one by one, because a single string with 100,000 of them would double the memory.


def object_name(resource: APIResource, obj: KubeObject) -> str:
    """Return the name that kubectl's `-o name` prints: `pod/web-1`, `deployment.apps/web`."""
    return name_of(resource, obj.name)


def name_of(resource: APIResource, name: str) -> str:
    """Return the same for an object's name."""
    singular = resource.singular or resource.kind.lower()
    # The name of a role may contain any character.
    return clean(f"{singular}.{resource.group}/{name}" if resource.group else f"{singular}/{name}")


def write_json(document: OutputDocument) -> None:
    """Write one JSON document, indented."""
    objects, version, alone = document
    if alone:
        sys.stdout.writelines(_indented(obj.raw) + "\n" for obj in objects)
        return
    sys.stdout.write('{\n  "apiVersion": "v1",\n  "kind": "List",\n')
    sys.stdout.write(f'  "metadata": {{\n    "resourceVersion": "{version}"\n  }},\n  "items": [')
    for number, obj in enumerate(objects):
        sys.stdout.write("," if number else "")
        sys.stdout.write("\n    " + _indented(obj.raw).replace("\n", "\n    "))
    sys.stdout.write("\n  ]\n}\n" if objects else "]\n}\n")


def write_yaml(document: OutputDocument) -> None:
    """Write one YAML document in kubectl's form: sorted keys, and multi-line strings as blocks."""
    objects, version, alone = document
    if alone:
        sys.stdout.writelines(yaml_of(obj) for obj in objects)
        return
    sys.stdout.write("apiVersion: v1\n")
    sys.stdout.write("items:\n" if objects else "items: []\n")
    for obj in objects:
        sys.stdout.write(yaml_of(obj, item=True))
    sys.stdout.write(f'kind: List\nmetadata:\n  resourceVersion: "{version}"\n')


def write_lines(objects: Sequence[KubeObject]) -> None:
    """Write a line of JSON for each object."""
    for obj in objects:
        sys.stdout.write(_line(obj))


def write_from_template(template: JSONTemplate, document: OutputDocument) -> None:
    """Write the text of a template for a List, or for the object if it was requested by name. It ends no line."""
    objects, version, alone = document
    items = [readable(obj) for obj in objects]
    if not alone:
        items = [{"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": version}}]
    for item in items:
        sys.stdout.write(from_template(template, item))


def readable(obj: KubeObject) -> dict[str, Any]:
    """Return an object as a dict, or only its name if it is nested too deeply to be decoded."""
    try:
        return obj.to_dict()
    except DecodeError:
        return {"metadata": {"name": obj.name, "namespace": obj.namespace}}


def from_template(template: JSONTemplate, document: Any) -> str:
    """Return the text of a template. On a terminal, no text from the cluster controls it."""
    text = template.render(document)
    if not sys.stdout.isatty():
        return text  # a file gets exactly what the object has
    return "".join(part if part in "\n\t" else clean(part) for part in re.split(r"([\n\t])", text))


def to_yaml(value: Any, *, short: bool = False) -> str:
    """Convert a JSON value to YAML. Strings that look like numbers, dates or words such as `yes` stay strings.

    `short` puts lists and mappings of scalars on one line: `verbs: [list, watch]`.
    """
    import yaml  # takes 20 ms, and only this function needs it

    class Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        pass

    def text(dumper: Any, value: str) -> Any:
        hidden = has_hidden(value)
        block = not hidden and "\n" in value and not any(line != line.rstrip() for line in value.split("\n"))
        style = "|" if block else '"' if hidden or _NO_TEXT_ELSEWHERE.fullmatch(value) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)

    Dumper.add_representer(str, text)
    dumped: str = yaml.dump(
        value, Dumper=Dumper, default_flow_style=None if short else False, allow_unicode=True, width=1 << 20
    )
    return escaped_in_yaml(dumped)


def yaml_of(obj: KubeObject, *, item: bool = False) -> str:
    """Return the YAML of an object or a list item.

    If it is nested too deeply, one line of JSON, which is valid YAML.
    """
    try:
        return to_yaml([obj.to_dict()] if item else obj.to_dict())
    except (DecodeError, RecursionError):
        return f"{'- ' if item else ''}{_line(obj)}"


def _line(obj: KubeObject) -> str:
    return escaped(in_one_line(obj.raw).decode()) + "\n"


def in_one_line(raw: bytes) -> bytes:
    """Remove line breaks from JSON. A server sends them only if, for example, a proxy requests pretty output."""
    return msgspec.json.format(raw, indent=-1) if b"\n" in raw else raw


def _indented(raw: bytes) -> str:
    return escaped(msgspec.json.format(raw, indent=2).decode())
