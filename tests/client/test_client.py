from __future__ import annotations

import asyncio
import base64
import gc
import io
import json
import logging
import os
import shutil
import socket
import ssl
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kinformer import Client, KubeObject
from kinformer.exceptions import (
    AlreadyExistsError,
    APIError,
    ConfigError,
    ConflictError,
    ConnectError,
    DecodeError,
    ExpiredError,
    ForbiddenError,
    NotFoundError,
    ResourceVersionTooLargeError,
    ServerError,
    TooManyRequestsError,
    UnauthorizedError,
)
from tests.support.certificates import server_side
from tests.support.http_server import HttpServer, hang, json_answer, needs_gzip_members, send_chunks, status_answer
from tests.support.kube import config_map
from tests.support.ports import reserved_port
from tests.support.waiting import until

SECRET = "s3cr3t-t0ken-that-nobody-may-see"


async def echo(request: web.Request) -> web.Response:
    text = (await request.read()).decode()
    return json_answer(
        {
            "method": request.method,
            "path": request.path_qs,
            "body": text,
            **{
                name: request.headers.get(name, "")
                for name in ("Content-Type", "Accept", "Accept-Encoding", "User-Agent", "X")
            },
        }
    )


class TestRequests:
    async def test_an_object_comes_back_as_an_object(self) -> None:
        async def answer(request: web.Request) -> web.Response:
            return json_answer(config_map("a", rv=7))

        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            found = await client.request("GET", "/api/v1/namespaces/default/configmaps/a")
        assert isinstance(found, KubeObject)
        assert (found.key, found.resource_version) == ("default/a", "7")

    @pytest.mark.parametrize(
        "document",
        [
            {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": []},
            {"kind": "Status", "apiVersion": "v1", "metadata": {"name": "x"}, "status": "Success"},
            {"major": "1", "minor": "36"},
        ],
    )
    async def test_what_is_no_object_comes_back_as_a_dict(self, document: dict[str, object]) -> None:
        async def answer(request: web.Request) -> web.Response:
            return json_answer(document)

        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            assert await client.request("GET", "/x") == document

    async def test_an_empty_answer_is_an_empty_dict(self) -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.Response(status=200)

        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            assert await client.request("DELETE", "/x") == {}

    async def test_an_answer_that_is_not_json_is_a_decode_error_and_text_reads_it(self) -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.Response(text="ok")

        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            with pytest.raises(DecodeError, match=r"not JSON.*ok"):
                await client.request("GET", "/readyz")
            assert await client.text("/readyz") == "ok"

    @pytest.mark.parametrize(
        ("method", "body", "headers", "content_type"),
        [
            ("POST", {"a": 1}, None, "application/json"),
            ("PATCH", {"a": 1}, None, "application/merge-patch+json"),
            ("PATCH", [{"op": "remove", "path": "/a"}], None, "application/json-patch+json"),
            ("PATCH", b' [{"op": "test"}]', None, "application/json-patch+json"),
            ("PATCH", {"a": 1}, {"content-type": "application/apply-patch+yaml"}, "application/apply-patch+yaml"),
        ],
    )
    async def test_the_content_type_follows_method_and_body(
        self, method: str, body: object, headers: dict[str, str] | None, content_type: str
    ) -> None:
        async with HttpServer(echo) as server, Client.from_url(server.url) as client:
            seen = await client.request(method, "/x", body=body, headers=headers)
        assert seen["Content-Type"] == content_type
        assert seen["method"] == method
        assert json.loads(seen["body"]) == (json.loads(body) if isinstance(body, bytes) else body)

    async def test_an_object_is_sent_as_it_is(self) -> None:
        obj = KubeObject.from_dict(config_map(rv=1))
        async with HttpServer(echo) as server, Client.from_url(server.url) as client:
            assert (await client.request("PUT", "/x", body=obj))["body"].encode() == obj.raw

    async def test_text_is_no_body(self) -> None:
        async with HttpServer(echo) as server, Client.from_url(server.url) as client:
            with pytest.raises(TypeError, match="must be a dict, a KubeObject or bytes"):
                await client.request("POST", "/x", body="{}")
        assert not server.requests

    async def test_a_request_carries_parameters_headers_and_a_user_agent_and_wants_no_compression(self) -> None:
        async with HttpServer(echo) as server, Client.from_url(server.url + "/prefix/") as client:
            seen = await client.request("GET", "/x", params={"labelSelector": "a in (b, c),d!=e+f"}, headers={"X": "y"})
        assert server.requests[0].query["labelSelector"] == "a in (b, c),d!=e+f"
        assert seen["path"].startswith("/prefix/x?")
        assert (seen["X"], seen["Accept"], seen["Accept-Encoding"]) == ("y", "application/json", "identity")
        assert seen["User-Agent"].startswith("kinformer/")

    @pytest.mark.virtual_time
    async def test_a_request_that_is_not_answered_fails_after_its_timeout(self) -> None:
        async with HttpServer(hang) as server, Client.from_url(server.url) as client:
            started = asyncio.get_running_loop().time()
            with pytest.raises(ConnectError, match=r"GET http://127.*/x: no response within 30 s"):
                await client.request("GET", "/x?token=hidden")
            assert asyncio.get_running_loop().time() - started == pytest.approx(30, abs=1)
            await server.until_idle()

    async def test_a_client_that_is_not_entered_says_so(self) -> None:
        client = Client.from_url("http://127.0.0.1:1")
        with pytest.raises(RuntimeError, match="not open"):
            await client.request("GET", "/x")
        with pytest.raises(RuntimeError, match="not open"):
            _ = client.api_client

    async def test_a_client_is_entered_once(self) -> None:
        client = Client.from_url("http://127.0.0.1:1")
        async with client:
            with pytest.raises(RuntimeError, match="entered only once"):
                await client.__aenter__()
        with pytest.raises(RuntimeError, match="not open"):
            await client.request("GET", "/x")


class TestErrors:
    @pytest.mark.parametrize(
        ("code", "reason", "kind"),
        [
            (401, "Unauthorized", UnauthorizedError),
            (403, "Forbidden", ForbiddenError),
            (404, "NotFound", NotFoundError),
            (409, "Conflict", ConflictError),
            (409, "AlreadyExists", AlreadyExistsError),
            (410, "Expired", ExpiredError),
            (429, "TooManyRequests", TooManyRequestsError),
            (500, "InternalError", ServerError),
        ],
    )
    async def test_a_status_becomes_the_error_of_its_code_and_reason(
        self, code: int, reason: str, kind: type[APIError]
    ) -> None:
        async def answer(request: web.Request) -> web.Response:
            return status_answer(code, reason, "it went wrong")

        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            with pytest.raises(APIError, match="it went wrong") as caught:
                await client.request("GET", "/x")
        assert type(caught.value) is kind
        assert (caught.value.status, caught.value.reason) == (code, reason)

    async def test_an_answer_that_asks_for_an_eternity_is_an_error_like_others(self) -> None:
        async def answer(request: web.Request) -> web.Response:
            return json_answer({"kind": "Status", "details": {"retryAfterSeconds": 10**400}}, 503)

        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            with pytest.raises(APIError) as caught:
                await client.request("GET", "/x")
        assert caught.value.retry_after == 1e9

    async def test_too_large_a_resource_version_is_told_by_its_cause(self) -> None:
        details = {"causes": [{"reason": "ResourceVersionTooLarge", "message": "x"}], "retryAfterSeconds": 2}

        async def answer(request: web.Request) -> web.Response:
            # Without kind and apiVersion, as the timeout filter writes it.
            return json_answer(
                {"status": "Failure", "message": "Timeout", "reason": "Timeout", "details": details}, 504
            )

        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            with pytest.raises(ResourceVersionTooLargeError) as caught:
                await client.request("GET", "/x", retries=0)
        assert caught.value.retry_after == 2.0
        assert caught.value.details == details

    async def test_a_text_or_a_page_of_html_is_quoted_without_its_tags(self) -> None:
        page = "<html><head><title>502 Bad Gateway</title><style>x{}</style></head><body>" + "y" * 5000

        async def answer(request: web.Request) -> web.Response:
            if request.path == "/text":
                return web.Response(status=429, text="Too many requests, please try again later.\n")
            return web.Response(status=502, text=page, content_type="text/html")

        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            with pytest.raises(TooManyRequestsError, match=r"Too many requests, please try again later\.$"):
                await client.request("GET", "/text")
            with pytest.raises(ServerError) as caught:
                await client.request("GET", "/html")
        assert str(caught.value) == "502: 502 Bad Gateway"

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [("7", 7.0), ("0", 0.0), ("Wed, 21 Oct 2026 07:28:30 GMT", 30.0), ("soon", None)],
    )
    async def test_retry_after_is_read_as_seconds_or_as_a_date_of_the_servers_clock(
        self, header: str, seconds: float | None
    ) -> None:
        async def answer(request: web.Request) -> web.Response:
            return status_answer(429, "", "", Retry_After=header, Date="Wed, 21 Oct 2026 07:28:00 GMT")

        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            with pytest.raises(TooManyRequestsError) as caught:
                await client.request("GET", "/x", retries=0)
        assert caught.value.retry_after == seconds

    async def test_a_redirect_is_not_followed_but_named(self) -> None:
        async def answer(request: web.Request) -> web.Response:
            return web.Response(status=302, headers={"Location": "https://login.example/a?code=hidden"})

        async with HttpServer(answer) as server, Client.from_url(server.url, token=SECRET) as client:
            with pytest.raises(APIError, match=r"https://login\.example/a; configure") as caught:
                await client.request("GET", "/x")
        assert "hidden" not in str(caught.value)
        assert len(server.requests) == 1

    async def test_a_refused_connection_is_a_connect_error_that_names_the_place(self) -> None:
        with reserved_port() as port:
            async with Client.from_url(f"http://127.0.0.1:{port}") as client:
                with pytest.raises(ConnectError) as caught:
                    await client.request("GET", "/x")
        assert str(caught.value) == f"GET 127.0.0.1:{port}/x: connection refused"
        assert isinstance(caught.value, ConnectionError)

    async def test_a_name_that_does_not_resolve_is_said_to_be_that(self) -> None:
        async with Client.from_url("http://nosuch.invalid") as client:
            with pytest.raises(ConnectError, match=r"^GET nosuch.invalid:80/x: the name does not resolve: "):
                await client.request("GET", "/x")

    async def test_a_proxy_that_refuses_is_named_beside_the_server(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        with reserved_port() as port:
            monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
            async with Client.from_url("http://kubernetes.invalid") as client:
                text = f"^GET kubernetes.invalid:80/x: the proxy 127.0.0.1:{port}: connection refused$"
                with pytest.raises(ConnectError, match=text):
                    await client.request("GET", "/x")


class RawServer:
    """Answers requests on one connection after another as scripted, at the level of bytes."""

    def __init__(self, *answers: bytes | None) -> None:
        self.answers = list(answers)  # None: close without an answer
        self.heads: list[bytes] = []
        self.connections = 0

    async def __aenter__(self) -> RawServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                answer = self.answers.pop(0)
                if answer is None:
                    return
                writer.write(answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


class TestDeadConnections:
    async def test_a_get_on_a_dead_pooled_connection_is_repeated_once_on_a_fresh_one(self) -> None:
        async with RawServer(OK, None, OK) as server, Client.from_url(server.url) as client:
            await client.request("GET", "/1")
            assert await client.request("GET", "/2") == {}
        assert len(server.heads) == 3
        assert server.connections == 2

    async def test_a_get_that_dies_twice_is_a_connect_error(self) -> None:
        async with RawServer(None, None, OK) as server, Client.from_url(server.url) as client:
            with pytest.raises(ConnectError):
                await client.request("GET", "/1", retries=0)
        assert len(server.heads) == 2

    @pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
    async def test_a_write_is_never_repeated(self, method: str) -> None:
        async with RawServer(None, OK) as server, Client.from_url(server.url) as client:
            with pytest.raises(ConnectError):
                await client.request(method, "/1")
        assert len(server.heads) == 1

    async def test_a_body_that_is_shorter_than_promised_is_a_connect_error(self) -> None:
        short = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"a":'
        async with RawServer(short) as server, Client.from_url(server.url) as client:
            with pytest.raises(ConnectError, match="was cut off"):
                await client.request("GET", "/1", retries=0)

    async def test_an_answer_that_is_not_http_is_a_connect_error_without_the_request(self) -> None:
        async with RawServer(b"SSH-2.0-OpenSSH\r\n\r\n") as server, Client.from_url(server.url, token=SECRET) as client:
            with pytest.raises(ConnectError) as caught:
                await client.request("GET", "/1")
        assert caught.value.__cause__ is None  # it would hold the request's headers
        assert caught.value.__suppress_context__


class TestStreams:
    async def test_chunks_come_as_they_arrive_and_the_stream_ends(self) -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await send_chunks(request, [b"a", b"bc", b"d"])

        async with (
            HttpServer(answer) as server,
            Client.from_url(server.url) as client,
            client.stream("/x", {"watch": "true"}, accept="application/x") as body,
        ):
            assert body.content_type == "application/json"
            assert b"".join([chunk async for chunk in body]) == b"abcd"
        assert server.requests[0].headers["Accept"] == "application/x"
        assert server.requests[0].headers["Accept-Encoding"] == "identity"
        assert server.requests[0].query["watch"] == "true"

    async def test_a_failure_is_raised_on_entering(self) -> None:
        async def answer(request: web.Request) -> web.Response:
            return status_answer(410, "Expired")

        async with HttpServer(answer) as server, Client.from_url(server.url) as client:
            with pytest.raises(ExpiredError):
                async with client.stream("/x", watch=True):
                    pytest.fail("entered")

    @pytest.mark.parametrize("watch", [True, False])
    async def test_a_cut_connection_ends_a_watch_and_fails_a_list(self, watch: bool) -> None:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await send_chunks(request, [b"abc"], end=False)

        async with (
            HttpServer(answer) as server,
            Client.from_url(server.url) as client,
            client.stream("/x", watch=watch) as body,
        ):
            if watch:
                assert b"".join([chunk async for chunk in body]) in (b"abc", b"")
            else:
                with pytest.raises(ConnectError, match="was cut off"):
                    _ = [chunk async for chunk in body]

    @needs_gzip_members
    async def test_gzip_in_several_members_is_read_whole_although_it_was_not_asked_for(self) -> None:
        import gzip

        async def answer(request: web.Request) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Encoding": "gzip", "Content-Type": "application/json"})
            await response.prepare(request)
            for part in (b"one\n", b"two\n", b"three\n"):
                await response.write(gzip.compress(part))
            await response.write_eof()
            return response

        async with (
            HttpServer(answer) as server,
            Client.from_url(server.url) as client,
            client.stream("/x", watch=True) as body,
        ):
            assert b"".join([chunk async for chunk in body]) == b"one\ntwo\nthree\n"

    async def test_cancelling_a_reader_closes_the_connection_and_leaves_nothing(self) -> None:
        async with HttpServer(hang) as server, Client.from_url(server.url) as client:
            reading = asyncio.Event()

            async def read() -> None:
                async with client.stream("/x", watch=True) as body:
                    reading.set()
                    async for _ in body:
                        pytest.fail("nothing was sent")

            task = asyncio.create_task(read())
            await reading.wait()
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.until_idle()  # the server saw it go, while the client is still open
        gc.collect()  # "Unclosed ..." would be an error

    async def test_cancelling_while_the_head_is_awaited_closes_the_connection(self) -> None:
        async def silent(request: web.Request) -> web.StreamResponse:
            await asyncio.Event().wait()
            raise AssertionError

        async with HttpServer(silent) as server, Client.from_url(server.url) as client:

            async def enter() -> None:
                async with client.stream("/x"):
                    pytest.fail("entered")

            task = asyncio.create_task(enter())
            await server.until_asked()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await server.until_idle()

    @pytest.mark.skipif(not hasattr(socket, "TCP_KEEPIDLE"), reason="looks at the sockets as Linux shows them")
    async def test_sockets_have_keep_alive_on(self) -> None:
        async with (
            HttpServer(hang) as server,
            Client.from_url(server.url) as client,
            client.stream("/x", watch=True),
        ):
            options = keep_alive_of_sockets_to(server.port)
        assert options == {(1, 30, 15, 4)}

    async def test_with_150_watches_open_a_core_v1_call_still_answers(self) -> None:
        from kubernetes_asyncio.client import CoreV1Api

        async def answer(request: web.Request) -> web.StreamResponse:
            if "watch" in request.query:
                return await hang(request)
            return json_answer(config_map("a", rv=1))

        async with HttpServer(answer) as server, Client.from_url(server.url, token=SECRET) as client:

            async def watch(opened: asyncio.Future[None]) -> None:
                async with client.stream("/x", {"watch": "true"}, watch=True) as body:
                    opened.set_result(None)
                    async for _ in body:
                        pytest.fail("nothing was sent")

            loop = asyncio.get_running_loop()
            opened = [loop.create_future() for _ in range(150)]
            tasks = [asyncio.create_task(watch(future)) for future in opened]
            await asyncio.gather(*opened)
            found = await asyncio.wait_for(
                CoreV1Api(client.api_client).read_namespaced_config_map("a", "default"), timeout=10
            )
            assert found.metadata.name == "a"
            assert isinstance(await client.request("GET", "/y"), KubeObject)
            assert server.open == 150
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await server.until_idle()
        assert server.requests[-2].headers["Authorization"] == f"Bearer {SECRET}"


def keep_alive_of_sockets_to(port: int) -> set[tuple[int, ...]]:
    """The options of this process's sockets that are connected to a port, as the kernel has them."""
    found = set()
    for entry in list(Path("/proc/self/fd").iterdir()):
        if not (entry.is_symlink() and str(entry.readlink()).startswith("socket:")):
            continue
        with socket.socket(fileno=os.dup(int(entry.name))) as copy:
            try:
                peer = copy.getpeername()
            except OSError:
                continue  # it listens
            if isinstance(peer, tuple) and peer[1] == port:
                names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                alive = copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
                found.add((alive, *(copy.getsockopt(socket.IPPROTO_TCP, name) for name in names)))
    return found


def require_token(valid: dict[str, str]):  # type: ignore[no-untyped-def]
    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {valid['token']}":
            return status_answer(401, "Unauthorized")
        return json_answer({"fine": True})

    return answer


def kubeconfig(folder: Path, server: str, user: dict[str, object], **cluster: object) -> Path:
    file = folder / "config"
    file.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "mine"}}],
                "clusters": [{"name": "k", "cluster": {"server": server, **cluster}}],
                "users": [{"name": "u", "user": user}],
            }
        )
    )
    return file


def plugin(folder: Path, body: str) -> dict[str, object]:
    script = folder / "plugin.py"
    script.write_text(textwrap.dedent(body))
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(script)],
            "interactiveMode": "Never",
        }
    }


PLUGIN = """
    import json, os, pathlib, sys
    info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
    assert info["kind"] == "ExecCredential" and info["spec"]["interactive"] is False, info
    folder = pathlib.Path(sys.argv[0]).parent
    with open(folder / "runs", "a") as runs:
        runs.write("x")
    print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential",
                      "status": json.loads((folder / "status").read_text())}))
"""


NEVER_ENDS = """
    import os, pathlib, sys, time
    folder = pathlib.Path(sys.argv[0]).parent
    (folder / "started").write_text(str(os.getpid()))
    (folder / "started").rename(folder / "pid")
    time.sleep(600)
"""


# Its first token has expired already. While there is a file "hold", a run does not end.
SLOW = """
    import json, os, pathlib, sys, time
    folder = pathlib.Path(sys.argv[0]).parent
    with open(folder / "runs", "a") as runs:
        runs.write("x")
    first = not (folder / "hold").exists()
    if not first:
        (folder / "started").write_text(str(os.getpid()))
        (folder / "started").rename(folder / "pid")
    while (folder / "hold").exists():
        time.sleep(0.01)
    print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                      "status": {"token": "slow",
                                 "expirationTimestamp": f"{2020 if first else 2999}-01-01T00:00:00Z"}}))
"""


async def running_program(folder: Path) -> int:
    """The id of the plugin that has started; the test's own timeout is the limit."""
    await until((folder / "pid").exists, 60)
    return int((folder / "pid").read_text())


async def until_gone(program: int) -> None:
    """Returns when the program has ended, and with it all tasks but the test's own."""
    await until(lambda: len(asyncio.all_tasks()) == 1, 60)
    with pytest.raises(ProcessLookupError):
        os.kill(program, 0)


class TestCredentials:
    async def test_on_401_a_token_file_is_read_at_once_and_the_request_repeated_once(self, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("old\n")
        valid = {"token": "old"}
        async with HttpServer(require_token(valid)) as server:
            config = kubeconfig(tmp_path, server.url, {"tokenFile": "token"})
            async with Client.from_kubeconfig(config) as client:
                assert await client.request("GET", "/x") == {"fine": True}
                valid["token"] = "new"
                token.write_text("new\n")
                assert await client.request("GET", "/x") == {"fine": True}
                async with client.stream("/x") as body:
                    assert await body.read_all() == b'{"fine": true}'
        assert len(server.requests) == 4  # one of them refused

    async def test_on_401_with_nothing_newer_the_error_is_raised_without_a_second_request(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("old")
        async with HttpServer(require_token({"token": "new"})) as server:
            config = kubeconfig(tmp_path, server.url, {"tokenFile": "token"})
            async with Client.from_kubeconfig(config) as client:
                with pytest.raises(UnauthorizedError):
                    await client.request("GET", "/x")
        assert len(server.requests) == 1

    @pytest.mark.virtual_time
    async def test_a_token_file_is_read_again_after_a_minute_without_any_401(self, tmp_path: Path) -> None:
        token = tmp_path / "token"
        token.write_text("one")
        seen = []

        async def answer(request: web.Request) -> web.Response:
            seen.append(request.headers["Authorization"])
            return json_answer({})

        async with HttpServer(answer) as server:
            config = kubeconfig(tmp_path, server.url, {"tokenFile": "token"})
            async with Client.from_kubeconfig(config) as client:
                await client.request("GET", "/x")
                token.write_text("two")
                await asyncio.sleep(50)
                await client.request("GET", "/x")
                await asyncio.sleep(15)
                await client.request("GET", "/x")
                token.unlink()
                await asyncio.sleep(61)
                await client.request("GET", "/x")
        assert seen == ["Bearer one", "Bearer one", "Bearer two", "Bearer two"]

    @pytest.mark.process
    async def test_a_plugin_runs_once_and_again_on_401(self, tmp_path: Path) -> None:
        status = tmp_path / "status"
        status.write_text(json.dumps({"token": "one"}))
        valid = {"token": "one"}
        async with HttpServer(require_token(valid)) as server:
            config = kubeconfig(tmp_path, server.url, plugin(tmp_path, PLUGIN))
            async with Client.from_kubeconfig(config) as client:
                await client.request("GET", "/x")
                await client.request("GET", "/x")
                assert (tmp_path / "runs").read_text() == "x"
                valid["token"] = "two"
                status.write_text(json.dumps({"token": "two"}))
                answers = await asyncio.gather(*(client.request("GET", "/x") for _ in range(5)))
                assert answers == [{"fine": True}] * 5
        assert (tmp_path / "runs").read_text() == "xx"  # one run for all five

    @pytest.mark.process
    async def test_a_plugin_whose_tokens_are_all_refused_does_not_run_for_each_request(self, tmp_path: Path) -> None:
        each_another = PLUGIN.replace('json.loads((folder / "status").read_text())', '{"token": str(os.getpid())}')
        async with HttpServer(require_token({"token": "none"})) as server:
            config = kubeconfig(tmp_path, server.url, plugin(tmp_path, each_another))
            async with Client.from_kubeconfig(config) as client:
                for _ in range(10):
                    with pytest.raises(UnauthorizedError):
                        await client.request("GET", "/x")
        assert (tmp_path / "runs").read_text() == "xx"  # on entering, and at the first 401

    @pytest.mark.process
    async def test_a_plugin_that_could_ask_runs_without_a_terminal_where_stdin_is_closed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "status").write_text(json.dumps({"token": "one"}))
        closed = io.StringIO()
        closed.close()
        monkeypatch.setattr(sys, "stdin", closed)
        user = plugin(tmp_path, PLUGIN)
        user["exec"]["interactiveMode"] = "IfAvailable"  # type: ignore[index]
        async with (
            HttpServer(require_token({"token": "one"})) as server,
            Client.from_kubeconfig(kubeconfig(tmp_path, server.url, user)) as client,
        ):
            assert await client.request("GET", "/x") == {"fine": True}

    @pytest.mark.process
    async def test_a_plugin_runs_again_when_its_token_nears_its_end(self, tmp_path: Path) -> None:
        status = tmp_path / "status"
        status.write_text(json.dumps({"token": "one", "expirationTimestamp": "2020-01-01T00:00:00Z"}))
        async with HttpServer(require_token({"token": "two"})) as server:
            config = kubeconfig(tmp_path, server.url, plugin(tmp_path, PLUGIN))
            async with Client.from_kubeconfig(config) as client:
                status.write_text(json.dumps({"token": "two", "expirationTimestamp": "2999-01-01T00:00:00Z"}))
                await client.request("GET", "/x")
                await client.request("GET", "/x")
        assert (tmp_path / "runs").read_text() == "xx"
        assert len(server.requests) == 2

    @pytest.mark.process
    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ("import sys; sys.exit('no session: log in first')", "ended with status 1; run it by itself to see why"),
            ("print('{}')", "did not print an ExecCredential"),
            (f"print('{SECRET}')", "did not print JSON"),
            ('print(\'{"kind": "ExecCredential", "apiVersion": "v9", "status": {}}\')', "exec.apiVersion"),
        ],
    )
    async def test_a_plugin_that_fails_is_a_config_error_that_names_file_and_field(
        self, tmp_path: Path, body: str, said: str
    ) -> None:
        config = kubeconfig(tmp_path, "http://127.0.0.1:1", plugin(tmp_path, body))
        with pytest.raises(ConfigError, match=r"users\[u\].user.exec") as caught:
            async with Client.from_kubeconfig(config):
                pytest.fail("entered")
        assert said in str(caught.value)
        assert str(config) in str(caught.value)
        assert SECRET not in str(caught.value)

    @pytest.mark.process
    async def test_a_plugin_is_killed_when_the_entering_that_waits_for_it_is_cancelled(self, tmp_path: Path) -> None:
        config = kubeconfig(tmp_path, "http://127.0.0.1:1", plugin(tmp_path, NEVER_ENDS))
        entering = asyncio.create_task(Client.from_kubeconfig(config).__aenter__())
        program = await running_program(tmp_path)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await until_gone(program)

    @pytest.mark.process
    async def test_a_renewal_that_takes_longer_than_a_request_waits_is_there_for_the_next(self, tmp_path: Path) -> None:
        async with HttpServer(require_token({"token": "slow"})) as server:
            config = kubeconfig(tmp_path, server.url, plugin(tmp_path, SLOW))
            async with Client.from_kubeconfig(config) as client:
                (tmp_path / "hold").touch()
                request = asyncio.create_task(client.request("GET", "/x"))
                await running_program(tmp_path)
                request.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await request
                (tmp_path / "hold").unlink()
                assert await client.request("GET", "/x") == {"fine": True}
        assert (tmp_path / "runs").read_text() == "xx"  # on entering, and the one that was left alone

    @pytest.mark.process
    async def test_leaving_a_client_kills_a_renewal_that_nobody_waits_for(self, tmp_path: Path) -> None:
        config = kubeconfig(tmp_path, "http://127.0.0.1:1", plugin(tmp_path, SLOW))
        async with Client.from_kubeconfig(config) as client:
            (tmp_path / "hold").touch()
            request = asyncio.create_task(client.request("GET", "/x"))
            program = await running_program(tmp_path)
            request.cancel()
            with pytest.raises(asyncio.CancelledError):
                await request
            os.kill(program, 0)  # it is there
        assert len(asyncio.all_tasks()) == 1
        with pytest.raises(ProcessLookupError):
            os.kill(program, 0)

    @pytest.mark.process
    async def test_a_plugin_that_is_missing_is_named_with_its_hint(self, tmp_path: Path) -> None:
        missing = {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "no-such-plugin",
            "installHint": "get it",
        }
        config = kubeconfig(tmp_path, "http://127.0.0.1:1", {"exec": missing})
        with pytest.raises(ConfigError, match=r"exec.command: cannot run 'no-such-plugin'.*get it"):
            async with Client.from_kubeconfig(config):
                pytest.fail("entered")

    async def test_impersonation_and_password_reach_the_server(self, tmp_path: Path) -> None:
        user = {
            "username": "u",
            "password": "p",
            "as": "alice",
            "as-groups": ["g1", "g2"],
            "as-user-extra": {"k": ["v"]},
        }
        async with (
            HttpServer(echo) as server,
            Client.from_kubeconfig(kubeconfig(tmp_path, server.url, user)) as client,
        ):
            await client.request("GET", "/x")
            assert client.namespace == "mine"
        headers = server.requests[0].headers
        assert headers["Authorization"] == "Basic " + base64.b64encode(b"u:p").decode()
        assert headers["Impersonate-User"] == "alice"
        assert headers.getall("Impersonate-Group") == ["g1", "g2"]
        assert headers["Impersonate-Extra-k"] == "v"


class TestUserAgent:
    async def test_it_is_that_of_every_request_and_of_the_api_client(self, tmp_path: Path) -> None:
        async with HttpServer(echo) as server:
            config = kubeconfig(tmp_path, server.url, {"token": "t"})
            for made in (
                Client.from_url(server.url, user_agent="prober/1.0 (team-a)"),
                Client.from_kubeconfig(config, user_agent="prober/1.0 (team-a)"),
            ):
                async with made as client:
                    await client.request("GET", "/x")
                    await client.text("/x")
                    async with client.stream("/x") as body:
                        await body.read_all(1000)
                    await client.api_client.call_api("/x", "GET", auth_settings=["BearerToken"])
            async with Client.from_url(server.url) as client:
                await client.request("GET", "/x")
        agents = [request.headers["User-Agent"] for request in server.requests]
        assert agents[:-1] == ["prober/1.0 (team-a)"] * 8
        assert agents[-1].startswith("kinformer/")

    @pytest.mark.parametrize("wrong", ["", " ", "a\r\nX: y", "é", 7])
    def test_what_cannot_be_a_header_is_refused_at_once_by_every_constructor(self, wrong: object) -> None:
        agent: Any = wrong
        for make in (
            Client,
            Client.from_kubeconfig,
            Client.in_cluster,
            lambda **options: Client.from_url("http://a", **options),
        ):
            with pytest.raises(ConfigError, match="user_agent"):
                make(user_agent=agent)


class TestApiClient:
    async def test_an_api_client_that_was_given_lends_its_credential_and_stays_open(self) -> None:
        from kubernetes_asyncio.client import ApiClient, Configuration

        valid = {"token": "lent"}
        async with HttpServer(require_token(valid)) as server:
            configuration = Configuration(host=server.url)
            configuration.api_key["BearerToken"] = "Bearer lent"
            async with ApiClient(configuration) as api_client:
                async with Client.from_api_client(api_client) as client:
                    assert client.api_client is api_client
                    assert await client.request("GET", "/x") == {"fine": True}
                    valid["token"] = "newer"
                    configuration.api_key["BearerToken"] = "Bearer newer"
                    assert await client.request("GET", "/x") == {"fine": True}
                assert not api_client.rest_client.pool_manager.closed

    async def test_its_own_api_client_renews_tokens_as_the_client_does(self, tmp_path: Path) -> None:
        (tmp_path / "token").write_text("one")
        async with HttpServer(echo) as server:
            config = kubeconfig(tmp_path, server.url, {"tokenFile": "token"})
            async with Client.from_kubeconfig(config) as client:
                api_client = client.api_client
                assert client.api_client is api_client
                await api_client.call_api("/x", "GET", auth_settings=["BearerToken"])
            assert api_client.rest_client.pool_manager.closed
        assert server.requests[0].headers["Authorization"] == "Bearer one"

    async def test_something_else_is_a_config_error(self) -> None:
        with pytest.raises(ConfigError, match="expected an ApiClient"):
            async with Client.from_api_client(object()):
                pytest.fail("entered")

    @pytest.mark.process
    def test_importing_and_using_a_client_does_not_import_kubernetes_asyncio(self) -> None:
        code = """
            import asyncio, sys
            from kinformer import Client
            from kinformer.exceptions import ConnectError
            async def main():
                async with Client.from_url("http://127.0.0.1:1") as client:
                    try:
                        await client.request("GET", "/x")
                    except ConnectError:
                        pass
            asyncio.run(main())
            assert not [name for name in sys.modules if name.startswith("kubernetes_asyncio")]
        """
        subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)


def parts_of(client: Client) -> list[object]:
    """The client and all objects of kinformer that it holds: its connection, its credential and so on."""
    found: dict[int, object] = {}
    rest: list[object] = [client]
    while rest:
        one = rest.pop()
        if id(one) not in found and (type(one) in (dict, list, tuple) or type(one).__module__.startswith("kinformer.")):
            found[id(one)] = one
            rest += gc.get_referents(one)
    return [one for one in found.values() if type(one) not in (dict, list, tuple)]


class TestSecrets:
    @pytest.mark.process
    async def test_no_repr_and_no_log_line_shows_a_token(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        caplog.set_level(logging.DEBUG)
        (tmp_path / "token").write_text(SECRET)
        (tmp_path / "status").write_text(json.dumps({"token": SECRET}))
        users: list[dict[str, object]] = [
            {"token": SECRET},
            {"tokenFile": "token"},
            {"username": "u", "password": SECRET},
            plugin(tmp_path, PLUGIN),
        ]

        async def refuse(request: web.Request) -> web.StreamResponse:
            if request.query:
                return await send_chunks(request, [b"<html>"], content_type="text/html", end=False)
            return status_answer(401, "Unauthorized")

        texts = []
        async with HttpServer(refuse) as server:
            for user in users:
                async with Client.from_kubeconfig(kubeconfig(tmp_path, server.url, user)) as client:
                    parts = parts_of(client)
                    assert len(parts) > 4
                    texts += [text for part in parts for text in (repr(part), str(part))]
                    with pytest.raises(UnauthorizedError) as refused:
                        await client.request("GET", "/x")
                    with pytest.raises(ConnectError) as cut:
                        await client.request("GET", "/x?y=z", retries=0)
                    texts += [repr(refused.value), repr(cut.value), repr(cut.value.__cause__)]
        basic = base64.b64encode(f"u:{SECRET}".encode()).decode()
        for text in [*texts, caplog.text]:
            assert SECRET not in text
            assert basic not in text

    @pytest.mark.parametrize("url", [f"https://u:{SECRET}@host", f"https://{SECRET}@host:1"])
    def test_a_url_with_a_password_is_refused_without_showing_it(self, url: str) -> None:
        with pytest.raises(ConfigError, match="url: the URL has a user or password") as caught:
            Client.from_url(url)
        assert SECRET not in str(caught.value)


@pytest.fixture
def server_context(certificates: Path) -> ssl.SSLContext:
    context = server_side(certificates, "server")
    context.load_verify_locations(certificates / "ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def who(request: web.Request) -> web.Response:
    assert request.transport is not None
    peer = request.transport.get_extra_info("peercert")
    return json_answer({"peer": dict(pair[0] for pair in peer["subject"])["commonName"] if peer else None})


def inline(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()


class TestTLS:
    async def test_the_server_is_verified_by_default(self, server_context: ssl.SSLContext) -> None:
        async with HttpServer(who, ssl_context=server_context) as server, Client.from_url(server.url) as client:
            with pytest.raises(ConnectError, match="certificate verify failed"):
                await client.request("GET", "/x")
        assert not server.requests

    async def test_verification_can_be_switched_off(self, server_context: ssl.SSLContext) -> None:
        async with (
            HttpServer(who, ssl_context=server_context) as server,
            Client.from_url(server.url, ssl=False) as client,
        ):
            assert await client.request("GET", "/x") == {"peer": None}

    async def test_a_name_that_does_not_match_is_refused_and_tls_server_name_makes_it_match(
        self, server_context: ssl.SSLContext, certificates: Path, tmp_path: Path
    ) -> None:
        ca = {"certificate-authority": str(certificates / "ca.crt")}
        async with HttpServer(who, ssl_context=server_context) as server:
            async with Client.from_kubeconfig(kubeconfig(tmp_path, server.url, {}, **ca)) as client:
                with pytest.raises(ConnectError, match="IP address mismatch"):
                    await client.request("GET", "/x")
            ca["tls-server-name"] = "api.internal"
            async with Client.from_kubeconfig(kubeconfig(tmp_path, server.url, {}, **ca)) as client:
                assert await client.request("GET", "/x") == {"peer": None}

    async def test_a_scheme_in_capitals_has_the_same_authority_and_client_certificate(
        self, server_context: ssl.SSLContext, certificates: Path, tmp_path: Path
    ) -> None:
        user: dict[str, object] = {
            "client-certificate": str(certificates / "client.crt"),
            "client-key": str(certificates / "client.key"),
        }
        cluster = {"certificate-authority": str(certificates / "ca.crt"), "tls-server-name": "api.internal"}
        async with HttpServer(who, ssl_context=server_context) as server:
            config = kubeconfig(tmp_path, server.url.replace("https:", "HTTPS:"), user, **cluster)
            async with Client.from_kubeconfig(config) as client:
                assert await client.request("GET", "/x") == {"peer": "client"}

    async def test_a_client_certificate_is_sent_by_the_client_and_by_its_api_client(
        self, server_context: ssl.SSLContext, certificates: Path, tmp_path: Path
    ) -> None:
        user: dict[str, object] = {
            "client-certificate-data": inline(certificates / "client.crt"),
            "client-key-data": inline(certificates / "client.key"),
        }
        cluster = {"certificate-authority-data": inline(certificates / "ca.crt"), "tls-server-name": "api.internal"}
        async with HttpServer(who, ssl_context=server_context) as server:
            config = kubeconfig(tmp_path, server.url, user, **cluster)
            async with Client.from_kubeconfig(config) as client:
                assert await client.request("GET", "/x") == {"peer": "client"}
                api_client = client.api_client
                written = api_client.configuration.key_file
                assert os.stat(written).st_mode & 0o77 == 0  # noqa: PTH116
                found = await api_client.call_api("/x", "GET", response_types_map={200: "object"})
                assert found[0] == {"peer": "client"}
            assert not os.path.exists(written)  # noqa: ASYNC240, PTH110

    @pytest.mark.process
    async def test_a_plugin_may_give_a_certificate(
        self, server_context: ssl.SSLContext, certificates: Path, tmp_path: Path
    ) -> None:
        (tmp_path / "status").write_text(
            json.dumps(
                {
                    "clientCertificateData": (certificates / "client.crt").read_text(),
                    "clientKeyData": (certificates / "client.key").read_text(),
                }
            )
        )
        cluster = {"certificate-authority": str(certificates / "ca.crt"), "tls-server-name": "api.internal"}
        async with HttpServer(who, ssl_context=server_context) as server:
            config = kubeconfig(tmp_path, server.url, plugin(tmp_path, PLUGIN), **cluster)
            async with Client.from_kubeconfig(config) as client:
                assert await client.request("GET", "/x") == {"peer": "client"}

    async def test_an_authority_that_was_replaced_is_read_again(
        self, server_context: ssl.SSLContext, certificates: Path, tmp_path: Path
    ) -> None:
        ca = tmp_path / "ca.crt"
        ca.write_bytes((certificates / "client.crt").read_bytes())
        cluster = {"certificate-authority": "ca.crt", "tls-server-name": "api.internal"}
        async with (
            HttpServer(who, ssl_context=server_context) as server,
            Client.from_kubeconfig(kubeconfig(tmp_path, server.url, {}, **cluster)) as client,
        ):
            with pytest.raises(ConnectError, match="certificate verify failed"):
                await client.request("GET", "/x")
            ca.write_bytes((certificates / "ca.crt").read_bytes() + b"\n")
            assert await client.request("GET", "/x") == {"peer": None}

    async def test_an_authority_that_was_replaced_by_a_file_of_the_same_time_and_size_is_read_again(
        self, server_context: ssl.SSLContext, certificates: Path, tmp_path: Path
    ) -> None:
        texts = [(certificates / name).read_bytes() for name in ("client.crt", "ca.crt")]
        size = max(map(len, texts))
        old, new = tmp_path / "ca.crt", tmp_path / "new.crt"
        for file, text in zip((old, new), texts, strict=True):
            file.write_bytes(text.ljust(size, b"\n"))
            os.utime(file, (0, 0))
        cluster = {"certificate-authority": "ca.crt", "tls-server-name": "api.internal"}
        async with (
            HttpServer(who, ssl_context=server_context) as server,
            Client.from_kubeconfig(kubeconfig(tmp_path, server.url, {}, **cluster)) as client,
        ):
            with pytest.raises(ConnectError, match="certificate verify failed"):
                await client.request("GET", "/x")
            new.replace(old)
            assert await client.request("GET", "/x") == {"peer": None}

    async def test_a_client_certificate_that_was_replaced_is_shown_on_every_connection_from_the_first_401_on(
        self, server_context: ssl.SSLContext, certificates: Path, tmp_path: Path
    ) -> None:
        refused, together = {""}, asyncio.Barrier(3)

        async def answer(request: web.Request) -> web.Response:
            if request.path == "/together":
                await together.wait()
            assert request.transport is not None
            name = dict(pair[0] for pair in request.transport.get_extra_info("peercert")["subject"])["commonName"]
            return status_answer(401, "Unauthorized") if name in refused else json_answer({"peer": name})

        def place(name: str) -> None:
            for end in ("crt", "key"):
                shutil.copy(certificates / f"{name}.{end}", tmp_path / f"me.{end}")

        async def all_at_once(client: Client) -> list[object]:
            return await asyncio.gather(*(client.request("GET", "/together") for _ in range(3)))

        async def streamed(client: Client) -> bytes:
            async with client.stream("/x") as body:
                return await body.read_all()

        place("client")
        user: dict[str, object] = {"client-certificate": "me.crt", "client-key": "me.key"}
        cluster = {"certificate-authority": str(certificates / "ca.crt"), "tls-server-name": "api.internal"}
        async with (
            HttpServer(answer, ssl_context=server_context) as server,
            Client.from_kubeconfig(kubeconfig(tmp_path, server.url, user, **cluster)) as client,
        ):
            assert await all_at_once(client) == [{"peer": "client"}] * 3  # three connections are in the pool now
            assert await streamed(client) == b'{"peer": "client"}'
            place("renewed")
            refused.add("client")
            assert await all_at_once(client) == [{"peer": "renewed"}] * 3
            asked = len(server.requests)
            assert await all_at_once(client) == [{"peer": "renewed"}] * 3
            assert await streamed(client) == b'{"peer": "renewed"}'
            found = await client.api_client.call_api("/x", "GET", response_types_map={200: "object"})
            assert found[0] == {"peer": "renewed"}
            assert len(server.requests) == asked + 5  # none was refused

    async def test_a_core_v1_call_takes_no_connection_of_an_older_client_certificate(
        self, server_context: ssl.SSLContext, certificates: Path, tmp_path: Path
    ) -> None:
        place, status = tmp_path / "me.pem", {"code": 200}

        async def answer(request: web.Request) -> web.Response:
            return status_answer(401, "Unauthorized") if status["code"] == 401 else await who(request)

        def combined(name: str) -> bytes:
            return b"".join((certificates / f"{name}.{end}").read_bytes() for end in ("crt", "key"))

        place.write_bytes(combined("client"))
        user: dict[str, object] = {"client-certificate": "me.pem", "client-key": "me.pem"}
        cluster = {"certificate-authority": str(certificates / "ca.crt"), "tls-server-name": "api.internal"}
        async with (
            HttpServer(answer, ssl_context=server_context) as server,
            Client.from_kubeconfig(kubeconfig(tmp_path, server.url, user, **cluster)) as client,
        ):
            assert await client.request("GET", "/x") == {"peer": "client"}
            place.write_bytes(combined("renewed") + b"\n")
            status["code"] = 401
            with pytest.raises(UnauthorizedError):
                async with client.stream("/x"):  # on a pool of its own
                    pytest.fail("entered")
            status["code"] = 200
            found = await client.api_client.call_api("/x", "GET", response_types_map={200: "object"})
            assert found[0] == {"peer": "renewed"}

    async def test_a_key_that_does_not_fit_is_a_config_error_that_names_the_field(
        self, certificates: Path, tmp_path: Path
    ) -> None:
        user: dict[str, object] = {
            "client-certificate": str(certificates / "client.crt"),
            "client-key": str(certificates / "server.key"),
        }
        with pytest.raises(ConfigError, match=r"users\[u\].user.client-certificate: expected a certificate"):
            async with Client.from_kubeconfig(kubeconfig(tmp_path, "https://127.0.0.1:1", user)):
                pytest.fail("entered")

    async def test_an_authority_that_is_no_certificate_is_a_config_error_that_names_the_field(
        self, tmp_path: Path
    ) -> None:
        cluster = {"certificate-authority-data": base64.b64encode(b"nonsense").decode()}
        with pytest.raises(ConfigError, match=r"clusters\[k\].cluster.certificate-authority-data: not certificates"):
            async with Client.from_kubeconfig(kubeconfig(tmp_path, "https://127.0.0.1:1", {}, **cluster)):
                pytest.fail("entered")


class TestProxies:
    async def test_the_proxy_of_the_kubeconfig_is_used_for_requests_and_streams(self, tmp_path: Path) -> None:
        async with HttpServer(echo) as proxy:
            config = kubeconfig(tmp_path, "http://api.internal:8080", {}, **{"proxy-url": proxy.url})
            async with Client.from_kubeconfig(config) as client:
                await client.request("GET", "/one")
                async with client.stream("/two") as body:
                    await body.read_all()
        assert [(r.host, r.path) for r in proxy.requests] == [
            ("api.internal", "/one"),
            ("api.internal", "/two"),
        ]

    async def test_the_proxy_of_the_environment_is_used_but_not_for_what_no_proxy_names(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with HttpServer(echo) as proxy:
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
            monkeypatch.setenv("NO_PROXY", "10.0.0.0/8")
            async with Client.from_url("http://api.internal:8080") as client:
                await client.request("GET", "/one")
            async with Client.from_url(proxy.url) as client:  # loopback is never proxied
                await client.request("GET", "/two")
        assert [r.host for r in proxy.requests] == ["api.internal", proxy.url.removeprefix("http://")]
