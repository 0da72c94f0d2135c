"""Writes YAML like sigs.k8s.io/yaml: keys in alphabetical order, double quotes if needed, no wrapping."""

from __future__ import annotations

from typing import Any

import yaml

__all__ = ["to_yaml"]


class _Dumper(yaml.SafeDumper):
    pass


def _string(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    plain = dumper.resolve(yaml.ScalarNode, text, (True, False)) == "tag:yaml.org,2002:str"  # type: ignore[no-untyped-call]
    style = "|" if "\n" in text else None if plain and text else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _string)


def to_yaml(value: Any) -> bytes:
    """Encode a JSON document as YAML."""
    document: str = yaml.dump(value, Dumper=_Dumper, default_flow_style=False, allow_unicode=True, width=1 << 20)
    return document.encode()
