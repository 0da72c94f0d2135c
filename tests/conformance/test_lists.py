"""Lists: their items, order, form and version."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.conformance.site import MERGE, Site
from tests.conformance.test_objects import configmap, pod

pytestmark = pytest.mark.virtual_time

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
METADATA = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
ONE_METADATA = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"


async def labelled(site: Site) -> None:
    for number, labels in enumerate(
        ({"app": "web", "env": "prod"}, {"app": "web", "env": "dev"}, {"app": "db"}, {"env": ""}, {})
    ):
        await site.make(site.configmaps, {**configmap("x"), "metadata": {"name": f"c{number}", "labels": labels}})


async def test_a_list_is_in_the_order_of_names(site: Site) -> None:
    for name in ("b", "a", "b-1", "b.1", "a0", "0"):
        await site.make(site.configmaps, configmap(name))
    await site.get(site.configmaps)
    await site.get(site.core("secrets"))


async def test_a_list_is_chosen_by_labels(site: Site) -> None:
    await labelled(site)
    for selector in (
        "app%3Dweb",
        "app%3D%3Dweb",
        "app!%3Dweb",
        "app",
        "!app",
        "app+in+(web,db)",
        "app+notin+(web)",
        "app%3Dweb,env%3Dprod",
        "env%3D",
        "env+in+()",
        "nothing%3Dthere",
        "",
    ):
        await site.get(f"{site.configmaps}?labelSelector={selector}")


async def test_a_bad_label_selector_is_told_of(site: Site) -> None:
    for selector in (
        "%3D",
        "a+in",
        "a+in+b",
        "a+in+(b",
        "a%3D%3D%3Db",
        ",a",
        "a,,b",
        "a+b",
        "-a",
        "a%3D-",
        "a>1",
        "a>x",
        "a/b/c%3D1",
    ):
        await site.get(f"{site.configmaps}?labelSelector={selector}")


async def test_a_list_is_chosen_by_fields(site: Site) -> None:
    for name, node in (("a", "n1"), ("b", "n2"), ("c", "")):
        body = pod(name)
        if node:
            body["spec"]["nodeName"] = node
        await site.make(site.pods, body)
    for selector in (
        "metadata.name%3Da",
        "metadata.name!%3Da",
        f"metadata.namespace%3D{site.namespace}",
        "spec.nodeName%3Dn1",
        "spec.nodeName%3D",
        "status.phase%3DPending",
        "status.phase!%3DPending",
        "spec.restartPolicy%3DAlways,spec.nodeName%3Dn2",
        "spec.host%3Dn1",
        "metadata.labels.x%3D1",
        "spec.nodeName",
    ):
        await site.get(
            f"{site.pods}?fieldSelector={selector}", accept=ONE_METADATA.replace("Metadata;", "MetadataList;")
        )
    await site.get(f"{site.configmaps}?fieldSelector=data.x%3D1")


async def test_a_list_comes_in_pages(site: Site) -> None:
    for number in range(5):
        await site.make(site.configmaps, configmap(f"c{number}"))
    first = (await site.get(f"{site.configmaps}?limit=2")).json
    await site.make(site.configmaps, configmap("c00-late"))
    token = first["metadata"]["continue"]
    second = (await site.get(f"{site.configmaps}?limit=2&continue={token}")).json
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    token = second["metadata"]["continue"]
    last = (await site.get(f"{site.configmaps}?limit=2&continue={token}")).json
    assert "continue" not in last["metadata"]
    await site.get(f"{site.configmaps}?limit=2&labelSelector=a%3Db")
    await site.get(f"{site.configmaps}?limit=0")
    await site.get(f"{site.configmaps}?limit=100")


async def test_a_page_with_a_selector_does_not_count_what_remains(site: Site) -> None:
    await labelled(site)
    first = (await site.get(f"{site.configmaps}?limit=1&labelSelector=app")).json
    await site.get(f"{site.configmaps}?limit=5&labelSelector=app&continue={first['metadata']['continue']}")


async def test_a_token_that_the_server_did_not_write_is_refused(site: Site) -> None:
    await site.get(f"{site.configmaps}?limit=2&continue=nonsense")
    await site.get(f"{site.configmaps}?limit=2&continue=e30")
    await site.make(site.configmaps, configmap("a"))
    await site.make(site.configmaps, configmap("b"))
    token = (await site.get(f"{site.configmaps}?limit=1")).json["metadata"]["continue"]
    await site.get(f"{site.configmaps}?limit=1&continue={token}&resourceVersion=1")
    await site.get(f"{site.configmaps}?limit=1&continue={token}&resourceVersionMatch=Exact")
    await site.get(f"{site.configmaps}?limit=words")
    await site.get(f"{site.configmaps}?limit=-1")


async def test_a_list_may_ask_for_a_version(site: Site) -> None:
    first = (await site.make(site.configmaps, configmap("a")))["metadata"]["resourceVersion"]
    second = (await site.make(site.configmaps, configmap("b")))["metadata"]["resourceVersion"]
    for query in (
        "resourceVersion=0",
        f"resourceVersion={second}",
        f"resourceVersion={second}&resourceVersionMatch=NotOlderThan",
        f"resourceVersion={first}&resourceVersionMatch=Exact",
        f"resourceVersion={first}&resourceVersionMatch=Exact&limit=1",
        f"resourceVersion={first}&limit=1",
        "resourceVersionMatch=Exact",
        "resourceVersion=0&resourceVersionMatch=Exact",
        "resourceVersion=0&resourceVersionMatch=NotOlderThan",
        f"resourceVersion={first}&resourceVersionMatch=Sometimes",
        "resourceVersion=words",
        "resourceVersion=-1",
    ):
        await site.get(f"{site.configmaps}?{query}")


async def test_a_version_that_is_still_to_come_is_too_large(site: Site) -> None:
    future = str(int(await site.revision(site.configmaps)) + 100_000)
    site.transcript.name(future, "FUTURE")
    async with asyncio.TaskGroup() as group:  # the server waits 3 s for each
        requests = [
            group.create_task(site.ask("GET", f"{path}resourceVersion={future}", kept=False))
            for path in (
                f"{site.configmaps}?",
                f"{site.configmaps}?resourceVersionMatch=NotOlderThan&",
                f"{site.configmaps}?resourceVersionMatch=Exact&",
                f"{site.configmaps}?limit=2&",
            )
        ]
    for number, request in enumerate(requests):
        reply = request.result()
        kept = site.transcript.request("GET", f"number {number}", {}, None)
        message = reply.json["message"].split(",")[0]
        site.transcript.answer(kept, reply.status, reply.headers, {**reply.json, "message": message})


async def test_one_object_may_be_asked_for_at_a_version(site: Site) -> None:
    made = await site.make(site.configmaps, configmap("a"))
    version = made["metadata"]["resourceVersion"]
    for query in ("resourceVersion=0", f"resourceVersion={version}", "resourceVersion=1", "resourceVersion=words"):
        await site.get(f"{site.configmaps}/a?{query}")


async def test_a_list_comes_as_a_table(site: Site) -> None:
    await site.make(site.pods, pod("a", labels={"app": "web"}))
    await site.get(site.pods, accept=TABLE)
    await site.get(f"{site.pods}?includeObject=None", accept=TABLE)
    await site.get(f"{site.pods}?includeObject=Object", accept=TABLE)
    await site.get(f"{site.pods}?includeObject=Some", accept=TABLE)
    await site.get(f"{site.pods}/a", accept=TABLE)
    await site.get(f"{site.pods}/missing", accept=TABLE)
    await site.make(site.configmaps, configmap("a", x="1", y="2"))
    await site.get(site.configmaps, accept=TABLE)


async def test_a_pod_in_a_table_says_how_it_is(site: Site) -> None:
    running = {
        "phase": "Running",
        "podIP": "10.1.2.3",
        "podIPs": [{"ip": "10.1.2.3"}],
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "restartCount": 3,
                "image": "x",
                "imageID": "",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
        ],
    }
    waiting: dict[str, Any] = {**running, "containerStatuses": [dict(running["containerStatuses"][0])]}
    waiting["containerStatuses"][0] |= {"ready": False, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
    for name, status in (
        ("running", running),
        ("waiting", waiting),
        ("done", {"phase": "Succeeded"}),
        ("evicted", {"phase": "Failed", "reason": "Evicted"}),
    ):
        await site.make(site.pods, pod(name))
        await site.patch(f"{site.pods}/{name}/status", {"status": status}, kept=False)
    await site.get(f"{site.pods}?includeObject=None", accept=TABLE)


async def test_a_list_comes_as_metadata_alone(site: Site) -> None:
    await site.make(site.pods, pod("a", labels={"app": "web"}))
    await site.get(site.pods, accept=METADATA)
    await site.get(f"{site.pods}/a", accept=ONE_METADATA)
    await site.get(site.pods, accept=ONE_METADATA)
    await site.post(site.configmaps, configmap("a"), accept=ONE_METADATA)


async def test_the_form_of_an_answer_is_negotiated(site: Site) -> None:
    await site.make(site.configmaps, configmap("a"))
    path = f"{site.configmaps}/a"
    await site.get(path, accept="application/yaml")
    await site.get(path, accept="*/*")
    await site.get(path, accept="text/html, application/json;q=0.9")
    await site.get(path, accept="text/html")
    await site.get(path, accept=f"{TABLE}, application/json")
    await site.get(path, accept="application/json;as=Nothing;v=v1;g=meta.k8s.io")
    await site.get(path, accept="application/json;as=Table;v=v9;g=meta.k8s.io")
    await site.get(f"{path}?pretty=true")


async def test_events_are_one_resource_in_two_groups(site: Site) -> None:
    reference = {"kind": "Pod", "namespace": site.namespace, "name": "a", "apiVersion": "v1"}
    event = {
        "metadata": {"name": "e1"},
        "involvedObject": reference,
        "reason": "Tested",
        "message": "m",
        "type": "Normal",
    }
    await site.post(site.core("events"), event)
    await site.get(f"{site.of('events.k8s.io/v1', 'events')}/e1")
    await site.get(f"{site.core('events')}?fieldSelector=involvedObject.name%3Da")
    await site.get(f"{site.core('events')}?fieldSelector=reason%3DOther")
    await site.get(f"{site.of('events.k8s.io/v1', 'events')}?fieldSelector=regarding.name%3Da")


async def test_fields_that_are_not_set_are_selected_by_their_zero_value(site: Site) -> None:
    await site.make(site.pods, pod("a"))
    host = pod("b")
    host["spec"]["hostNetwork"] = True
    await site.make(site.pods, host)
    status = {"status": {"podIP": "10.1.2.3", "podIPs": [{"ip": "10.1.2.3"}], "phase": "Running"}}
    await site.ask("PATCH", f"{site.pods}/a/status", status, content_type=MERGE, kept=False)
    names = ONE_METADATA.replace("Metadata;", "MetadataList;")
    for selector in (
        "spec.hostNetwork%3Dfalse",
        "spec.hostNetwork%3Dtrue",
        "spec.hostNetwork!%3Dfalse",
        "spec.hostNetwork%3D",
        "spec.serviceAccountName%3D",
        "status.podIP%3D10.1.2.3",
        "status.podIP%3D",
        "status.podIPs%3D10.1.2.3",
        "status.podIPs%3D",
        "status.podIPs!%3D10.1.2.3",
        "status.nominatedNodeName%3D",
    ):
        await site.get(f"{site.pods}?fieldSelector={selector}", accept=names)
    jobs = site.of("batch/v1", "jobs")
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "a"}, "spec": {"template": template}}
    await site.make(jobs, job)
    for selector in ("status.successful%3D0", "status.successful%3D", "status.successful!%3D0"):
        await site.get(f"{jobs}?fieldSelector={selector}", accept=names)
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": site.namespace, "labels": {"for": site.namespace}}}
    await site.make("/api/v1/nodes", node)
    for selector in ("spec.unschedulable%3Dfalse", "spec.unschedulable%3Dtrue", "spec.unschedulable%3D"):
        query = f"labelSelector=for%3D{site.namespace}&fieldSelector={selector}"
        await site.get(f"/api/v1/nodes?{query}", accept=names)
    await site.ask("DELETE", f"/api/v1/nodes/{site.namespace}", kept=False)
    controllers = site.core("replicationcontrollers")
    spec = {"replicas": 0, "selector": {"a": "b"}, "template": {"metadata": {"labels": {"a": "b"}}, **template}}
    spec["template"]["spec"] = {**template["spec"], "restartPolicy": "Always"}
    controller = {"apiVersion": "v1", "kind": "ReplicationController", "metadata": {"name": "a"}, "spec": spec}
    await site.make(controllers, controller)
    for selector in ("status.replicas%3D0", "status.replicas%3D1"):
        await site.get(f"{controllers}?fieldSelector={selector}", accept=names)


async def test_the_source_of_an_event_may_be_its_controller(site: Site) -> None:
    events = site.core("events")
    about = {"kind": "Pod", "namespace": site.namespace, "name": "a"}
    for name, more in (
        ("a", {"source": {"component": "x"}, "reportingComponent": "y"}),
        ("b", {"reportingComponent": "y"}),
    ):
        event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": name}, "involvedObject": about, **more}
        await site.make(events, {**event, "reportingInstance": "i"})
    for selector in ("source%3Dx", "source%3Dy", "reportingComponent%3Dy", "source%3D"):
        await site.get(f"{events}?fieldSelector={selector}", accept=ONE_METADATA.replace("Metadata;", "MetadataList;"))


async def test_unknown_field_labels_are_refused_in_the_words_of_their_kind(site: Site) -> None:
    for path in (
        site.of("apps/v1", "replicasets"),
        site.of("apps/v1", "deployments"),
        site.of("batch/v1", "jobs"),
        site.of("batch/v1", "cronjobs"),
        site.core("replicationcontrollers"),
        site.core("secrets"),
        "/api/v1/nodes",
        "/api/v1/namespaces",
        "/api/v1/persistentvolumes",
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        "/apis/resource.k8s.io/v1/resourceslices",
    ):
        await site.get(f"{path}?fieldSelector=status.replicas%3Dx")
        await site.get(f"{path}?fieldSelector=metadata.namespace%3Dnone")
