"""Reads request bodies: JSON, YAML and patches, up to a maximum size."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any

import msgspec
from aiohttp import web

from kinformer._runtime.yaml_reader import reading_as_kubernetes
from kinformer.apiserver.status import StatusError, bad_request, failure
from kinformer.testing.codec.protobuf import ProtobufError, decode_protobuf

__all__ = [
    "complaint_places",
    "find_duplicates",
    "go_kind",
    "json_error",
    "parse_body",
    "parse_patch",
    "parse_yaml",
    "read_body",
]

_REQUEST_TIMEOUT = 60.0  # seconds (kube-apiserver, --request-timeout)
MAX_BODY = 3 * 1024 * 1024  # bytes (server/config.go, MaxRequestBodyBytes)
PROTOBUF = "application/vnd.kubernetes.protobuf"
_MORE = ("", " ...")  # what follows the quoted start of a body: dots if there is more of it
Object = dict[str, Any]


async def read_body(request: web.BaseRequest) -> bytes:
    """Read the body. Raises a 413 `StatusError` above 3 MiB, and a 504 if it does not arrive in time."""
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_REQUEST_TIMEOUT):
            async for part in request.content.iter_any():
                size += len(part)
                if size <= MAX_BODY:
                    parts.append(part)
    except TimeoutError:
        raise failure(504, "request did not complete within the allotted timeout") from None
    if size > MAX_BODY:  # read to the end, so that the client is ready for the response
        raise failure(413, f"Request entity too large: limit is {MAX_BODY}")
    return b"".join(parts)


def parse_body(body: bytes, kind: str, content_type: str, duplicates: list[str] | None = None) -> Object:
    """Parse JSON or YAML. Duplicate fields are added to `duplicates`. Raises a 400 or 415 `StatusError`."""
    media = content_type.partition(";")[0].strip().lower()
    if media == PROTOBUF:
        return _parse_protobuf(body, kind)
    if media not in ("", "application/json", "application/yaml"):
        raise failure(
            415,
            "the body of the request was in an unknown format - accepted media types include: application/json,"
            " application/yaml, application/vnd.kubernetes.protobuf",
        )
    if "yaml" in content_type:
        return parse_yaml(body)
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        shown = body.decode("utf-8", "replace")[:1024] or "<empty>"
        raise _unrecognized(kind, json_error(body), shown if shown.startswith(("{", "<")) else body.hex()) from None
    if value is None:
        return {}
    if not isinstance(value, dict):
        what = go_kind(value)
        into = 'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
        raise _unrecognized(kind, f"json: cannot unmarshal {what} into Go value of type {into}", body.hex())
    # Without duplicates and white space, the value is as long as the body, which then need not be parsed again.
    if duplicates is not None and len(msgspec.json.encode(value)) < len(body):
        duplicates += find_duplicates(body)
    return value


def go_kind(value: Any) -> str:
    """Return the name of a JSON value's type in Go's errors."""
    return {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(value), "number")


def _parse_protobuf(body: bytes, kind: str) -> Object:
    try:
        return decode_protobuf(body)
    except ProtobufError as error:
        start = body[:30].decode("utf-8", "replace")
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): {error} ({start}{_MORE[len(body) > 30]})"
        ) from None
    except LookupError:
        raise failure(
            415,
            "the body of the request was in an unknown format - accepted media types include: application/json,"
            " application/yaml",
        ) from None


def _unrecognized(kind: str, error: str, shown: str) -> StatusError:
    return bad_request(
        f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse error:"
        f" {error} ({shown})"
    )


class _Pairs:
    """The members of a JSON object as written, including duplicate keys."""

    __slots__ = ("pairs",)

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        self.pairs = pairs


def find_duplicates(body: bytes) -> list[str]:
    """Return the paths of duplicate fields, in document order."""
    start = 'duplicate field "'
    return [complaint[len(start) : -1] for complaint in complaint_places(body) if complaint.startswith(start)]


def complaint_places(body: bytes) -> dict[str, int]:
    """Map the complaints that a body may cause to their order in Go.

    Go complains of an unknown field where it first appears, and of a duplicate where it appears again.
    """
    places: dict[str, int] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, _Pairs):
            seen: set[str] = set()
            for name, inner in value.pairs:
                below = f"{path}.{name}" if path else name
                places.setdefault(f'{"duplicate" if name in seen else "unknown"} field "{below}"', len(places))
                seen.add(name)
                walk(inner, below)
        elif isinstance(value, list):
            for index, inner in enumerate(value):
                walk(inner, f"{path}[{index}]")

    walk(json.loads(body, object_pairs_hook=_Pairs), "")
    return places


def json_error(body: bytes) -> str:
    """Return Go's message about bytes that are not JSON."""
    text = body.decode("utf-8", "replace")
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        # Since Python 3.13 the position of a trailing comma is the comma itself. Go reports the next character.
        at = error.pos + 1 if "trailing comma" in error.msg else error.pos
        while at < len(text) and text[at] in " \t\r\n":
            at += 1
        if at >= len(text):
            return "unexpected end of JSON input"
        char = text[at]
        if "property name" in error.msg or "trailing comma before end of object" in error.msg:
            return f"invalid character '{char}' looking for beginning of object key string"
        if "delimiter" in error.msg:
            after = (
                "object key"
                if "':'" in error.msg
                else "array element"
                if "[" in text[:at][-1:]
                else "object key:value pair"
            )
            return f"invalid character '{char}' after {after}"
        if "Extra data" in error.msg:
            return f"invalid character '{char}' after top-level value"
        for literal in ("true", "false", "null"):
            if literal[0] == char:
                length = 1
                while at + length < len(text) and text[at + length : at + length + 1] == literal[length : length + 1]:
                    length += 1
                if at + length >= len(text):
                    return "unexpected end of JSON input"
                wrong, expected = text[at + length], literal[length : length + 1]
                return f"invalid character '{wrong}' in literal {literal} (expecting '{expected}')"
        return f"invalid character '{char}' looking for beginning of value"
    return "invalid character"


@cache
def _loader() -> Any:
    """Return a safe loader that reads scalars and keys like Kubernetes, and records duplicate keys."""
    import yaml

    class Loader(yaml.SafeLoader):
        def __init__(self, stream: Any) -> None:
            super().__init__(stream)
            self.twice: list[str] = []  # messages about duplicate keys

        def scan_to_next_token(self) -> None:
            """Like go-yaml, accept tabs as white space within brackets and where no key can begin."""
            if self.index == 0 and self.peek() == "\ufeff":
                self.forward()
            while True:
                while self.peek() == " " or (self.peek() == "\t" and (self.flow_level or not self.allow_simple_key)):
                    self.forward()
                if self.peek() == "#":
                    while self.peek() not in "\0\r\n\x85\u2028\u2029":
                        self.forward()
                if not self.scan_line_break():  # type: ignore[no-untyped-call]
                    return
                if not self.flow_level:
                    self.allow_simple_key = True

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[str] = set()
            for key, _ in node.value:
                if isinstance(key.value, str) and key.value in seen:
                    self.twice.append(f'line {key.start_mark.line + 1}: key "{key.value}" already set in map')
                elif isinstance(key.value, str):
                    seen.add(key.value)
            made = super().construct_mapping(node, deep)
            return {key if isinstance(key, str) else json.dumps(key, default=str): made[key] for key in made}

    return reading_as_kubernetes(Loader)


def parse_yaml(body: bytes, duplicates: list[str] | None = None) -> Object:
    """Parse YAML, which includes JSON. Messages about duplicate keys are added to `duplicates`."""
    import yaml

    try:
        loader = _loader()(body)
        value = loader.get_single_data()
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    except Exception as error:  # noqa: BLE001 - for example, of a tag whose value has another form
        raise bad_request(f"error decoding YAML: {type(error).__name__}") from None
    if not isinstance(value, dict):
        raise bad_request("error decoding YAML: it is not an object")
    if duplicates is not None:
        duplicates += loader.twice
    return value


def parse_patch(raw: bytes, duplicates: list[str] | None = None) -> Any:
    """Parse the JSON of a patch. Duplicate fields are added to `duplicates`. Raises a 400 `StatusError`."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise bad_request(f"error decoding patch: {json_error(raw)}") from None
    if duplicates is not None and len(msgspec.json.encode(value)) < len(raw):
        duplicates += find_duplicates(raw)
    return value
