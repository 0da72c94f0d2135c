"""The user of a client certificate: its common name, with its organizations as groups.

Internals: a certificate authority that a real server can trust.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kinformer import Client
from kinformer.testing import APIServer, ClusterServer, ControlPlane
from kinformer.testing.http.certificates import Authority
from tests.conformance.conftest import EMBEDDED
from tests.conformance.versions import Minor

REVIEW = {"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1"}
PATH = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


@asynccontextmanager
async def serving(server_kind: str, request: pytest.FixtureRequest, folder: Path) -> AsyncIterator[ClusterServer]:
    """A server of each kind that takes client certificates; `folder` gets those of carl."""
    if server_kind == EMBEDDED:
        async with APIServer(tls=True, users=["alice"]) as server:
            (folder / "carl.pem").write_bytes(b"".join(server.client_certificate("carl", ["dev", "ops"])))
            yield server
        return
    authority = Authority("127.0.0.1")
    try:
        (folder / "carl.pem").write_bytes(b"".join(authority.issue_client("carl", ["dev", "ops"])))
        flags = [f"--client-ca-file={authority.file}"]
        assets = request.getfixturevalue("assets")
        async with ControlPlane(assets, users=["alice"], api_server_flags=flags) as control_plane:
            yield control_plane
    finally:
        authority.close()


async def test_a_client_certificate_names_its_user_and_goes_before_a_token(
    server_kind: str, request: pytest.FixtureRequest, tmp_path: Path, kubernetes: Minor
) -> None:
    async with serving(server_kind, request, tmp_path) as server:
        context = ssl.create_default_context(cafile=server.ca_file)
        context.load_cert_chain(tmp_path / "carl.pem")
        for token in (None, server.token("alice")):
            async with Client.from_url(server.url, ssl=context, token=token) as carl:
                info = (await carl.request("POST", PATH, body=REVIEW))["status"]["userInfo"]
            extra = info.pop("extra", None)
            if extra is not None or kubernetes >= Minor(1, 33):  # 1.31 has none
                (credential,) = extra["authentication.kubernetes.io/credential-id"]
                assert credential.startswith("X509SHA256=")
                assert len(credential) == len("X509SHA256=") + 64
            assert info == {"username": "carl", "groups": ["dev", "ops", "system:authenticated"]}
        async with server.client("alice") as alice:
            info = (await alice.request("POST", PATH, body=REVIEW))["status"]["userInfo"]
            assert (info["username"], info["groups"]) == ("alice", ["system:authenticated"])
