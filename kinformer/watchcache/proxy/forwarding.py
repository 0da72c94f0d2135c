"""Reads that only the server can answer: passed on to it, and its responses passed back, while they arrive."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import aiohttp
from aiohttp import web

from kinformer._runtime.logs import get_logger
from kinformer.apiserver.status import failure
from kinformer.connection.aiohttp_internals import transport_of, without_close_notify
from kinformer.connection.connection import Connection
from kinformer.exceptions import ConnectError
from kinformer.watchcache.proxy.headers import request_headers, response_headers

__all__ = ["Forwarder"]

log = get_logger("kinformer.proxy")

_HEAD = 90.0  # seconds for the head of a response. An API server itself ends a request after 60


class Forwarder:
    """Passes requests on to the server of a client, with its credentials.

    Args:
        client: The client.
    """

    def __init__(self, client: Connection) -> None:
        self._client = client
        self._streams: set[aiohttp.ClientResponse] = set()  # responses that may never end by themselves

    def end_streams(self) -> None:
        """End the responses that have no end of their own. Between two lines, one ends like a complete one."""
        for response in self._streams:
            response.close()
        self._streams.clear()

    async def forward(self, request: web.Request, *, is_stream: bool) -> web.StreamResponse:
        """Return the server's response, after it was passed back. The path and the query are passed on as they are.

        Args:
            request: The request.
            is_stream: True for lines without an end, as of a watch.

        Raises:
            StatusError: A 503 or 504. There is no response.
        """
        response = await self._response(request)
        if is_stream:
            self._streams.add(response)
        try:
            return await self._passed_back(request, response, is_stream=is_stream)
        finally:
            self._streams.discard(response)
            _release(response)

    async def _response(self, request: web.Request) -> aiohttp.ClientResponse:
        try:
            async with asyncio.timeout(_HEAD):
                return await self._client.forward(request.method, request.raw_path, request_headers(request))
        except TimeoutError:
            message = f"the proxy has no response of the server after {_HEAD:g} s"
            raise failure(504, message, details={"retryAfterSeconds": 1}) from None
        except ConnectError as error:
            log.debug("%s", error, reason=error)
            message = f"the proxy has no response of the server: {error}"
            raise failure(503, message, details={"retryAfterSeconds": 1}) from None

    async def _passed_back(
        self, request: web.Request, response: aiohttp.ClientResponse, *, is_stream: bool
    ) -> web.StreamResponse:
        headers = response_headers(response.headers)
        answer = web.StreamResponse(status=response.status, reason=response.reason, headers=headers)
        last, complete = b"\n", False
        try:
            await answer.prepare(request)
            while chunk := await response.content.readany():
                await answer.write(chunk)
                last = chunk[-1:]
            complete = True
        except (aiohttp.ClientError, OSError) as error:
            if is_stream and response not in self._streams:  # this proxy stops
                complete = last == b"\n" and "Content-Encoding" not in headers
            else:
                log.debug("a response was cut off: %s", error, reason=error)
        if not complete and request.transport is not None:
            request.transport.abort()  # otherwise the client could take it for complete
        with suppress(ConnectionError):
            await answer.write_eof()
        return answer


def _release(response: aiohttp.ClientResponse) -> None:
    """Return the connection to the pool if the body was read to its end, and otherwise close it."""
    if response.content.at_eof() and response.content.exception() is None:
        response.release()
        return
    without_close_notify(transport_of(response))
    response.close()
