"""The session of a follower with a holder: the handshake, and the heartbeats that follow it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager

import msgspec

from kinformer._runtime.json_depth import bounded
from kinformer._runtime.tasks import wait_for_end
from kinformer.client.client import Client
from kinformer.connection.body import Body
from kinformer.connection.config import VERSION, ConnectionSettings, at_once
from kinformer.exceptions import MALFORMED, APIError, ConnectError, DecodeError
from kinformer.watchcache.share.identity import Account
from kinformer.watchcache.share.kept import LOST
from kinformer.watchcache.share.listener import PROTOCOL, SESSION
from kinformer.watchcache.share.socket_path import SocketPath, UnreachableError

__all__ = ["Session", "client_at", "opened"]

_HANDSHAKE = 5.0  # seconds. The holder answers at once unless it hangs
_LINE = 1 << 20  # bytes, more than the tokens of a thousand caches

_NO_ANSWER: tuple[type[Exception], ...] = (DecodeError, *MALFORMED)


class _Hello(msgspec.Struct, gc=False):
    pid: int


_decode_hello: Callable[[bytes], _Hello] = bounded(msgspec.json.Decoder(_Hello).decode)
_decode_down: Callable[[bytes], list[str]] = bounded(msgspec.json.Decoder(list[str]).decode)


class Session:
    """An open session. `begin` sets `holder`, and each heartbeat the other attributes.

    Attributes:
        holder: The process id of the holder, as it sees itself.
        down: The tokens of the caches that do not follow the server, by the last heartbeat.
        lost_since: The time since which the holder has not reached the server, or None.
        has_begun: True once there was a heartbeat.
    """

    def __init__(self, body: Body) -> None:
        self.holder = 0
        self.has_begun = False
        self.down: Collection[str] = ()
        self.lost_since: float | None = None
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._body = body
        self._buffer = b""
        self._hearing: asyncio.Task[bool] | None = None

    async def begin(self) -> bool:
        """Read the answer of the holder. Return False if it ends instead.

        Raises:
            DecodeError, msgspec.DecodeError, RecursionError: It is not an answer.
        """
        if not await self._received():
            return False
        line, _, self._buffer = self._buffer.partition(b"\n")  # heartbeats may have come with it
        self.holder = _decode_hello(line).pid
        return True

    @property
    def silence(self) -> float:
        """Seconds since the last heartbeat."""
        return self._loop.time() - self._heard

    def has_lost_server(self, seconds: float) -> bool:
        """Return True if the holder has not reached the server for so long."""
        return self.lost_since is not None and self._heard - self.lost_since >= seconds

    async def heard(self, within: float) -> bool | None:
        """Wait for a heartbeat. Return False if the holder has ended, and None if it is silent for `within` seconds.

        Raises:
            DecodeError, msgspec.DecodeError, RecursionError: It is not a heartbeat.
        """
        if self._hearing is None:
            self._hearing = asyncio.ensure_future(self._hear())
        done, _ = await asyncio.wait({self._hearing}, timeout=within)
        if not done:
            return None
        hearing, self._hearing = self._hearing, None
        return hearing.result()

    async def close(self) -> None:
        """Stop listening."""
        hearing, self._hearing = self._hearing, None
        if hearing is not None:
            hearing.cancel()
            await wait_for_end([hearing])

    async def _hear(self) -> bool:
        try:
            if not await self._received():
                return False
        except ConnectError:
            return False
        self._heard = self._loop.time()
        lines, _, self._buffer = self._buffer.rpartition(b"\n")
        self.down = _decode_down(lines.rpartition(b"\n")[2])
        self.lost_since = (self.lost_since or self._heard) if LOST in self.down else None
        self.has_begun = True
        return True

    async def _received(self) -> bool:
        """Read until there is a whole line. Return False at the end."""
        while b"\n" not in self._buffer:
            chunk = await self._body.read()
            if not chunk:
                return False
            if len(self._buffer) > _LINE:
                raise DecodeError(f"a line of more than {_LINE} bytes")
            self._buffer += chunk
        return True


@asynccontextmanager
async def opened(path: SocketPath, identity: Account) -> AsyncIterator[Session]:
    """Open a session.

    Raises:
        UnreachableError: No process of this user listens, or the one that does refuses.
    """
    path.probe()
    params = {**identity.params(), "protocol": PROTOCOL, "version": VERSION}
    async with client_at(path) as client:
        try:
            async with client.stream(SESSION, params, timeout=_HANDSHAKE) as body:
                session = Session(body)
                if not await session.begin():
                    raise UnreachableError(f"{path}: the holder has ended", may_appear=True)
                try:
                    yield session
                finally:
                    await session.close()
        except APIError as error:
            raise UnreachableError(error.message or str(error), may_appear=error.status == 503) from None  # it ends
        except ConnectError as error:
            raise UnreachableError(str(error), may_appear=True) from None
        except _NO_ANSWER as error:
            raise UnreachableError(f"{path} is served by another program: {error}") from None


def client_at(path: SocketPath) -> Client:
    """Return a client for the API at a socket."""
    connection = ConnectionSettings(server="http://localhost", source="a shared cache", socket=str(path))
    return Client._loading(at_once(lambda: connection), {"compression": "none"})
