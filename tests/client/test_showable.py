"""The texts that quote a URL or the output of a program, without the credentials in them.

Internals: `showable`, which takes text of any shape. Client and kubeconfig are tested through their public names.
"""

from __future__ import annotations

import json
import logging
import re
import time
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from kinformer import APIError, Client, ConfigError
from kinformer.connection.showable import HIDDEN, showable_output, showable_url
from kinformer.exceptions import DecodeError
from tests.client.test_client import kubeconfig, plugin
from tests.support.http_server import HttpServer
from tests.support.log_records import records

CANARY = "c4n4ry"

# --- URLs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        (f"https://host:6443/a?access_token={CANARY}", "https://host:6443/a?***"),
        (f"https://host:6443/a#{CANARY}", "https://host:6443/a#***"),
        (f"https://host:{CANARY}/a", "https://host:***/a"),
        (f"https://[::1]:{CANARY}", "https://[::1]:***"),
        ("https://host:65536", "https://host:***"),
        (f"tcp://{CANARY}@host:1/a", "tcp://***@host:1/a"),
        (f"tcp://user:pa/s?s@w#{CANARY}@host/a", "tcp://***@host/a"),
        (CANARY, "***"),
        (f"host:{CANARY}", "***"),
    ],
)
def test_an_error_about_a_url_shows_its_harmless_parts(url: str, shown: str) -> None:
    assert showable_url(url) == shown
    with pytest.raises(ConfigError) as caught:
        Client.from_url(url)
    assert shown in str(caught.value) or re.search("has a user or password|must be a URL", str(caught.value))
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("url", ["https://host:6443/a", "http://[::1]:8001", "tcp://10.0.0.1:80", "/api/v1/pods"])
def test_a_url_without_credentials_is_shown_whole(url: str) -> None:
    assert showable_url(url) == url


@given(st.sampled_from(["user:{}@", "{}@", "{}:p@"]), st.text("abc:/?#[]@%\n ", max_size=8))
def test_no_password_breaks_out_of_its_place(place: str, around: str) -> None:
    password = around + CANARY + around
    assert CANARY not in showable_url(f"https://{place.format(password)}host:6443/path")


@pytest.mark.parametrize("field", ["server", "proxy-url", "tls-server-name"])
async def test_an_error_about_a_kubeconfig_does_not_quote_what_was_put_in_a_wrong_field(
    tmp_path: Path, field: str
) -> None:
    for value in (f"https://host:{CANARY}", f"https://host?token={CANARY}", f"socks5://u:{CANARY}@h", CANARY * 20):
        cluster = {"server": "http://127.0.0.1:1", field: value}
        document = json.loads(kubeconfig(tmp_path, "http://127.0.0.1:1", {}).read_text())
        document["clusters"][0]["cluster"] = cluster
        texts = await enter(document)
        assert not [text for text in texts if CANARY in text]
        if field == "server":
            assert ".cluster.server: " in texts[0]


@pytest.mark.parametrize("field", ["client-key", "client-certificate", "tokenFile"])
@pytest.mark.parametrize("content", [CANARY, f"-----BEGIN PRIVATE KEY-----\n{CANARY}", f"eyJh.{CANARY}.x"])
async def test_a_secret_in_the_place_of_its_file_is_not_quoted(tmp_path: Path, field: str, content: str) -> None:
    config = kubeconfig(tmp_path, "http://127.0.0.1:1", {field: content})
    with pytest.raises(ConfigError, match=rf"users\[u\]\.user\.{field}") as caught:
        async with Client.from_kubeconfig(config):
            pytest.fail("entered")
    assert CANARY not in str(caught.value)


async def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path, "http://127.0.0.1:1", {"client-key": str(tmp_path / "client.key")})
    with pytest.raises(ConfigError, match=rf"users\[u\]\.user\.client-key: the file {tmp_path}/client.key does not"):
        async with Client.from_kubeconfig(config):
            pytest.fail("entered")


@pytest.mark.parametrize("path", [f"a?token={CANARY}", f"https://u:{CANARY}@h/a", f"/a//b?token={CANARY}"])
async def test_an_error_about_a_path_does_not_quote_its_query(client: Client, path: str) -> None:
    with pytest.raises(ConfigError, match="invalid path") as caught:
        await client.request("GET", path)
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("location", [f"https://u:{CANARY}@login.example/a", f"/login?code={CANARY}", CANARY])
async def test_a_redirect_is_named_without_its_credentials(location: str) -> None:
    async def redirect(_: web.Request) -> web.Response:
        return web.Response(status=302, headers={"Location": location})

    async with HttpServer(redirect) as server, Client.from_url(server.url) as client:
        with pytest.raises(APIError, match="the server redirects to") as caught:
            await client.request("GET", "/x")
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("body", ['{{"kind": "Secret", "data": {{"a": "{}"', '[{{"a": "{}"}}]', '"{}"'])
async def test_an_object_that_was_cut_off_is_not_quoted(body: str) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=body.format(CANARY), content_type="application/json")

    async with HttpServer(answer) as server, Client.from_url(server.url) as client:
        with pytest.raises(DecodeError, match=r"\d+ bytes") as caught:
            await client.request("GET", "/x")
    assert CANARY not in str(caught.value)


# --- the output of a plugin -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "output",
    [
        "+ TOKEN={}\n+ echo it failed",
        "+ export VAULT_TOKEN='{} {}'\nit failed",
        "+ curl -H 'Authorization: Bearer {}' https://host/x\nit failed",
        "+ curl https://user:{}@host/x\nit failed",
        "+ curl https://host/x?code={}\nit failed",
        '+ printf \'{{"status": {{"token": "{}"}}}}\'\nit failed',
        r'+ echo "{{\"clientKeyData\": \"{}\"}}"' + "\nit failed",
        "+ login --client-secret {} --verbose\nit failed",
        "password: {} with spaces\nit failed",
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\nit failed",
        "it failed\n-----BEGIN PRIVATE KEY-----\n{}",
        "it failed: eyJhbGciOiJSUzI1NiJ9.{}.MEUCIQDxyz0123456789",
        "it failed: wJalrXUtnFEMI/K7MDENG/{}/bPxRfiCYEXAMPLEKEY",
    ],
)
def test_what_looks_like_a_credential_is_taken_out_of_output(output: str) -> None:
    shown = showable_output(output.format(*[CANARY] * 2))
    assert CANARY not in shown
    assert HIDDEN in shown
    assert "it failed" in shown


@pytest.mark.parametrize(
    "line",
    [
        "Error: the token has expired; run `aws sso login --profile staging`",
        "AADSTS700082: The refresh token has expired due to inactivity.",
        "open /home/user/.kube/cache/oidc-login/state.json: permission denied",
        'File "/usr/lib/python3.11/site-packages/azure/cli/core/auth.py", line 23, in login',
        "Get https://login.microsoftonline.com/common/v2.0/.well-known/openid-configuration: no route to host",
    ],
)
def test_the_reason_of_a_failure_stays_in_output(line: str) -> None:
    assert showable_output(line) == line


def test_output_of_any_length_and_shape_takes_no_time() -> None:
    for text in (
        "a" * 1_000_000,
        "token" * 200_000,
        "-" * 1_000_000,
        "token=\n" * 150_000,
        "-----BEGIN x-----" * 60_000,
    ):
        began = time.process_time()
        assert len(showable_output(text)) <= 8000
        assert time.process_time() - began < 1


SAYS = """
    import json, os, sys
    token = os.environ["GIVEN"]
    print("+ printf %s", token, "\\nthe session has ended", file=sys.stderr)
    print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                       "status": {{"token": token}}}}))
    sys.exit({})
"""


async def enter(config: Path | dict[str, Any], **options: Any) -> list[str]:
    try:
        async with Client.from_kubeconfig(config, **options) as client:
            return [repr(client), repr(await client.connection_info())]
    except ConfigError as error:
        return [str(error), repr(error)]


@pytest.mark.process
@pytest.mark.parametrize("status", [0, 3])
async def test_the_stderr_of_a_plugin_is_in_no_text_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    monkeypatch.setenv("GIVEN", CANARY)
    caplog.set_level(logging.DEBUG)
    config = kubeconfig(tmp_path, "http://127.0.0.1:1", plugin(tmp_path, SAYS.format(status)))
    texts = await enter(config)
    assert not [text for text in [*texts, caplog.text] if CANARY in text or "session" in text]
    if status:
        assert "ended with status 3" in texts[0]
        assert "log_plugin_stderr=True" in texts[0]
    assert not records(caplog, "plugin_stderr")

    texts = await enter(config, log_plugin_stderr=True)
    [record] = records(caplog, "plugin_stderr")
    assert record.levelno == logging.DEBUG
    assert "the session has ended" in record.getMessage()
    assert "\n" not in record.getMessage()
    assert not [text for text in [*texts, caplog.text] if CANARY in text]


@pytest.mark.process
async def test_the_arguments_of_a_plugin_are_in_no_message(tmp_path: Path) -> None:
    user: Any = plugin(tmp_path, "import sys; sys.exit(1)")
    user["exec"]["args"].append(f"--client-secret={CANARY}")
    texts = await enter(kubeconfig(tmp_path, "http://127.0.0.1:1", user))
    assert not [text for text in texts if CANARY in text]
