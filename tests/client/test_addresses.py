"""Addresses mean what they mean to kubectl: servers, pods, proxies, and the hosts that no proxy is used for.

`addresses.jsonl` has what client-go 0.34.1 and golang.org/x/net/http/httpproxy do with each form: the address that is
dialled and the target that is sent for `/api/v1/nodes`, the proxy, or an error. `ours` marks what kinformer does
differently, and docs/internals/readings.md says why.

Internals: the loaders and the URL of a request, since half of these addresses cannot be connected to.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import pytest
from yarl import URL

from kinformer import Client, ConfigError
from kinformer.connection.addresses import environment_proxy
from kinformer.connection.config import load_in_cluster
from kinformer.connection.kubeconfig import load_kubeconfig
from kinformer.connection.transport import request_url
from kinformer.listening.address import url_of

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "addresses.jsonl").read_text().splitlines()]


def kubeconfig(**cluster: object) -> dict[str, Any]:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
    }


def place(host: str, port: int | None) -> str:
    """Return a host and port as they are compared: with one form of each address."""
    try:
        return f"{ip_address(host)} {port}"
    except ValueError:
        return f"{host.lower()} {port}"


def reading(form: Mapping[str, Any], root: Path) -> object:
    """Return what kinformer makes of a form: a proxy, or what is dialled and sent."""
    if form["what"] == "proxy":
        environ = {"HTTPS_PROXY": form["https"], "HTTP_PROXY": form.get("http", ""), "NO_PROXY": form["no"]}
        return environment_proxy(form["url"], environ)
    if form["what"] == "proxyurl":
        cluster = {"server": "https://h:1", "proxy-url": form["proxy"]}
        return load_kubeconfig(kubeconfig(**cluster), environ={}).proxy
    if form["what"] == "pod":
        service = {"KUBERNETES_SERVICE_HOST": form["host"], "KUBERNETES_SERVICE_PORT": form["port"]}
        server = load_in_cluster(service, root).server
    else:
        cluster = {"server": form["server"], "insecure-skip-tls-verify": form.get("insecure", False)}
        server = load_kubeconfig(kubeconfig(**cluster), environ={}).server
    url = request_url(server, "/api/v1/nodes")
    return url.scheme, place(url.raw_host or "", url.port), url.raw_path_qs


def wanted(form: Mapping[str, Any]) -> object:
    answer = form.get("ours", form["go"])
    if "proxy" in answer:
        return answer["proxy"]
    parts = re.fullmatch(r"\[?(.*?)\]?:(\d+)", answer["dial"])
    assert parts is not None
    return answer["scheme"], place(parts[1], int(parts[2])), answer["uri"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("token", "ca.crt"):
        (tmp_path / name).write_text("x")
    return tmp_path


@pytest.mark.parametrize("form", RECORDED, ids=lambda form: repr({**form, "go": 0}))
def test_an_address_is_what_it_is_in_go(form: dict[str, Any], root: Path) -> None:
    if "error" in form.get("ours", form["go"]):
        with pytest.raises(ConfigError):
            reading(form, root)
    else:
        assert reading(form, root) == wanted(form)


def test_the_url_of_a_listener_with_a_zone_is_one_that_a_client_takes() -> None:
    url = url_of("fe80::1%eth0", 8080)
    assert url == "http://[fe80::1%25eth0]:8080"
    server = load_kubeconfig(kubeconfig(server=url), environ={}).server
    assert URL(server).host == "fe80::1%eth0", "the name of the zone as the system takes it"
    assert load_kubeconfig(kubeconfig(server=server), environ={}).server == server


@pytest.mark.parametrize("server", ["https://host\\path", "https://[::1]x:6443", "https://ho%20st", "https://[v1.x]:1"])
def test_what_a_url_library_would_refuse_at_the_first_request_is_refused_at_once(server: str) -> None:
    with pytest.raises(ConfigError, match="url: ") as refused:
        Client.from_url(server)
    assert refused.value.__context__ is None, "a context would quote the URL"


@pytest.mark.parametrize("password", ["p%40w", "p%C3%BC", "p%E2%82%AC"])
async def test_a_proxy_gets_its_password_in_utf_8_as_from_go(password: str) -> None:
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        proxied = kubeconfig(server="http://k.example", **{"proxy-url": f"http://me:{password}@127.0.0.1:{port}"})
        async with Client.from_kubeconfig(proxied) as client:
            await client.request("GET", "/version", retries=0)
    sent = re.search(rb"Proxy-Authorization: Basic (\S+)", heads[0])
    assert sent is not None
    assert base64.b64decode(sent[1]) == b"me:" + unquote_to_bytes(password)
