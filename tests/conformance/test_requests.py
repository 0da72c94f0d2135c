"""Requests themselves: their query, their form, and their user."""

from __future__ import annotations

import re
import ssl
from typing import Any

from tests.conformance.site import Site
from tests.conformance.test_objects import configmap
from tests.support.apiserver_http import Exchange, Reply

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
OPENAPI = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


async def test_a_new_object_has_no_resource_version(site: Site) -> None:
    for version in ("abc", "-1", "0", "", "987654321", "1.5"):
        body = {**configmap("a"), "metadata": {"name": f"a-{version}x".lower(), "resourceVersion": version}}
        await site.post(site.configmaps, body)


async def test_a_timeout_is_a_duration(site: Site) -> None:
    for text in ("invalid", "5", "-1s", "1h", "5s", "1m30s", "1.5s", "", "10ms0", "1d"):
        await site.get(f"{site.configmaps}?timeout={text}")
    await site.post(f"{site.configmaps}?timeout=invalid", configmap("a"))
    await site.patch(f"{site.configmaps}/a?timeout=invalid", {})
    await site.delete(f"{site.configmaps}/a?timeout=invalid")
    await site.get(f"{site.configmaps}?watch=1&timeoutSeconds=1&timeout=invalid")
    await site.get("/version?timeout=invalid")


async def test_the_server_knows_the_tokens_that_it_issued(site: Site) -> None:
    accounts = site.core("serviceaccounts")
    await site.make(accounts, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    reply = await site.ask("POST", f"{accounts}/robot/token", request, kept=False)
    token = reply.json["status"]["token"]
    for tried in (token, "made-up", ""):
        await review(site, {"token": tried})
    await review(site, {"token": token, "audiences": ["elsewhere"]})
    me = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    reply = await site.ask("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", me, token=token, kept=False)
    info = reply.json["status"]["userInfo"]
    assert info["username"] == f"system:serviceaccount:{site.namespace}:robot"
    assert list(info["extra"]) == ["authentication.kubernetes.io/credential-id"]


async def review(site: Site, spec: dict[str, Any]) -> None:
    """POST a TokenReview; the token and what is made of it anew are not kept."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": spec}
    reply = await site.ask("POST", TOKEN_REVIEWS, body, kept=False)
    answer = reply.json
    if "token" in answer.get("spec", {}):
        answer["spec"]["token"] = "..."
    user = answer["status"].get("user", {}) if isinstance(answer["status"], dict) else {}
    if "extra" in user:
        user["extra"] = {name: [text[:4] for text in texts] for name, texts in user["extra"].items()}
    if isinstance(answer["status"], dict):
        if "audiences" in answer["status"]:
            answer["status"]["audiences"] = ["the server"]
        if "error" in answer["status"]:
            answer["status"]["error"] = re.sub(r"(audiences) \[[^]]*\] is", r"\1 [...] is", answer["status"]["error"])
    kept = site.transcript.request("POST", TOKEN_REVIEWS, {}, None)
    site.transcript.answer(kept, reply.status, reply.headers, answer)


async def test_a_review_is_no_table(site: Site) -> None:
    attributes = {"verb": "list", "resource": "pods", "namespace": site.namespace}
    body = {
        "kind": "SelfSubjectAccessReview",
        "apiVersion": "authorization.k8s.io/v1",
        "spec": {"resourceAttributes": attributes},
    }
    await site.post(ACCESS_REVIEWS, body, accept=TABLE)
    await site.post(ACCESS_REVIEWS, body, accept=f"{TABLE}, application/json")
    me = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
    await site.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", me, accept=TABLE)


TWICE = """{
  "unknown": 1,
  "apiVersion": "apps/v1", "kind": "Deployment",
  "metadata": {"name": "a", "extra": true, "name": "a", "labels": {"b": "c", "b": "c"}},
  "spec": {
    "other": 1,
    "replicas": 1, "replicas": 2,
    "selector": {"matchLabels": {"app": "a"}},
    "template": {
      "metadata": {"labels": {"app": "a"}},
      "spec": {
        "containers": [{"name": "c", "image": "i", "imagePullPolicy": "Always", "mistake": 1, "image": "j"}],
        "later": [], "restartPolicy": "Always", "restartPolicy": "Always"
      }
    },
    "other": 2
  },
  "last": 1
}"""


async def test_strict_errors_come_in_the_order_of_the_text(site: Site) -> None:
    deployments = site.of("apps/v1", "deployments")
    for validation in ("Strict", "Warn", "Ignore"):
        await site.post(f"{deployments}?fieldValidation={validation}&dryRun=All", TWICE)
    document = "unknown: 1\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a, extra: 1}\nspec: {other: 1}\n"
    await site.post(f"{deployments}?fieldValidation=Strict", document, content_type="application/yaml")


async def test_health_is_told_check_by_check(site: Site) -> None:
    for path in ("/healthz", "/livez", "/readyz"):
        await site.get(f"{path}?verbose")
        await site.get(f"{path}?verbose&exclude=etcd&exclude=ping")
        await site.get(f"{path}?verbose&exclude=nothing")
        await site.get(f"{path}?exclude=nothing")
        await site.get(f"{path}/etcd?verbose")
        await site.get(f"{path}/poststarthook/rbac/bootstrap-roles")
    await site.get("/readyz/informer-sync")
    await site.get("/livez/informer-sync")


async def test_requests_are_counted(site: Site) -> None:
    await site.get(f"{site.configmaps}/missing")
    reply = await site.ask("GET", "/metrics", kept=False)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    lines = reply.body.decode().splitlines()
    counted = [
        line for line in lines if line.startswith("apiserver_request_total{") and 'resource="configmaps"' in line
    ]
    missing = [line for line in counted if 'code="404"' in line and 'verb="GET"' in line]
    assert len(missing) == 1
    labels = '{code="404",component="apiserver",dry_run="",group="",resource="configmaps",scope="resource"'
    assert missing[0].startswith(f'apiserver_request_total{labels},subresource="",verb="GET",version="v1"' + "} ")
    assert float(missing[0].rpartition(" ")[2]) >= 1
    assert "# TYPE apiserver_request_total counter" in lines


async def test_the_types_come_as_protobuf_to_clients_that_ask_for_it(site: Site) -> None:
    for accept in (OPENAPI, f"text/html, {OPENAPI}", OPENAPI.replace("@", ".")):
        reply = await site.ask("GET", "/openapi/v2", accept=accept, kept=False)
        assert (reply.status, reply.headers["content-type"]) == (200, OPENAPI.replace("@", "."))
        assert reply.body.startswith(b"\n\x032.0\x12")  # swagger: 2.0, then what info there is
    for accept in ("*/*", "application/*", "application/json;q=0.5"):
        reply = await site.ask("GET", "/openapi/v2", accept=accept, kept=False)
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert reply.json["swagger"] == "2.0"
    for accept in ("application/vnd.kubernetes.protobuf", "text/html", "application/yaml"):
        for path in ("/openapi/v2", "/openapi/v3/api/v1"):
            reply = await site.ask("GET", path, accept=accept, kept=False)
            assert (reply.status, reply.body) == (406, b""), (path, accept)


PROTOBUF = "application/vnd.kubernetes.protobuf"


async def send(site: Site, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
    """One request of bytes."""
    named = {name.replace("_", "-").title(): value for name, value in headers.items()}
    token = site.server.token()
    login = {"Authorization": f"Bearer {token}"} if token else {}
    context = ssl.create_default_context(cafile=site.server.ca_file) if site.server.ca_file else None
    exchange = await Exchange.open(site.server.url, method, path, headers={**named, **login}, body=body, ssl=context)
    try:
        await exchange.head()
        return await exchange.rest()
    finally:
        await exchange.close()


async def test_an_object_that_is_read_as_protobuf_can_be_written_back_without_a_change(site: Site) -> None:
    container = {"name": "a", "image": "i", "resources": {"limits": {"cpu": "100m", "memory": "1Gi"}}}
    container["ports"] = [{"name": "web", "containerPort": 80}]
    container["livenessProbe"] = {"httpGet": {"path": "/", "port": "web"}, "periodSeconds": 7}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container], "nodeSelector": {"x": "y"}}}
    workload = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = {
        site.of("apps/v1", "deployments"): {"metadata": {"name": "a", "annotations": {"k": "é<&>"}}, "spec": workload},
        site.configmaps: {"metadata": {"name": "a"}, "data": {"b": "", "a": "1"}, "binaryData": {"c": "AAH/"}},
        site.core("services"): {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80, "targetPort": "web"}]}},
        site.of("coordination.k8s.io/v1", "leases"): {
            "metadata": {"name": "a"},
            "spec": {"holderIdentity": "me", "renewTime": "2026-01-05T10:00:00.123456Z"},
        },
    }
    for collection, body in made.items():
        await site.make(collection, body)
        path = f"{collection}/a"
        before = await send(site, "GET", path)
        packed = await send(site, "GET", path, accept=PROTOBUF)
        assert (packed.status, packed.headers["content-type"], packed.body[:4]) == (200, PROTOBUF, b"k8s\0")
        written = await send(site, "PUT", path, packed.body, content_type=PROTOBUF)
        assert (written.status, written.json) == (200, before.json), written.body
        listed = await send(site, "GET", collection, accept=PROTOBUF)
        assert (listed.status, listed.body[:4]) == (200, b"k8s\0")


async def test_metadata_comes_in_the_form_that_is_named_first(site: Site) -> None:
    await site.make(site.configmaps, {**configmap("a"), "metadata": {"name": "a", "labels": {"x": "y"}}})
    partial = "as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    both = f"{PROTOBUF};{partial},application/json;{partial}"
    packed = await send(site, "GET", f"{site.configmaps}/a", accept=both)
    assert packed.headers["content-type"] == PROTOBUF
    assert b"PartialObjectMetadata" in packed.body[:60]
    plain = await send(site, "GET", f"{site.configmaps}/a", accept=f"application/json;{partial},{PROTOBUF};{partial}")
    assert plain.json["metadata"]["labels"] == {"x": "y"}
    lists = both.replace("Metadata;", "MetadataList;")
    many = await send(site, "GET", site.configmaps, accept=lists)
    assert many.headers["content-type"] == PROTOBUF
    stream = await send(site, "GET", f"{site.configmaps}?watch=1&timeoutSeconds=1&resourceVersion=0", accept=both)
    assert stream.headers["content-type"] == f"{PROTOBUF};stream=watch"
    length = int.from_bytes(stream.body[:4], "big")
    assert stream.body[4:11] == b"\n\x05ADDED"
    assert stream.body[4 : 4 + length].count(b"k8s\0") == 1


async def test_a_watch_in_protobuf_alone_is_one(site: Site) -> None:
    await site.make(site.configmaps, configmap("a"))
    stream = await send(site, "GET", f"{site.configmaps}?watch=1&timeoutSeconds=1&resourceVersion=0", accept=PROTOBUF)
    assert stream.headers["content-type"] == f"{PROTOBUF};stream=watch"
    assert stream.body[4:11] == b"\n\x05ADDED"
