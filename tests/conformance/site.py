"""The site of a test of both servers: a server, a namespace of its own, and raw HTTP whose exchanges are kept."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import yaml

from kinformer.testing import ClusterServer
from tests.conformance.transcript import Transcript
from tests.support.apiserver_http import Exchange, Reply
from tests.support.waiting import until

JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
PATIENCE = 10.0  # seconds for an answer or an event, so that a test which waits for one in vain fails in time


class Site:
    """`await site.post(site.configmaps, {...})`: a request, its answer, and both in the transcript."""

    def __init__(self, server: ClusterServer, namespace: str) -> None:
        self.server = server
        self.namespace = namespace
        self.transcript = Transcript(namespace)
        self._ssl = ssl.create_default_context(cafile=server.ca_file) if server.ca_file else None

    def core(self, resource: str) -> str:
        """The path of a collection of the core group in the namespace."""
        return f"/api/v1/namespaces/{self.namespace}/{resource}"

    def of(self, group_version: str, resource: str) -> str:
        """The path of a collection of a group in the namespace."""
        return f"/apis/{group_version}/namespaces/{self.namespace}/{resource}"

    @property
    def configmaps(self) -> str:
        return self.core("configmaps")

    @property
    def pods(self) -> str:
        return self.core("pods")

    # -- requests that are kept -----------------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: str | None = None,
        token: str | None = None,
        anonymous: bool = False,
        kept: bool = True,
        **headers: str,
    ) -> Reply:
        """One request and its whole answer; headers by keyword, `content_type="..."`."""
        sent = {name.replace("_", "-").title(): value for name, value in headers.items()}
        exchange = self.transcript.request(method, path, sent, body) if kept else {}
        reply = await self._exchange(method, path, body, sent, "" if anonymous else token or self.server.token(user))
        if kept:
            self.transcript.answer(exchange, reply.status, reply.headers, _document(reply))
        return reply

    async def get(self, path: str, **more: Any) -> Reply:
        return await self.ask("GET", path, **more)

    async def post(self, path: str, body: Any, **more: Any) -> Reply:
        return await self.ask("POST", path, body, **more)

    async def put(self, path: str, body: Any, **more: Any) -> Reply:
        return await self.ask("PUT", path, body, **more)

    async def patch(self, path: str, body: Any, kind: str = MERGE, **more: Any) -> Reply:
        return await self.ask("PATCH", path, body, content_type=kind, **more)

    async def delete(self, path: str, body: Any = None, **more: Any) -> Reply:
        return await self.ask("DELETE", path, body, **more)

    @asynccontextmanager
    async def watch(self, path: str, *, user: str | None = None, **headers: str) -> AsyncIterator[Stream]:
        """An open watch, behind its head."""
        sent = {name.replace("_", "-").title(): value for name, value in headers.items()}
        kept = self.transcript.request("GET", path, sent, None)
        exchange = await self._open("GET", path, None, sent, self.server.token(user))
        try:
            reply = await exchange.head()
            self.transcript.answer(kept, reply.status, reply.headers, None)
            yield Stream(exchange, self.transcript, kept)
        finally:
            await exchange.close()

    # -- requests that are not ------------------------------------------------------------------------------------

    async def make(self, path: str, body: Any) -> dict[str, Any]:
        """Create something that a test needs, and is not about."""
        reply = await self.ask("POST", path, body, kept=False)
        assert reply.status in (200, 201), reply.body
        made: dict[str, Any] = reply.json
        return made

    async def revision(self, collection: str) -> str:
        """The newest resourceVersion, by a list of a collection."""
        reply = await self.ask("GET", f"{collection}?limit=1", kept=False)
        assert reply.status == 200, reply.body
        return str(reply.json["metadata"]["resourceVersion"])

    async def until(self, path: str, status: int, user: str | None = None) -> None:
        """Wait until a GET is answered so: a real server follows its own definitions and roles a moment later."""
        await until(
            lambda: self.ask("GET", path, user=user, kept=False), 20, holds=lambda reply: reply.status == status
        )

    async def _exchange(self, method: str, path: str, body: Any, headers: dict[str, str], token: str | None) -> Reply:
        exchange = await self._open(method, path, body, headers, token)
        try:
            async with asyncio.timeout(PATIENCE):
                await exchange.head()
                return await exchange.rest()
        finally:
            await exchange.close()

    async def _open(self, method: str, path: str, body: Any, headers: dict[str, str], token: str | None) -> Exchange:
        data = body if body is None or isinstance(body, str) else json.dumps(body)
        login = {"Authorization": f"Bearer {token}"} if token else {}
        return await Exchange.open(
            self.server.url, method, path, headers={**headers, **login}, body=data, ssl=self._ssl
        )


class Stream:
    """The events of a watch, each in the transcript once it has been read."""

    def __init__(self, exchange: Exchange, transcript: Transcript, kept: dict[str, Any]) -> None:
        self._exchange = exchange
        self._transcript = transcript
        self._kept = kept
        self.reply = exchange.reply

    async def event(self, *, bookmarks: bool = False) -> dict[str, Any]:
        """The next one; bookmarks are passed over, as their time is the server's, unless they are asked for."""
        while True:
            async with asyncio.timeout(PATIENCE):
                line = await self._exchange.line()
            if not line:
                raise EOFError("the watch has ended")
            event: dict[str, Any] = json.loads(line)
            if bookmarks or event["type"] != "BOOKMARK":
                self._transcript.event(self._kept, event)
                return event

    async def events(self, count: int, *, bookmarks: bool = False) -> list[dict[str, Any]]:
        return [await self.event(bookmarks=bookmarks) for _ in range(count)]

    async def end(self) -> list[dict[str, Any]]:
        """What comes until the server ends it, cleanly, bookmarks left out."""
        found = []
        try:
            while True:
                found.append(await self.event())
        except EOFError:
            assert self.reply.clean or not self.reply.chunked, "the watch was cut"
            self._kept["end"] = "clean"
            return found

    async def remainder(self) -> list[dict[str, Any]]:
        """What comes until it ends in any way, cut or clean, bookmarks too."""
        found = []
        async with asyncio.timeout(PATIENCE):
            while line := await self._exchange.line():
                found.append(json.loads(line))
        return found


def _document(reply: Reply) -> Any:
    """The body as data where it is JSON or YAML, else as text."""
    kind = reply.headers.get("content-type", "")
    if "json" in kind and reply.body:
        return reply.json
    text = reply.body.decode(errors="replace")
    return yaml.safe_load(text) if "yaml" in kind else text
