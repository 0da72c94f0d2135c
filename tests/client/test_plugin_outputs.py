"""The output of a credential plugin is read as by kubectl, and a failure names the provider, the field and the reason.

`plugin_outputs.jsonl` has what client-go 0.34.1 makes of each output: a token, or an error. `ours` marks what kinformer
does differently: it refuses tokens that no header can have, and times that no server of today would send.

Internals: the plugin, since a server for each output would say less.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kinformer import Client, ConfigError
from kinformer.connection.credentials.exec_plugin import ExecPlugin
from kinformer.connection.responses import failure
from tests.client.test_client import kubeconfig

pytestmark = pytest.mark.process

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "plugin_outputs.jsonl").read_text().splitlines()]
STARTED = '{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": %s}'


def printing(folder: Path, output: str) -> ExecPlugin:
    file = folder / "output"
    file.write_bytes(output.encode())
    return ExecPlugin(where="config: users[u].user.exec", command="cat", args=[str(file)])


@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["output"][-60:])
async def test_an_output_is_what_it_is_in_go(recorded: dict[str, Any], tmp_path: Path) -> None:
    plugin, wanted = printing(tmp_path, recorded["output"]), recorded.get("ours", recorded["go"])
    if "error" in wanted:
        with pytest.raises(ConfigError, match=r"config: users\[u\]\.user\.exec"):
            await plugin.authorization()
    else:
        assert await plugin.authorization() == f"Bearer {wanted['token']}"
    await plugin.close()


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ('{"token": 5}', "printed a token that is not a string"),
        ('{"token": "t", "clientKeyData": []}', "printed a clientKeyData that is not a string"),
        ('{"token": "t", "expirationTimestamp": 1764324000}', "printed a expirationTimestamp that is not a string"),
        (
            '{"token": "t", "expirationTimestamp": "2026-11-28T10:00:00"}',
            "printed no RFC 3339 expirationTimestamp",
        ),
        ('{"token": "s3cret\\nline"}', "must be one line of text"),
        ("{}", "printed neither a token nor a certificate"),
    ],
)
async def test_what_is_wrong_with_an_output_is_named_by_its_field(tmp_path: Path, status: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)) as caught:
        await printing(tmp_path, STARTED % status).authorization()
    assert str(caught.value).startswith("config: users[u].user.exec.command: ")
    assert "s3cret" not in str(caught.value)


async def test_a_certificate_of_a_plugin_that_is_none_is_named_with_its_file_and_field(tmp_path: Path) -> None:
    status = '{"clientCertificateData": "s3cret", "clientKeyData": "s3cret"}'
    (tmp_path / "output").write_text(STARTED % status)
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "cat", "interactiveMode": "Never"}
    user: dict[str, object] = {"exec": {**plugin, "args": [str(tmp_path / "output")]}}
    config = kubeconfig(tmp_path, "https://127.0.0.1:1", user)
    with pytest.raises(ConfigError, match=r"config: users\[u\]\.user\.exec: expected a certificate") as caught:
        async with Client.from_kubeconfig(config):
            pytest.fail("entered")
    assert "s3cret" not in str(caught.value)


class Printed:
    """A process that has printed something, in place of gcloud, whose pipes the library leaves to the collector."""

    def __init__(self, output: bytes) -> None:
        self.stdout = self
        self._output = output

    async def read(self) -> bytes:
        return self._output

    async def wait(self) -> int:
        return 0


@pytest.mark.parametrize(
    ("config", "output", "reason"),
    [
        ({}, b"", "cmd-path and cmd-args must be set"),
        ({"access-token": "s3cret", "expiry": "soon"}, b"", "expiry must be a time"),
        ({"cmd-path": "gcloud", "cmd-args": "x"}, None, "cmd-path cannot be run: No such file or directory"),
        ({"cmd-path": "gcloud", "cmd-args": "x"}, b"s3cret", "cmd-path did not print the JSON of gcloud"),
        ({"cmd-path": "gcloud", "cmd-args": "x"}, b'{"s3cret": 1}', "cmd-path did not print the JSON of gcloud"),
        ({"cmd-path": "gcloud", "cmd-args": "x"}, b"[1]", "cmd-path did not print the JSON of gcloud"),
    ],
)
async def test_a_failure_of_gcp_names_the_field_and_the_reason(
    config: dict[str, str], output: bytes | None, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("kubernetes_asyncio")

    async def start(*_: object, **__: object) -> Printed:
        if output is None:
            raise FileNotFoundError(2, "No such file or directory")
        return Printed(output)

    monkeypatch.setattr("kubernetes_asyncio.config.google_auth.asyncio.create_subprocess_exec", start)
    user: dict[str, object] = {"auth-provider": {"name": "gcp", "config": config}}
    with pytest.raises(ConfigError, match=r"users\[u\]\.user\.auth-provider: no credential: gcp: ") as caught:
        async with Client.from_kubeconfig(kubeconfig(tmp_path, "http://127.0.0.1:1", user)):
            pytest.fail("entered")
    assert reason in str(caught.value)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"", "is empty"), (b"\xff\xfe", "it is not text in UTF-8"), (b"a\nb", "must be one line of text")],
)
async def test_a_failure_of_a_token_file_names_the_file_and_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    (tmp_path / "token").write_bytes(content)
    config = kubeconfig(tmp_path, "http://127.0.0.1:1", {"tokenFile": str(tmp_path / "token")})
    with pytest.raises(ConfigError, match=r"users\[u\]\.user\.tokenFile: ") as caught:
        async with Client.from_kubeconfig(config):
            pytest.fail("entered")
    assert f"{tmp_path / 'token'}" in str(caught.value)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("5", 5),
        ("+5", 5),
        ("05", 5),
        ("-5", None),
        ("1e3", None),
        ("1_0", None),
        ("٥", None),
        ("0x5", None),
        ("", None),
    ],
)
def test_a_retry_after_is_the_number_that_it_is_in_go(header: str, seconds: float | None) -> None:
    assert failure(503, {"Retry-After": header}, b"{}").retry_after == seconds


def test_a_boolean_is_no_time_to_wait() -> None:
    status = b'{"kind": "Status", "details": {"retryAfterSeconds": true}}'
    assert failure(429, {}, status).retry_after is None
