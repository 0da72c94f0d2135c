from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client, GroupVersionResource, ListOptions, ListWatch
from kinformer.client import APIResource, Discovery, discover
from kinformer.exceptions import ConfigError, NotFoundError, ServerError
from tests.support.http_server import HttpServer, json_answer, status_answer
from tests.support.log_records import Said, message_of, said

CORE = {"v1": [("pods", "Pod", ["po"], True), ("nodes", "Node", ["no"], False), ("events", "Event", ["ev"], True)]}
GROUPS = {
    "apps": {
        "v1": [("deployments", "Deployment", ["deploy"], True)],
        "v1beta1": [("deployments", "Deployment", ["deploy"], True)],
    },
    "events.k8s.io": {"v1": [("events", "Event", ["ev"], True)]},
    "metrics.k8s.io": {"v1beta1": [("pods", "PodMetrics", [], True)]},
}


def resource(name: str, kind: str, short: list[str], namespaced: bool) -> dict[str, Any]:
    return {
        "name": name,
        "kind": kind,
        "singularName": kind.lower(),
        "shortNames": short,
        "namespaced": namespaced,
        "verbs": ["get", "list", "watch"],
    }


def aggregated(groups: dict[str, Any]) -> dict[str, Any]:
    def one(name: str, kind: str, short: list[str], namespaced: bool) -> dict[str, Any]:
        return {
            "resource": name,
            "responseKind": {"group": "", "version": "", "kind": kind},
            "shortNames": short,
            "scope": "Namespaced" if namespaced else "Cluster",
            "singularResource": kind.lower(),
            "verbs": ["get", "list", "watch"],
            "subresources": [{"subresource": "status"}],
        }

    items = [
        {
            "metadata": {"name": group} if group else {},
            "versions": [
                {"version": version, "resources": [one(*entry) for entry in entries], "freshness": "Current"}
                for version, entries in versions.items()
            ],
        }
        for group, versions in groups.items()
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}


class Api:
    """Discovery of a small server, old or new, with faults."""

    def __init__(self, *, new: bool = False) -> None:
        self.new = new
        self.paths: list[str] = []
        self.overrides: dict[str, web.Response] = {}

    async def __call__(self, request: web.Request) -> web.Response:
        path = request.path
        self.paths.append(path)
        if path in self.overrides:
            return self.overrides[path]
        if self.new and "APIGroupDiscoveryList" in request.headers["Accept"]:
            return json_answer(aggregated({"": CORE} if path == "/api" else GROUPS))
        if path == "/api":
            return json_answer({"kind": "APIVersions", "versions": ["v1"]})
        if path == "/apis":
            return json_answer(
                {
                    "kind": "APIGroupList",
                    "apiVersion": "v1",
                    "groups": [
                        {
                            "name": group,
                            "versions": [{"groupVersion": f"{group}/{v}", "version": v} for v in reversed(versions)],
                            "preferredVersion": {"groupVersion": f"{group}/v1", "version": "v1"},
                        }
                        for group, versions in GROUPS.items()
                    ],
                }
            )
        group, _, version = path.removeprefix("/apis/").removeprefix("/api/").rpartition("/")
        entries = CORE.get(version) if not group else GROUPS.get(group, {}).get(version)
        if entries is None:
            return web.Response(status=404, text="404 page not found\n")
        resources = [resource(*entry) for entry in entries]
        resources.append({"name": "pods/status", "kind": "Pod", "namespaced": True, "verbs": ["get"]})
        return json_answer(
            {"kind": "APIResourceList", "groupVersion": f"{group}/{version}".lstrip("/"), "resources": resources}
        )


EVERYTHING = [
    "v1/pods",
    "v1/nodes",
    "v1/events",
    "apps/v1/deployments",
    "apps/v1beta1/deployments",
    "events.k8s.io/v1/events",
    "metrics.k8s.io/v1beta1/pods",
]


@pytest.mark.parametrize("new", [True, False])
async def test_old_and_new_discovery_find_the_same_resources(new: bool) -> None:
    api = Api(new=new)
    async with HttpServer(api) as server, Client.from_url(server.url) as client:
        found = await discover(client)
    assert [str(resource) for resource in found] == EVERYTHING
    assert isinstance(found, Discovery)
    assert found[0] == APIResource(
        group="",
        version="v1",
        name="pods",
        kind="Pod",
        singular="pod",
        short_names=("po",),
        namespaced=True,
        verbs=("get", "list", "watch"),
    )
    assert not found[1].namespaced
    assert found[3].gvr == GroupVersionResource("apps", "v1", "deployments")
    assert len(api.paths) == (2 if new else 7)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("pods", "v1/pods"),
        ("po", "v1/pods"),
        ("Pod", "v1/pods"),
        ("pod", "v1/pods"),
        ("PODS", "v1/pods"),
        ("v1/pods", "v1/pods"),
        ("deployments.apps", "apps/v1/deployments"),
        ("deploy.apps", "apps/v1/deployments"),
        ("deployments.v1beta1.apps", "apps/v1beta1/deployments"),
        ("apps/v1beta1/deployments", "apps/v1beta1/deployments"),
        ("Deployment", "apps/v1/deployments"),
        ("events", "v1/events"),
        ("ev", "v1/events"),
        ("events.events.k8s.io", "events.k8s.io/v1/events"),
        ("pods.metrics.k8s.io", "metrics.k8s.io/v1beta1/pods"),
        ("podmetrics", "metrics.k8s.io/v1beta1/pods"),
    ],
)
async def test_a_resource_is_found_by_the_names_that_kubectl_takes(name: str, meant: str) -> None:
    async with HttpServer(Api(new=True)) as server, Client.from_url(server.url) as client:
        assert str((await discover(client)).find(name)) == meant


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("podz", "; the nearest is v1/pods"),
        ("deployment.v2.apps", "; the nearest is apps/v1/deployments"),
        ("v1/deployments", "; the nearest is apps/v1/deployments"),
        ("zzzzzz", "'zzzzzz'$"),
    ],
)
async def test_an_unknown_name_is_a_config_error_that_names_the_nearest(name: str, hint: str) -> None:
    async with HttpServer(Api(new=True)) as server, Client.from_url(server.url) as client:
        with pytest.raises(ConfigError, match=hint):
            (await discover(client)).find(name)


async def test_a_group_whose_server_is_down_is_left_out_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    api = Api()
    api.overrides["/apis/metrics.k8s.io/v1beta1"] = status_answer(503, "ServiceUnavailable")
    async with HttpServer(api) as server, Client.from_url(server.url) as client:
        assert [str(resource) for resource in await discover(client)] == EVERYTHING[:-1]
    assert len(caplog.records) == 1
    assert said(caplog, "server") == [Said("WARNING", "kinformer.discovery")]
    assert "metrics.k8s.io/v1beta1" in message_of(caplog, "server")


async def test_discovery_without_its_root_fails() -> None:
    api = Api()
    api.overrides["/apis"] = status_answer(500, "InternalError")
    async with HttpServer(api) as server, Client.from_url(server.url) as client:
        with pytest.raises(ServerError):
            await discover(client)


async def nearest_of(client: Client, asked: str) -> str | None:
    """What the 404 of a list says."""
    with pytest.raises(NotFoundError) as caught:
        await ListWatch(client, asked).list(ListOptions())
    return caught.value.nearest


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("apps/v1/deployment", "apps/v1/deployments"),
        ("extensions/v1beta1/deployments", "apps/v1/deployments"),
        ("v1/po", "v1/pods"),
        ("events.k8s.io/v1beta1/events", "events.k8s.io/v1/events"),  # its own group, before others
        ("apps/v2/deployments", "apps/v1/deployments"),
        ("example.com/v1/zzzzzz", ""),
        ("v1/events", None),  # it is there
    ],
)
async def test_the_nearest_resource_is_the_same_elsewhere_or_one_spelt_alike(asked: str, nearest: str | None) -> None:
    async with HttpServer(Api(new=True)) as server, Client.from_url(server.url) as client:
        assert await nearest_of(client, asked) == nearest


async def test_there_is_no_nearest_resource_where_discovery_fails_and_many_ask_once() -> None:
    api = Api(new=True)
    api.overrides["/apis"] = status_answer(403, "Forbidden")
    async with HttpServer(api) as server, Client.from_url(server.url) as client:
        assert await asyncio.gather(*(nearest_of(client, "v1/pod") for _ in range(5))) == [None] * 5
        assert len([path for path in api.paths if path in ("/api", "/apis")]) == 2
        del api.overrides["/apis"]
        assert await asyncio.gather(*(nearest_of(client, "v1/pod") for _ in range(5))) == ["v1/pods"] * 5
        assert len([path for path in api.paths if path in ("/api", "/apis")]) == 4


DEFINITION = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize(
    ("asked", "overrides", "answer"),
    [
        ("apps/v1/deployments", {}, True),
        ("v1/pods", {}, True),
        ("apps/v1/statefulsets", {}, False),
        ("v1/widgets", {}, False),
        ("example.com/v1/widgets", {}, False),
        # another version of its group has the objects
        ("apps/v2/deployments", {}, True),
        ("v2/pods", {}, True),
        # a proxy's 404, or another server's: the groups cannot be read
        ("example.com/v1/widgets", {"/apis": ("text/html", 200, "<html>")}, None),
        ("example.com/v1/widgets", {"/apis": ("text/plain", 404, "404 page not found")}, None),
        ("example.com/v1/widgets", {"/apis": ("application/json", 503, "{}")}, None),
        ("example.com/v1/widgets", {"/apis": ("application/json", 200, '{"hello": "world"}')}, None),
        ("example.com/v1/widgets", {"/apis": ("application/json", 200, '{"groups": []}')}, None),
        # its definition exists, although no version is served; or it may not be read; or that is unknown
        ("example.com/v1/widgets", {DEFINITION: ("application/json", 200, "{}")}, True),
        ("example.com/v1/widgets", {DEFINITION: ("application/json", 403, "{}")}, False),
        ("example.com/v1/widgets", {DEFINITION: ("application/json", 401, "{}")}, None),
        ("example.com/v1/widgets", {DEFINITION: ("text/html", 502, "<html>")}, None),
        ("example.com/v1/widgets", {DEFINITION: ("text/html", 200, "<html>")}, None),
    ],
)
async def test_presence_is_denied_only_by_json_that_says_so(
    asked: str, overrides: dict[str, tuple[str, int, str]], answer: bool | None, new: bool
) -> None:
    api = Api(new=new)
    for path, (content_type, status, text) in overrides.items():
        api.overrides[path] = web.Response(status=status, text=text, content_type=content_type)
    async with HttpServer(api) as server, Client.from_url(server.url) as client:
        assert await ListWatch(client, asked).presence() is answer


@pytest.mark.parametrize(
    ("content_type", "status", "text"),
    [
        ("text/plain", 404, "404 page not found"),
        ("text/html", 200, "<html>"),
        ("application/json", 200, '{"kind": "Status"}'),
        ("application/json", 200, '{"kind": "Status", "resources": []}'),
        ("text/html", 502, "<html>"),
    ],
)
async def test_a_listed_version_that_cannot_be_read_may_have_any_resource(
    content_type: str, status: int, text: str
) -> None:
    api = Api()
    for version in ("v1", "v1beta1"):
        answer = web.Response(status=status, text=text, content_type=content_type)
        api.overrides[f"/apis/apps/{version}"] = answer
    async with HttpServer(api) as server, Client.from_url(server.url) as client:
        assert await ListWatch(client, "apps/v1/deployments").presence() is None
        assert await ListWatch(client, "example.com/v1/widgets").presence() is False  # of a group that is not listed


async def test_a_group_whose_server_is_down_may_have_any_resource() -> None:
    groups = aggregated({"apps": GROUPS["apps"], "example.com": {"v1": []}})
    groups["items"][1]["versions"][0]["freshness"] = "Stale"
    api = Api(new=True)
    api.overrides["/apis"] = json_answer(groups)
    async with HttpServer(api) as server, Client.from_url(server.url) as client:
        assert await ListWatch(client, "example.com/v1/widgets").presence() is None
        assert await ListWatch(client, "apps/v1/statefulsets").presence() is False


async def test_one_look_serves_all_sources_that_ask_within_seconds() -> None:
    api = Api(new=True)
    async with HttpServer(api) as server, Client.from_url(server.url) as client:
        sources = [ListWatch(client, "example.com/v1/widgets", namespace=f"team-{number}") for number in range(20)]
        assert await asyncio.gather(*(source.presence() for source in sources)) == [False] * 20
        assert sorted(api.paths) == ["/api", "/apis", DEFINITION]


async def test_presence_is_unknown_where_nobody_answers() -> None:
    async with Client.from_url("http://127.0.0.1:9") as client:
        assert await ListWatch(client, "apps/v1/deployments").presence() is None
