"""The session of a follower with a holder: the handshake, and the heartbeats that follow it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kinformer.client.body import Body
from kinformer.client.client import Client
from kinformer.client.config import Connection, at_once, installed_version
from kinformer.exceptions import APIError, ConnectError, DecodeError
from kinformer.watchcache.share.identity import Identity
from kinformer.watchcache.share.listener import PROTOCOL, SESSION
from kinformer.watchcache.share.socket_path import SocketPath, UnreachableError

__all__ = ["Session", "client_at", "opened"]

_HANDSHAKE = 5.0  # seconds. The holder answers at once unless it hangs


class Session:
    """An open session.

    Attributes:
        holder: The process id of the holder, as it sees itself.
        client: The client for requests to the holder. Closing it ends all their streams.
    """

    def __init__(self, holder: int, client: Client, body: Body) -> None:
        self.holder = holder
        self.client = client
        self._body = body

    async def heard(self) -> bool:
        """Wait for a heartbeat. Return False if the holder has ended."""
        try:
            return bool(await self._body.read())
        except ConnectError:
            return False


@asynccontextmanager
async def opened(path: SocketPath, identity: Identity) -> AsyncIterator[Session]:
    """Open a session, and close its client at the end.

    Raises:
        UnreachableError: No process of this user listens, or the one that does refuses.
    """
    path.probe()
    params = {**identity.params(), "protocol": PROTOCOL, "version": installed_version()}
    async with client_at(path) as client:
        try:
            async with client.stream(SESSION, params, timeout=_HANDSHAKE) as body:
                hello = json.loads((await body.read()) or b"null")
                if not isinstance(hello, dict):
                    raise UnreachableError(f"{path}: the holder has ended", may_appear=True)
                yield Session(int(hello["pid"]), client, body)
        except APIError as error:
            raise UnreachableError(error.message or str(error)) from None
        except ConnectError as error:
            raise UnreachableError(str(error), may_appear=True) from None
        except (DecodeError, ValueError, KeyError) as error:
            raise UnreachableError(f"{path} is served by another program: {error}") from None


def client_at(path: SocketPath) -> Client:
    """Return a client for the API at a socket."""
    connection = Connection(server="http://localhost", source="a shared cache", socket=str(path))
    return Client._loading(at_once(lambda: connection), {"compression": "none"})
