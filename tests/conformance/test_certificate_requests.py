"""Requests of certificates, whose parts belong to the requester, the approver and the signer."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.conformance.conftest import USERS
from tests.conformance.site import Site
from tests.support.waiting import until

Object = dict[str, Any]

GROUP = "certificates.k8s.io"
REQUESTS = f"/apis/{GROUP}/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
SIGNING_REQUEST = """-----BEGIN CERTIFICATE REQUEST-----
MIHKMHICAQAwEDEOMAwGA1UEAwwFYWxpY2UwWTATBgcqhkjOPQIBBggqhkjOPQMB
BwNCAATEFkgMzf4Uyw9SIpwhYKC+YGAwQmpc+vorP8DOvw6yPPE+Cazd59S68SPg
84z+U3XBb27OoV++3P57/RTehlWgoAAwCgYIKoZIzj0EAwIDSAAwRQIgAtqnz03A
NhgjQLfY6WIfgDAgu7rojYj6CYnehp6Pgo8CIQC/eK/ZhxfXZsWjolrtcc8YYOq2
DlCdQxlFi9FkaqtOOw==
-----END CERTIFICATE REQUEST-----
"""


@pytest.fixture
def embedded_options() -> Object:
    """The users of the real server, of whom alice may request certificates."""
    return {"users": USERS, "rules": [("alice", "create", f"{GROUP}/v1/certificatesigningrequests")]}


async def requested(site: Site, body: Object) -> Object:
    """Create a request as alice, who gets the right to do so on a real server."""
    name, group = body["metadata"]["name"], "rbac.authorization.k8s.io"
    rule = {"apiGroups": [GROUP], "resources": ["certificatesigningrequests"], "verbs": ["create"]}
    role = {"apiGroup": group, "kind": "ClusterRole", "name": name}
    await site.make(f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [rule]})
    alice = {"apiGroup": group, "kind": "User", "name": "alice"}
    binding = {"metadata": {"name": name}, "roleRef": role, "subjects": [alice]}
    await site.make(f"{RBAC}/clusterrolebindings", binding)
    reply = await until(
        lambda: site.ask("POST", REQUESTS, body, user="alice", kept=False), 20, holds=lambda reply: reply.status != 403
    )
    assert reply.status == 201, reply.body
    made: Object = reply.json
    return made


async def test_a_certificate_is_approved_apart_from_its_status(site: Site) -> None:
    name = f"own-{site.namespace}"
    site.transcript.name(name, "OWN")
    request = base64.b64encode(SIGNING_REQUEST.encode()).decode()
    spec = {"request": request, "signerName": "example.com/signer", "usages": ["digital signature"]}
    body = {"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": name}}
    created = await requested(site, {**body, "spec": spec})
    path = f"{REQUESTS}/{name}"
    approved = {"type": "Approved", "status": "True", "reason": "r", "message": "m"}
    failed = {"type": "Failed", "status": "True", "reason": "r", "message": "m"}
    await site.patch(f"{path}/status", {"status": {"conditions": [approved]}})
    await site.patch(path, {"status": {"conditions": [approved]}, "spec": {"signerName": "example.com/other"}})
    changed = {**created, "spec": {**created["spec"], "username": "bob", "signerName": "example.com/other"}}
    changed["metadata"] = {**created["metadata"], "labels": {"by": "approval"}, "annotations": {"by": "approval"}}
    changed["status"] = {"conditions": [approved], "certificate": "aGk="}
    await site.put(f"{path}/approval", changed)
    await site.get(f"{path}/approval")
    await site.patch(f"{path}/approval", {"status": {"conditions": []}})
    await site.patch(f"{path}/approval", {"status": {"conditions": [{**approved, "type": "Denied"}]}})
    await site.patch(f"{path}/approval", {"status": {"conditions": [approved, {**approved, "type": "Denied"}]}})
    await site.patch(f"{path}/approval", {"status": {"conditions": [{**approved, "status": "False"}]}})
    await site.patch(f"{path}/status", {"status": {"conditions": [failed]}, "spec": {"username": "bob"}})
    await site.patch(f"{path}/status", {"status": {"certificate": "bm8="}})
    await site.get(path)
    for one in (path, f"{RBAC}/clusterroles/{name}", f"{RBAC}/clusterrolebindings/{name}"):
        await site.ask("DELETE", one, kept=False)
