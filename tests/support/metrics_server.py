"""A server of `metrics.k8s.io`, whose resource can be listed and not watched."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from tests.support.http_server import json_answer, status_answer

METRICS = "metrics.k8s.io/v1beta1/pods"

_VERSION = METRICS.rpartition("/")[0]
_PATH = f"/apis/{_VERSION}"


class MetricsServer:
    """The handler of an `HttpServer`: items without a uid and a version, in a list without one.

    `usage` has the CPU of each pod in the namespace shop, `lists` the times of the lists, `versions` those that were
    asked for. With `fails`, a list is answered by this status, and otherwise after so many `seconds`.
    """

    def __init__(self, verbs: Any = ("get", "list")) -> None:
        self.usage: dict[str, str] = {"web-1": "100m", "web-2": "50m"}
        self.verbs = verbs
        self.lists: list[float] = []
        self.watches = 0
        self.versions: set[str | None] = set()
        self.fails: int | None = None
        self.seconds = 0.0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        document = self._discovery().get(request.path)
        if document is not None:
            return json_answer(document)
        if not (request.path.startswith(_PATH) and request.path.endswith("/pods")):
            return status_answer(404, "NotFound")
        if "watch" in request.query:
            self.watches += 1
            return status_answer(405, "MethodNotAllowed", "the server does not allow this method on the resource")
        self.lists.append(asyncio.get_running_loop().time())
        self.versions.add(request.query.get("resourceVersion"))
        if self.fails is not None:
            return status_answer(self.fails, "")
        await asyncio.sleep(self.seconds)
        items = [
            {"metadata": {"name": name, "namespace": "shop"}, "containers": [{"name": "app", "usage": {"cpu": cpu}}]}
            for name, cpu in self.usage.items()
        ]
        return json_answer({"kind": "PodMetricsList", "apiVersion": _VERSION, "metadata": {}, "items": items})

    def _discovery(self) -> dict[str, Any]:
        pods = {"name": "pods", "kind": "PodMetrics", "namespaced": True, "verbs": self.verbs}
        group = {"name": "metrics.k8s.io", "versions": [{"groupVersion": _VERSION, "version": "v1beta1"}]}
        return {
            "/version": {"major": "1", "minor": "34", "gitVersion": "v1.34.0"},
            "/api": {"kind": "APIVersions", "versions": []},
            "/apis": {"kind": "APIGroupList", "groups": [group]},
            _PATH: {"kind": "APIResourceList", "groupVersion": _VERSION, "resources": [pods]},
        }
