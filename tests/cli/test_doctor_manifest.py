"""`kinformer doctor --manifest`: the rights that a program has used on the embedded server, as YAML to apply."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import yaml

from kinformer.testing import APIServer
from tests.support.cli import CommandLine, Ended
from tests.support.operator_process import ACCOUNT, FOLDER, MANIFESTS, NAMESPACE, watch_a_website_come_and_go

pytestmark = pytest.mark.process

CRD, SAMPLE = str(MANIFESTS / "10-crd.yaml"), str(FOLDER / "website.yaml")


@pytest.fixture
def kinformer(capfd: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capfd)


def program(folder: Path, body: str, name: str = "tidy_up.py") -> str:
    """Write a program whose requests are those of `body`, which has a `client`."""
    file = folder / name
    head = "import asyncio, os, sys\nfrom kinformer import Client\n\n\nasync def main() -> None:\n"
    body = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    file.write_text(f"{head}    async with Client() as client:\n{body}\n\n\nasyncio.run(main())\n")
    return str(file)


def rules(ended: Ended) -> list[dict[str, Any]]:
    assert ended.status == 0, ended.err
    _, role, _ = yaml.safe_load_all(ended.out)
    return list(role["rules"])


async def test_the_rights_are_bound_to_a_service_account_of_the_programs_name(
    kinformer: CommandLine, tmp_path: Path
) -> None:
    ended = await kinformer(
        *("doctor", "-n", "ops", "--manifest"),
        program(tmp_path, 'print([pod async for pod in client.list("v1/pods")])'),
    )
    assert ended.status == 0
    account, role, binding = yaml.safe_load_all(ended.out)
    assert (account["kind"], account["metadata"]) == ("ServiceAccount", {"name": "tidy-up", "namespace": "ops"})
    assert (role["kind"], role["metadata"]) == ("ClusterRole", {"name": "tidy-up"})
    assert role["rules"] == [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    assert (binding["kind"], binding["roleRef"]["name"]) == ("ClusterRoleBinding", "tidy-up")
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "tidy-up", "namespace": "ops"}]
    assert "[]" in ended.err, "the program's own output is no YAML"
    assert "did not run are missing" in ended.err


async def test_another_name_than_the_programs_is_given_to_all_three(kinformer: CommandLine, tmp_path: Path) -> None:
    body = 'print([pod async for pod in client.list("v1/pods")])'
    ended = await kinformer("doctor", "-n", "ops", "--name", "tidy", "--manifest", program(tmp_path, body))
    assert ended.status == 0
    account, role, binding = yaml.safe_load_all(ended.out)
    assert account["metadata"] == {"name": "tidy", "namespace": "ops"}
    assert role["metadata"] == binding["metadata"] == {"name": "tidy"}
    assert binding["roleRef"]["name"] == "tidy"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "tidy", "namespace": "ops"}]


async def test_requests_become_verbs_by_group_and_resource(kinformer: CommandLine, tmp_path: Path) -> None:
    body = """
        for name in ("a", "b"):
            config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
            await client.create(config_map)
            await client.get("v1/configmaps", f"default/{name}")
            await client.patch("v1/configmaps", f"default/{name}", {"data": {"x": "y"}})
            await client.delete("v1/configmaps", f"default/{name}")
        await client.request("DELETE", "/api/v1/namespaces/default/secrets")
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
        web = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "default"}}
        web["spec"] = spec
        await client.apply(web, field_manager="tidy-up")
        async for _ in client.list("apps/v1/deployments"):
            pass
        await client.patch("apps/v1/deployments", "default/web", {"status": {}}, subresource="status")
        await client.request("GET", "/version")
        async with client.stream("/metrics") as metrics:
            await metrics.read_all(1 << 20)
    """
    ended = await kinformer("doctor", "--manifest", program(tmp_path, body))
    assert rules(ended) == [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "create", "patch", "delete"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["deletecollection"]},
        {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "create", "patch"]},
        {"apiGroups": ["apps"], "resources": ["deployments/status"], "verbs": ["patch"]},
    ]
    assert "without a resource are missing: /metrics\n" in ended.err


async def test_resources_with_the_same_verbs_share_a_rule(kinformer: CommandLine, tmp_path: Path) -> None:
    body = """
        from kinformer import SharedInformerFactory
        async with SharedInformerFactory(client) as factory:
            for resource in ("v1/pods", "v1/services", "apps/v1/deployments"):
                factory.for_resource(resource)
            await factory.wait_for_cache_sync(timeout=20)
    """
    found = rules(await kinformer("doctor", "--manifest", program(tmp_path, body)))
    verbs = ["list", "watch"]  # whether the first list was streamed or not
    assert {"apiGroups": [""], "resources": ["pods", "services"], "verbs": verbs} in found
    assert {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": verbs} in found


async def test_a_name_limits_a_rule_only_if_all_requests_have_it(kinformer: CommandLine, tmp_path: Path) -> None:
    body = """
        for kind, names in {"ConfigMap": ["only"], "Secret": ["one", "other"], "ServiceAccount": ["seen"]}.items():
            for name in names:
                metadata = {"name": name, "namespace": "default"}
                await client.create({"apiVersion": "v1", "kind": kind, "metadata": metadata})
                await client.patch(f"v1/{kind.lower()}s", f"default/{name}", {"metadata": {"labels": {"a": "b"}}})
        async for _ in client.list("v1/serviceaccounts"):
            pass
    """
    ended = await kinformer("doctor", "--manifest", program(tmp_path, body))
    assert rules(ended) == [
        {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["only"], "verbs": ["patch"]},
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "patch"]},
        {"apiGroups": [""], "resources": ["serviceaccounts"], "verbs": ["list", "create", "patch"]},
    ]
    assert "remove resourceNames if there are other objects than the only one used: configmaps" in ended.err


async def test_arguments_after_the_dashes_are_the_programs(kinformer: CommandLine, tmp_path: Path) -> None:
    body = """
        assert sys.argv[1:] == ["pods", "--port", "8080", "-n", "shop"], sys.argv
        assert (await client.connection_info()).namespace == "ops"
        await client.request("GET", "/api/v1/nodes")
    """
    file = program(tmp_path, body)
    ended = await kinformer("doctor", "-n", "ops", "--manifest", file, "--", "pods", "--port", "8080", "-n", "shop")
    assert rules(ended) == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]


async def test_a_module_is_run_as_python_does(
    kinformer: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "chores").mkdir()
    program(tmp_path / "chores", 'await client.request("GET", "/api/v1/nodes")', "count.py")
    ended = await kinformer("doctor", "--manifest", "chores.count")
    assert rules(ended) == [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}]
    assert yaml.safe_load(ended.out.partition("---")[0])["metadata"]["name"] == "chores-count"


# --- what goes wrong ----------------------------------------------------------------------------------------


def last_line(ended: Ended) -> str:
    assert ended.out == ""
    return ended.err.splitlines()[-1]


@pytest.mark.parametrize("name", ["absent.py", "absent", "absent/module", "no module"])
async def test_a_program_that_does_not_exist(kinformer: CommandLine, name: str) -> None:
    ended = await kinformer("doctor", "--manifest", name)
    assert ended.status == 2
    assert last_line(ended) == f"kinformer: invalid --manifest {name!r}: there is no such Python file or module"


async def test_a_program_that_ends_with_an_error(kinformer: CommandLine, tmp_path: Path) -> None:
    file = program(tmp_path, 'await client.request("GET", "/api/v1/nodes"); print("the reason"); sys.exit(3)')
    ended = await kinformer("doctor", "--manifest", file)
    assert ended.status == 1
    assert last_line(ended) == f"kinformer: {file} ended with status 3"
    assert "the reason" in ended.err


async def test_a_program_whose_definition_is_missing(kinformer: CommandLine, tmp_path: Path) -> None:
    file = program(tmp_path, 'print([one async for one in client.list("example.com/v1/websites")])')
    ended = await kinformer("doctor", "--manifest", file)
    assert ended.status == 1
    missing = "pass the CustomResourceDefinition of websites.example.com with --apply"
    assert last_line(ended) == f"kinformer: {file} ended with status 1; {missing}"
    assert rules(await kinformer("doctor", "--manifest", file, "--apply", CRD)) == [
        {"apiGroups": ["example.com"], "resources": ["websites"], "verbs": ["list"]}
    ]


async def test_a_program_without_requests(kinformer: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("import time\ntime.sleep(60)\n")
    ended = await kinformer("doctor", "--timeout", "0.5", "--manifest", str(tmp_path / "idle.py"))
    assert ended.status == 1
    assert "made no request within 0.5 s" in last_line(ended)


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (None, "no such file"),
        ("a: [", "not YAML"),
        ("{apiVersion: v1, kind: Fou, metadata: {name: a}}", "Fou a: 400"),
        ("{apiVersion: v1, kind: Service, metadata: {name: a}}", "Service a: 422"),
    ],
)
async def test_objects_that_cannot_be_applied(
    kinformer: CommandLine, tmp_path: Path, content: str | None, named: str
) -> None:
    if content is not None:
        (tmp_path / "a.yaml").write_text(content)
    ended = await kinformer("doctor", "--manifest", __file__, "--apply", str(tmp_path / "a.yaml"))
    assert ended.status == 1
    assert named in last_line(ended)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--manifest", __file__, "-A"), "--manifest can be combined with -n"),
        (("--manifest", __file__, "--server", "http://127.0.0.1:1"), "--manifest can be combined with -n"),
        (("pods", "--apply", "a.yaml"), "--apply requires --manifest"),
        (("pods", "--name", "a"), "--name requires --manifest"),
        (("pods", "nodes"), "unexpected argument nodes"),
    ],
)
async def test_options_that_exclude_each_other(kinformer: CommandLine, options: tuple[str, ...], named: str) -> None:
    ended = await kinformer("doctor", *options)
    assert ended.status == 2
    assert named in last_line(ended)


# --- a whole operator ---------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_an_operator_lives_with_the_rights_that_were_written(kinformer: CommandLine, tmp_path: Path) -> None:
    """Its finalizer ran too, because the sample was deleted at the end, and so did what follows a ready Deployment."""
    operator = ("--manifest", str(FOLDER / "website_operator.py"), "--apply", CRD, "--apply", SAMPLE)
    ended = await kinformer("doctor", "-n", NAMESPACE, *operator)
    assert "Available" in ended.err
    assert "has left the directory" in ended.err
    leases = [rule for rule in rules(ended) if rule["resources"] == ["leases"]]
    assert leases == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["website-operator"],
            "verbs": ["get", "update"],
        },
        {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
    ]
    async with APIServer(users={"t0ken": ACCOUNT}, rbac=True) as server:
        await watch_a_website_come_and_go(server, tmp_path, yaml.safe_load_all(ended.out))
        assert [request for request in server.requests if request.user == ACCOUNT and request.status == 403] == []
