"""The paths that name no resource: health, version, discovery and OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kinformer.testing.api.discovery import AGGREGATED, Discovery
from kinformer.testing.api.openapi import openapi_v2, openapi_v3
from kinformer.testing.http.call import Call
from kinformer.testing.http.responses import TEXT
from kinformer.testing.kinds.resources import Registry
from kinformer.testing.kinds.status import method_not_allowed, page_not_found

__all__ = ["Documents"]

Object = dict[str, Any]

CHECKS = ("ping", "log", "etcd")


class Documents:
    """Answers the requests that name no resource.

    Args:
        registry: The kinds that are served.
        address: Returns host and port of the server.
    """

    def __init__(self, registry: Registry, address: Callable[[], str]) -> None:
        self._registry = registry
        self._address = address
        self._routes: Mapping[str, Callable[[Call, str], Awaitable[None]]] = {
            "healthz": self._health,
            "livez": self._health,
            "readyz": self._health,
            "version": self._version,
            "api": self._discovery,
            "apis": self._discovery,
            "openapi": self._openapi,
        }

    async def handle(self, call: Call) -> None:
        """Answer a request by the first segment of its path. Raises a 404 or 405 `StatusError`."""
        path = "/" + call.info.path.strip("/")
        route = self._routes.get(path.split("/")[1])
        is_read = call.info.method in ("GET", "HEAD")
        if route is None or not (is_read or route == self._health):
            raise page_not_found()
        await route(call, path)

    async def _health(self, call: Call, path: str) -> None:
        """Answer for the server as a whole, or for one check of it."""
        name, _, check = path.strip("/").partition("/")
        if not check:
            headers = {"X-Content-Type-Options": "nosniff"}
            text = b"ok"
            if "verbose" in call.params:
                lines = [*(f"[+]{one} ok" for one in CHECKS), f"{name} check passed"]
                text = ("\n".join(lines) + "\n").encode()
            await call.response.send(text, content_type=TEXT, headers=headers)
        elif check in CHECKS:
            await call.response.send(b"ok", content_type=TEXT)
        else:
            raise page_not_found()

    async def _version(self, call: Call, path: str) -> None:
        await self._send(call, Discovery(self._registry, self._address()).find(path), pretty=True)

    async def _discovery(self, call: Call, path: str) -> None:
        discovery = Discovery(self._registry, self._address())
        if path in ("/api", "/apis") and call.info.method == "GET" and _accepts_aggregated(call):
            await self._send_aggregated(call, discovery, path)
            return
        document = discovery.find(path)
        parts = path.split("/")[1:]
        if document is None and len(parts) > 1:
            raise self._registry.not_served(parts[1] if parts[0] == "apis" else "")
        await self._send(call, document)

    async def _openapi(self, call: Call, path: str) -> None:
        is_v2 = path == "/openapi/v2"
        document = openapi_v2(self._registry) if is_v2 else openapi_v3(self._registry, path)
        await self._send(call, document, head=True)

    async def _send(self, call: Call, document: Object | None, *, head: bool = False, pretty: bool = False) -> None:
        """Send a document. Raises 404 if there is none, and 405 for a HEAD unless `head` is True."""
        if document is None:
            raise page_not_found()
        if call.info.method == "HEAD" and not head:
            raise method_not_allowed()
        call.response.pretty = call.response.pretty or pretty
        await call.response.send_json(document)

    async def _send_aggregated(self, call: Call, discovery: Discovery, path: str) -> None:
        body, tag = discovery.aggregated(path)
        headers = {"ETag": tag, "Vary": "Accept", "Cache-Control": "public"}
        if call.request.headers.get("If-None-Match") == tag:
            await call.response.send(b"", status=304, headers=headers)
            return
        await call.response.send(body, content_type=AGGREGATED, headers=headers)


def _accepts_aggregated(call: Call) -> bool:
    accept = call.request.headers.get("Accept", "")
    return "APIGroupDiscoveryList" in accept and "v=v2" in accept.replace("v=v2beta1", "")
