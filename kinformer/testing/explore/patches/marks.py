"""Marks the requests of a program with what only the program's side knows: fences, and checks by the server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import aiohttp
import msgspec

from kinformer._runtime.fence import fence_names
from kinformer._runtime.request_context import is_urgent

__all__ = ["CHECKED", "ELECTION", "FENCES", "requests_marked"]

FENCES = "X-Explored-Fences"  # the Leases that a request needs
ELECTION = "X-Explored-Election"  # a request for a Lease, by a `LeaderElector`
CHECKED = "X-Explored-Checked"  # the body has a resourceVersion, or a test


class _Meta(msgspec.Struct):
    resourceVersion: str | None = None  # noqa: N815 - its name on the wire


class _Object(msgspec.Struct):
    metadata: _Meta | None = None


class _Operation(msgspec.Struct):
    op: str = ""


_decode = msgspec.json.Decoder(_Object | list[_Operation]).decode


def _is_checked(options: Mapping[str, Any]) -> bool:
    """Return True if the server compares the body with its state, as is assumed of a body that is not JSON."""
    body = options.get("json")
    data = options.get("data") if body is None else msgspec.json.encode(body)
    if data is None:
        return False
    try:
        decoded = _decode(data)
    except (msgspec.DecodeError, TypeError):
        return True
    if isinstance(decoded, list):
        return any(operation.op == "test" for operation in decoded)
    return decoded.metadata is not None and decoded.metadata.resourceVersion not in (None, "", "0")


@contextmanager
def requests_marked() -> Iterator[None]:
    """Mark all requests that are sent with aiohttp in the block."""
    request = aiohttp.ClientSession._request

    async def marked(self: Any, method: str, url: Any, **options: Any) -> Any:
        headers = dict(options.pop("headers", None) or {})
        if names := fence_names():
            headers[FENCES] = ",".join(names)
        if is_urgent():
            headers[ELECTION] = "1"
        if method in ("PUT", "PATCH") and _is_checked(options):
            headers[CHECKED] = "1"
        return await request(self, method, url, headers=headers, **options)

    with patch.object(aiohttp.ClientSession, "_request", marked):
        yield
