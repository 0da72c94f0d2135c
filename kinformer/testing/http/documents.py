"""Paths that name no resource: health, version, discovery and OpenAPI."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from kinformer.apiserver.response import TEXT
from kinformer.apiserver.status import method_not_allowed, page_not_found
from kinformer.testing.api.discovery import AGGREGATED, DiscoveryDocuments
from kinformer.testing.http.call import HTTPCall
from kinformer.testing.http.health import checks_of, report
from kinformer.testing.http.metrics import METRICS_TYPE
from kinformer.testing.kinds.resources import Registry
from kinformer.testing.openapi.document import openapi_v2, openapi_v3
from kinformer.testing.openapi.protobuf import encode_openapi_v2

__all__ = ["DocumentEndpoints"]

Object = dict[str, Any]

OPENAPI_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class DocumentEndpoints:
    """Answers the requests that name no resource.

    Args:
        registry: The kinds that are served.
        address: Returns host and port of the server.
        metrics: Returns the server's metrics as a string.
    """

    def __init__(self, registry: Registry, address: Callable[[], str], metrics: Callable[[], str]) -> None:
        self._registry = registry
        self._address = address
        self._metrics = metrics
        self._routes: Mapping[str, Callable[[HTTPCall, str], Awaitable[None]]] = {
            "healthz": self._health,
            "livez": self._health,
            "readyz": self._health,
            "metrics": self._send_metrics,
            "version": self._version,
            "api": self._discovery,
            "apis": self._discovery,
            "openapi": self._openapi,
        }

    async def handle(self, call: HTTPCall) -> None:
        """Answer a request by the first segment of its path. Raises a 404 or 405 `StatusError`."""
        path = "/" + call.info.path.strip("/")
        route = self._routes.get(path.split("/")[1])
        is_read = call.info.method in ("GET", "HEAD")
        if route is None or not (is_read or route == self._health):
            raise page_not_found()
        await route(call, path)

    async def _health(self, call: HTTPCall, path: str) -> None:
        """Report the health of the whole server, or of one check."""
        name, _, check = path.strip("/").partition("/")
        if not check:
            headers = {"X-Content-Type-Options": "nosniff"}
            body = report(name, call.request.query.getall("exclude", [])) if "verbose" in call.params else "ok"
            await call.response.send(body.encode(), content_type=TEXT, headers=headers)
        elif check in checks_of(name):
            await call.response.send(b"ok", content_type=TEXT)
        else:
            raise page_not_found()

    async def _send_metrics(self, call: HTTPCall, path: str) -> None:
        if path != "/metrics":
            raise page_not_found()
        await call.response.send(self._metrics().encode(), content_type=METRICS_TYPE)

    async def _version(self, call: HTTPCall, path: str) -> None:
        await self._send(call, DiscoveryDocuments(self._registry, self._address()).find(path), pretty=True)

    async def _discovery(self, call: HTTPCall, path: str) -> None:
        discovery = DiscoveryDocuments(self._registry, self._address())
        if path in ("/api", "/apis") and call.info.method == "GET" and _accepts_aggregated(call):
            await self._send_aggregated(call, discovery, path)
            return
        document = discovery.find(path)
        parts = path.split("/")[1:]
        if document is None and len(parts) > 1:
            raise self._registry.not_served(parts[1] if parts[0] == "apis" else "")
        await self._send(call, document)

    async def _openapi(self, call: HTTPCall, path: str) -> None:
        accept = call.request.headers.get("Accept", "")
        if path == "/openapi/v3":  # the list of documents is always JSON
            await self._send(call, openapi_v3(self._registry, path), head=True)
            return
        form = _openapi_form(accept, protobuf=path == "/openapi/v2")
        if not form:
            await call.response.send(b"", status=406, headers={"Vary": "Accept"})
        elif form == "protobuf":
            body = encode_openapi_v2(openapi_v2(self._registry))
            await call.response.send(body, content_type=OPENAPI_PROTOBUF, headers={"Vary": "Accept"})
        elif path == "/openapi/v2":
            await self._send(call, openapi_v2(self._registry), head=True)
        else:
            await self._send(call, openapi_v3(self._registry, path), head=True)

    async def _send(self, call: HTTPCall, document: Object | None, *, head: bool = False, pretty: bool = False) -> None:
        """Send a document. Raises 404 if there is none, and 405 for a HEAD unless `head` is True."""
        if document is None:
            raise page_not_found()
        if call.info.method == "HEAD" and not head:
            raise method_not_allowed()
        call.response.pretty = call.response.pretty or pretty
        await call.response.send_json(document)

    async def _send_aggregated(self, call: HTTPCall, discovery: DiscoveryDocuments, path: str) -> None:
        body, tag = discovery.aggregated(path)
        headers = {"ETag": tag, "Vary": "Accept", "Cache-Control": "public"}
        if call.request.headers.get("If-None-Match") == tag:
            await call.response.send(b"", status=304, headers=headers)
            return
        await call.response.send(body, content_type=AGGREGATED, headers=headers)


def _openapi_form(accept: str, *, protobuf: bool) -> str:
    """Return the form named by the first matching clause: "json", "protobuf", or "" if none matches."""
    for clause in accept.split(","):
        media = clause.partition(";")[0].strip()
        if media in ("", "*/*", "application/*", "application/json"):
            return "json"
        if protobuf and media.replace("@", ".") == OPENAPI_PROTOBUF:
            return "protobuf"
    return ""


def _accepts_aggregated(call: HTTPCall) -> bool:
    accept = call.request.headers.get("Accept", "")
    return "APIGroupDiscoveryList" in accept and "v=v2" in accept.replace("v=v2beta1", "")
