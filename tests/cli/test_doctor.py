"""`kinformer doctor`: each thing that can be wrong is found, named, told from the others, and has a way out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from kinformer.testing import APIServer, Features, faults
from tests.support import kube
from tests.support.certificates import server_side
from tests.support.cli import CommandLine, Ended
from tests.support.http_server import HttpServer
from tests.support.metrics_server import MetricsServer


def config_map(name: str, namespace: str = "default", size: int = 10) -> dict[str, Any]:
    return kube.config_map(name, namespace=namespace, labels={"app": "web"}, data={"x": "y" * size})


@pytest.fixture
def kinformer(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)


def steps(ended: Ended) -> dict[str, dict[str, Any]]:
    """The findings of `-o json`, by step."""
    document = json.loads(ended.out)
    assert document["status"] == ended.status
    assert document["ok"] == (ended.status == 0)
    assert ended.err == ""
    return {step["step"]: step for step in document["steps"]}


def verdicts(ended: Ended) -> dict[str, str]:
    return {name: step["verdict"] for name, step in steps(ended).items()}


async def test_a_resource_that_works_is_measured(server: APIServer, kinformer: CommandLine) -> None:
    list(server.generate("v1/configmaps", 1200))
    server.create(config_map("the-large-one", "aaa", size=50_000))
    ended = await kinformer("doctor", "cm", "--server", server.url, "-o", "json")
    found = steps(ended)
    assert ended.status == 0
    assert {step["verdict"] for name, step in found.items() if name != "authentication"} == {"ok"}
    assert found["resource"]["data"]["resource"] == "v1/configmaps"
    assert found["list"]["data"]["total"] == 1201
    assert found["list"]["data"]["page"] == 500
    assert found["objects"]["data"]["largest_key"] == "aaa/the-large-one"
    assert 50_000 < found["objects"]["data"]["largest"] < 51_000
    expected = found["informer"]["data"]
    assert expected["objects"] == 1201
    assert expected["memory"] == pytest.approx(1201 * (found["objects"]["data"]["mean"] + 300), rel=0.01)
    assert expected["memory_compact"] < expected["memory"]
    assert expected["memory_metadata_only"] < expected["memory"]
    assert expected["list_seconds"] > found["list"]["data"]["seconds"]
    assert found["watch list"]["data"]["supported"] is True
    assert found["shards"]["data"]["supported"] is False
    assert {"latency_seconds", "version", "clock_skew_seconds"} <= set(found["server"]["data"])


async def test_what_the_doctor_expects_is_what_an_informer_takes(server: APIServer, kinformer: CommandLine) -> None:
    list(server.generate("v1/pods", 400))
    found = steps(await kinformer("doctor", "pods", "--server", server.url, "-o", "json"))
    stats = await kinformer("stats", "pods", "-A", "--once", "--interval", "0.1", "-o", "json", "--server", server.url)
    (informer,) = json.loads(stats.out)["informers"]
    assert found["informer"]["data"]["memory"] == pytest.approx(informer["memory"], rel=0.02)


async def test_for_people_each_step_is_a_line_and_the_last_says_it_all(
    server: APIServer, kinformer: CommandLine
) -> None:
    server.create(config_map("a"))
    ended = await kinformer("doctor", "configmaps", "-n", "default", "--server", server.url)
    lines = [line for line in ended.out.splitlines() if line and not line.startswith(" ")]
    assert [line[6:22].strip() for line in lines[:-1]] == [
        *("configuration", "credentials", "server", "authentication", "resource"),
        *("rights", "list", "watch", "watch list", "shards", "objects", "informer"),
    ]
    assert "list and watch configmaps in namespace default" in ended.out
    assert lines[-1].startswith("An informer of v1/configmaps works: 1 object, about ")


async def test_without_a_resource_the_server_alone_is_looked_at(server: APIServer, kinformer: CommandLine) -> None:
    ended = await kinformer("doctor", "--server", server.url)
    assert ended.status == 0
    assert "can be listed and watched" in ended.out
    assert "rights" not in ended.out


async def test_what_a_server_does_not_have_is_said_and_is_no_failure(kinformer: CommandLine) -> None:
    async with APIServer(features=Features(watch_list=False)) as old:
        found = steps(await kinformer("doctor", "pods", "--server", old.url, "-o", "json"))
    assert (found["watch list"]["verdict"], found["watch list"]["data"]) == ("ok", {"supported": False})
    assert "list instead" in found["watch list"]["text"]
    async with APIServer(features=Features(sharding=True)) as new:
        found = steps(await kinformer("doctor", "pods", "--server", new.url, "-o", "json"))
    assert found["shards"]["data"] == {"supported": True}


# --- failures, each with its status -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "No such file"),
        ("{", "not YAML"),
        ("{}", "current-context"),
        ("current-context: x\ncontexts: []", "'x' is not in contexts"),
    ],
)
async def test_3_a_kubeconfig_that_cannot_be_used(
    kinformer: CommandLine, tmp_path: Path, content: str | None, named: str
) -> None:
    path = tmp_path / "config"
    if content is not None:
        path.write_text(content)
    ended = await kinformer("doctor", "pods", "--kubeconfig", str(path), "-o", "json")
    assert ended.status == 3
    failed = steps(ended)["configuration"]
    assert str(path) in failed["text"]
    assert named in failed["text"]
    assert failed["advice"]
    assert set(list(verdicts(ended).values())[1:]) == {"skip"}


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "https://kinformer.invalid"])
async def test_4_a_server_that_is_not_there(kinformer: CommandLine, url: str) -> None:
    ended = await kinformer("doctor", "pods", "--server", url, "-o", "json")
    assert ended.status == 4
    assert url.partition("//")[2] in steps(ended)["server"]["text"]
    assert steps(ended)["server"]["advice"]


async def test_4_a_server_that_does_not_answer(server: APIServer, kinformer: CommandLine) -> None:
    server.pause()
    try:
        ended = await kinformer("doctor", "pods", "--server", server.url, "-o", "json", "--timeout", "0.3")
    finally:
        server.resume()
    assert ended.status == 4
    assert "no response within 0.3 s" in steps(ended)["server"]["text"]


async def test_4_something_that_is_no_api_server(kinformer: CommandLine) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>please log in</html>", content_type="text/html")

    async with HttpServer(page) as login:
        ended = await kinformer("doctor", "pods", "--server", login.url, "-o", "json")
    assert ended.status == 4
    assert "not like an API server" in steps(ended)["server"]["text"]


async def version(request: web.Request) -> web.Response:
    if request.path == "/version":
        return web.json_response({"gitVersion": "v1.99.0"}, headers={"Date": "Thu, 01 Jan 2015 10:00:00 GMT"})
    return web.json_response({"kind": "Status", "code": 401, "message": "Unauthorized"}, status=401)


def kubeconfig(path: Path, url: str, **cluster: Any) -> str:
    config = {
        "clusters": [{"name": "c", "cluster": {"server": url, **cluster}}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(config))
    return str(path)


async def test_4_a_certificate_that_is_not_trusted_or_no_tls_at_all(kinformer: CommandLine, certificates: Path) -> None:
    async with HttpServer(version, ssl_context=server_side(certificates)) as server:
        ended = await kinformer("doctor", "pods", "--server", server.url, "-o", "json")
        assert ended.status == 4
        assert "certificate verify failed" in steps(ended)["server"]["text"]
        assert "certificate-authority" in steps(ended)["server"]["advice"][0]
        plain = server.url.replace("https", "http")
        ended = await kinformer("doctor", "pods", "--server", plain, "-o", "json")
        assert (ended.status, verdicts(ended)["server"]) == (4, "fail")
    async with HttpServer(version) as server:
        ended = await kinformer("doctor", "pods", "--server", server.url.replace("http", "https"), "-o", "json")
        assert ended.status == 4
        assert "should begin with https://" in steps(ended)["server"]["advice"][0]


async def test_a_certificate_that_is_trusted_is_said_to_be_and_one_that_is_not_looked_at_too(
    kinformer: CommandLine, certificates: Path, tmp_path: Path
) -> None:
    async with HttpServer(version, ssl_context=server_side(certificates)) as server:
        path = kubeconfig(tmp_path / "config", server.url, **{"certificate-authority": str(certificates / "local.crt")})
        trusted = steps(await kinformer("doctor", "pods", "--kubeconfig", path, "-o", "json"))["server"]
        path = kubeconfig(tmp_path / "config", server.url, **{"insecure-skip-tls-verify": True})
        unverified = steps(await kinformer("doctor", "pods", "--kubeconfig", path, "-o", "json"))["server"]
    assert "verified by the kubeconfig's authority" in trusted["text"]
    assert unverified["verdict"] == "warn"
    assert "insecure-skip-tls-verify" in unverified["advice"][0]


async def test_clocks_that_are_apart_are_told_of(kinformer: CommandLine) -> None:
    async with HttpServer(version) as server:
        found = steps(await kinformer("doctor", "pods", "--server", server.url, "-o", "json"))["server"]
    assert found["verdict"] == "warn"
    assert "behind this one" in found["text"]
    assert found["data"]["clock_skew_seconds"] < -5


async def test_5_a_token_that_nobody_knows(kinformer: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "config"
    async with APIServer(users={"secret": "eve"}) as server:
        server.kubeconfig(path, user="eve")
        path.write_text(path.read_text().replace("secret", "expired"))
        ended = await kinformer("doctor", "pods", "--kubeconfig", str(path), "-o", "json")
    assert ended.status == 5
    assert verdicts(ended)["server"] == "ok"
    assert "log in again" in steps(ended)["authentication"]["advice"][0]
    assert "expired" not in steps(ended)["authentication"]["text"], "a token must not be shown"


@pytest.mark.process
async def test_5_a_plugin_that_gives_no_credentials(server: APIServer, kinformer: CommandLine, tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "false"}
    config = {
        "clusters": [{"name": "c", "cluster": {"server": server.url}}],
        "users": [{"name": "u", "user": {"exec": plugin}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(config))
    ended = await kinformer("doctor", "pods", "--kubeconfig", str(path), "-o", "json")
    assert ended.status == 5
    assert "users[u]" in steps(ended)["credentials"]["text"]
    assert "false ended with status 1" in steps(ended)["credentials"]["text"]


async def test_6_a_resource_that_is_not_there_or_cannot_be_followed(server: APIServer, kinformer: CommandLine) -> None:
    ended = await kinformer("doctor", "podz", "--server", server.url, "-o", "json")
    assert ended.status == 6
    assert "the nearest is v1/pods" in steps(ended)["resource"]["text"]
    ended = await kinformer("doctor", "tokenreviews", "--server", server.url, "-o", "json")
    assert ended.status == 6
    assert "has no list and no watch" in steps(ended)["resource"]["text"]


async def test_a_resource_that_cannot_be_watched_works_with_poll(kinformer: CommandLine) -> None:
    async with HttpServer(MetricsServer()) as server:
        ended = await kinformer("doctor", "podmetrics", "--server", server.url, "-o", "json")
    assert ended.status == 0
    found = steps(ended)
    assert found["resource"]["verdict"] == "warn"
    assert "poll=30" in found["resource"]["advice"][0]
    assert (found["list"]["verdict"], found["watch"]["verdict"], found["watch list"]["verdict"]) == (
        "ok",
        "skip",
        "skip",
    )


@pytest.mark.parametrize(
    ("rights", "fails"),
    [((), ("rights", "list")), (("list",), ("rights", "watch")), (("watch",), ("rights", "list"))],
)
async def test_7_a_right_that_is_missing_comes_with_the_rule_to_apply(
    kinformer: CommandLine, tmp_path: Path, rights: tuple[str, ...], fails: tuple[str, ...]
) -> None:
    path = tmp_path / "config"
    rules = [("system:serviceaccount:ops:eve", verb, "apps/v1/deployments") for verb in rights]
    async with APIServer(users={"secret": "system:serviceaccount:ops:eve"}, rules=rules) as server:
        server.kubeconfig(path, user="system:serviceaccount:ops:eve")
        ended = await kinformer("doctor", "deploy", "-n", "shop", "--kubeconfig", str(path), "-o", "json")
    assert ended.status == 7
    found = steps(ended)
    assert tuple(name for name, step in found.items() if step["verdict"] == "fail") == fails
    (advice,) = found["rights"]["advice"]
    role, binding = yaml.safe_load_all(advice.partition("\n")[2])
    assert (role["kind"], role["metadata"]["namespace"]) == ("Role", "shop")
    assert role["rules"] == [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]}]
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "namespace": "ops", "name": "eve"}]


@pytest.mark.parametrize(("where", "namespace"), [("-A", ""), ("--namespace=default", "namespaces/default/")])
async def test_the_rule_that_is_advised_is_one_that_a_server_takes(
    kinformer: CommandLine, tmp_path: Path, where: str, namespace: str
) -> None:
    async with APIServer(users={"secret": "eve"}, rules=[]) as server, server.client() as client:
        path = server.kubeconfig(tmp_path / "config", user="eve")
        ended = await kinformer("doctor", "deploy", where, "--kubeconfig", str(path), "-o", "json")
        (advice,) = steps(ended)["rights"]["advice"]
        role, binding = yaml.safe_load_all(advice.partition("\n")[2])
        for document in (role, binding):
            plural = f"{document['kind'].lower()}s"
            await client.request("POST", f"/apis/rbac.authorization.k8s.io/v1/{namespace}{plural}", body=document)
    assert role["kind"] == ("Role" if namespace else "ClusterRole")


async def test_1_a_selector_that_the_server_does_not_take(server: APIServer, kinformer: CommandLine) -> None:
    selector = ("--field-selector", "spec.nothing=1")
    ended = await kinformer("doctor", "pods", *selector, "--server", server.url, "-o", "json")
    assert ended.status == 1
    assert "--field-selector spec.nothing=1" in steps(ended)["list"]["advice"][0]


async def test_1_a_server_that_fails(server: APIServer, kinformer: CommandLine) -> None:
    server.faults.add(faults.status(500), verb="list", resource="v1/pods")
    ended = await kinformer("doctor", "pods", "--server", server.url, "-o", "json")
    assert ended.status == 1
    assert "500" in steps(ended)["list"]["text"]


async def test_a_watch_that_is_held_back_is_found(server: APIServer, kinformer: CommandLine) -> None:
    server.faults.add(faults.delay(5), verb="watch", resource="v1/pods")
    ended = await kinformer("doctor", "pods", "--server", server.url, "-o", "json", "--timeout", "1")
    assert ended.status == 4
    assert "no response to a watch within 1.0 s" in steps(ended)["watch"]["text"]


@pytest.mark.slow
async def test_what_a_selector_chooses_is_counted_as_far_as_the_time_goes(
    server: APIServer, kinformer: CommandLine
) -> None:
    for number in range(501):
        server.create(config_map(f"cm-{number:03}"))
    selected = ("doctor", "cm", "-l", "app=web", "--server", server.url)
    found = steps(await kinformer(*selected, "-o", "json"))
    assert found["list"]["data"]["total"] == found["informer"]["data"]["objects"] == 501
    server.faults.add(faults.delay(0.35), verb="list", resource="v1/configmaps")  # each request, and counting takes two
    ended = await kinformer(*selected, "--timeout", "0.6")
    assert ended.status == 0
    assert "more than 500 objects" in ended.out
    assert "500 objects at least" in ended.out.splitlines()[-1]


async def test_an_object_that_is_too_large_is_named(server: APIServer, kinformer: CommandLine) -> None:
    server.create(config_map("huge", size=900_000))
    ended = await kinformer("doctor", "cm", "--server", server.url, "-o", "json")
    assert ended.status == 0
    assert steps(ended)["objects"]["verdict"] == "warn"
    assert "default/huge" in steps(ended)["objects"]["text"]


async def test_an_empty_resource_and_one_of_the_cluster_work(server: APIServer, kinformer: CommandLine) -> None:
    ended = await kinformer("doctor", "nodes", "-n", "default", "--server", server.url, "-o", "json")
    assert ended.status == 0
    assert steps(ended)["objects"]["text"] == "no objects to measure"
    assert "namespace" not in steps(ended)["rights"]["text"]
