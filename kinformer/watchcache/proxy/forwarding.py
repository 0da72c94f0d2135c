"""Requests that only the server can answer: passed on to it, and its responses passed back, while they arrive."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from kinformer._runtime.logs import get_logger
from kinformer.apiserver.status import failure
from kinformer.connection.aiohttp_internals import transport_of, without_close_notify
from kinformer.connection.connection import Connection
from kinformer.exceptions import ConfigError, ConnectError
from kinformer.watchcache.proxy.headers import request_headers, response_headers, upgrade_of
from kinformer.watchcache.proxy.tunnel import Ending, tunnel

__all__ = ["Forwarder"]

log = get_logger("kinformer.proxy")

_HEAD = 90.0  # seconds for the head of a response. An API server itself ends a request after 60
_SMALL = 64 * 1024  # bytes. A smaller body is read first, so that it can be sent again with a renewed credential
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Forwarder:
    """Passes requests on to the server of a client.

    Args:
        client: The client. Its credentials are added, if it has any.
        credentials: True to pass on the `Authorization` of a request. The client must then have no credentials.
    """

    def __init__(self, client: Connection, *, credentials: bool = False) -> None:
        self._client = client
        self._credentials = credentials

    async def forward(self, request: web.Request, ending: Ending) -> web.StreamResponse:
        """Return the server's response, after it was passed back.

        Args:
            request: The request. Its path is passed on as it is written.
            ending: Ends the response early. Between two lines, as of a watch, it then ends like a complete one.

        Raises:
            StatusError: A 403, 503 or 504. There is no response.
        """
        headers = request_headers(request, credentials=self._credentials)
        response = await self._response(request, headers, await _body(request))
        try:
            if response.status == HTTPStatus.SWITCHING_PROTOCOLS:
                return await tunnel(request, response, ending)
            return await _passed_back(request, response, ending)
        except ConnectError as error:
            raise failure(503, f"the proxy has no response of the server: {error}") from None
        finally:
            _release(response)

    async def _response(
        self, request: web.Request, headers: CIMultiDict[str], data: bytes | aiohttp.StreamReader | None
    ) -> aiohttp.ClientResponse:
        limited = not isinstance(data, aiohttp.StreamReader)
        try:
            async with asyncio.timeout(_HEAD if limited else None):
                return await self._client.forward(request.method, request.raw_path, headers, data)
        except TimeoutError:
            message = f"the proxy has no response of the server after {_HEAD:g} s"
            raise failure(504, message, details={"retryAfterSeconds": 1}) from None
        except ConfigError as error:
            raise failure(403, f"forbidden: {error}", details={}) from None
        except ConnectError as error:
            log.debug("%s", error, reason=error)
            message = f"the proxy has no response of the server: {error}"
            raise failure(503, message, details={"retryAfterSeconds": 1}) from None


async def _body(request: web.Request) -> bytes | aiohttp.StreamReader | None:
    """Return the body to pass on: as a whole if it is small, and otherwise as it arrives."""
    if not request.body_exists or upgrade_of(request.headers):
        return None
    if request.headers.get("Expect", "").lower() == "100-continue" and request.version >= aiohttp.HttpVersion11:
        await request.writer.write(_CONTINUE)
        request.writer.output_size = 0  # of the response, which has not begun
    length = request.content_length
    if length is not None and length <= _SMALL:
        return await request.content.read()
    return request.content


async def _passed_back(request: web.Request, response: aiohttp.ClientResponse, ending: Ending) -> web.StreamResponse:
    headers = response_headers(response.headers.items(), response.headers.getall("Connection", ()))
    answer = web.StreamResponse(status=response.status, reason=response.reason, headers=headers)
    last = b"\n"
    try:
        async with ending.within():
            await answer.prepare(request)
            while chunk := await response.content.readany():
                await answer.write(chunk)
                last = chunk[-1:]
        complete = not ending.is_over or (last == b"\n" and "Content-Encoding" not in headers)
    except (aiohttp.ClientError, OSError) as error:
        log.debug("a response was cut off: %s", error, reason=error)
        complete = False
    if not complete and request.transport is not None:
        request.transport.abort()  # otherwise the client could take it for complete
    with suppress(ConnectionError):
        await answer.write_eof()
    return answer


def _release(response: aiohttp.ClientResponse) -> None:
    """Return the connection to the pool if the body was read to its end, and otherwise close it."""
    if response.content.at_eof() and response.content.exception() is None and response.status >= HTTPStatus.OK:
        response.release()
        return
    without_close_notify(transport_of(response))
    response.close()
