"""Reading the bodies of requests: JSON and YAML, patches, and their limit."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from kinformer.testing.status import bad_request, failure

__all__ = ["parse_body", "parse_patch", "parse_yaml", "read_body"]

MAX_BODY = 3 * 1024 * 1024  # bytes (server/config.go, MaxRequestBodyBytes)
Object = dict[str, Any]


async def read_body(request: web.BaseRequest) -> bytes:
    """The body. A 413 `StatusError` above 3 MiB."""
    parts: list[bytes] = []
    size = 0
    async for part in request.content.iter_any():
        size += len(part)
        if size <= MAX_BODY:
            parts.append(part)
    if size > MAX_BODY:  # read to its end, so that the client is there to hear of it
        raise failure(413, f"Request entity too large: limit is {MAX_BODY}")
    return b"".join(parts)


def parse_body(body: bytes, kind: str, content_type: str) -> Object:
    """JSON or YAML to a dict. A 400 `StatusError` worded as for `kind`."""
    media = content_type.partition(";")[0].strip().lower()
    if media not in ("", "application/json", "application/yaml", "text/plain", "*/*"):  # protobuf, above all
        raise failure(
            415,
            "the body of the request was in an unknown format - accepted media types include: application/json,"
            " application/yaml",
        )
    if "yaml" in content_type:
        return parse_yaml(body)
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        shown = body.decode("utf-8", "replace")[:1024]
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): couldn't get version/kind; json parse"
            f" error: {_go_json_error(body)} ({shown})"
        ) from None
    if not isinstance(value, dict):
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): it is no object")
    return value


def _go_json_error(body: bytes) -> str:
    text = body.decode("utf-8", "replace").strip()
    if not text or text.count("{") > text.count("}") or text.count("[") > text.count("]"):
        return "unexpected end of JSON input"
    return "invalid character in literal"


def parse_yaml(body: bytes) -> Object:
    """YAML, which JSON is too."""
    import yaml

    try:
        value = yaml.safe_load(body)
    except yaml.YAMLError as error:
        raise bad_request(f"error decoding YAML: {error}") from None
    if not isinstance(value, dict):
        raise bad_request("error decoding YAML: it is no object")
    return value


def parse_patch(raw: bytes) -> Any:
    """The JSON of a patch. A 400 `StatusError`."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise bad_request(f"error decoding patch: {error}") from None
