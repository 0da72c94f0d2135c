"""The public face of a shared cache: which part this process has, and how that changes."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, cast
from weakref import WeakSet

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.tasks import Tasks, wait_for_end
from kinformer.client.client import Client
from kinformer.exceptions import ConfigError, KinformerError, describe
from kinformer.list_watcher import ListerWatcher
from kinformer.listwatch.http_source import ListWatch
from kinformer.listwatch.sharing import CacheState, Role, SharingForm, StateOf
from kinformer.reflector.options import ReflectorKeywords, ReflectorOptions
from kinformer.watchcache.share.identity import Account, IdentityCheck
from kinformer.watchcache.share.key import SourceKey
from kinformer.watchcache.share.listener import YIELD
from kinformer.watchcache.share.lock import HolderLock
from kinformer.watchcache.share.session import Session, client_at, opened
from kinformer.watchcache.share.socket_path import SocketPath, UnreachableError
from kinformer.watchcache.share.source import Route, SharedSource
from kinformer.watchcache.share.states import Alone, Following, Holding, Seeking, State

if TYPE_CHECKING:
    from kinformer.watchcache.share.listener import HolderSocket

__all__ = ["Share"]

log = get_logger("kinformer.share")

_UNDECIDED = 2.0  # seconds for which informers wait for a route at the start
_AGAIN = 0.02  # seconds between two looks at a lock or a socket while the holder changes
_ABSENT = 5.0  # seconds without a socket, although another process has the lock, or without a heartbeat
_SILENT = 3.0  # seconds without a heartbeat after which the cache is not live
_SPREAD = 2.0  # seconds within which the followers go to the server, so that they do not all at once
_RETURN = 10.0  # seconds of heartbeats after which a follower returns to a holder that had been silent
_REFUSED = 10.0  # seconds between two attempts after a refusal
_LOST = 30.0  # seconds without the server after which a holder lets a process hold that reaches it
_SEED = 5.0  # seconds for which a new holder waits until its own cache has applied what it has received
_YIELD = 1.0  # seconds for which a process that lets another one hold leaves the lock to its followers
_SOCKET = 1.0  # seconds between two looks whether the socket of a holder is still there


class Share:
    """One cache for all processes of a machine that use the same path: `SharedInformerFactory(client, share=...)`.

    ::

        async with SharedInformerFactory(client, share=Share("/run/app/kinformer.sock")) as factory: ...

    One process holds the cache: it follows the server and serves the others through a Unix socket. If it ends, another
    takes over from its own state. Informers behave as they do without `share`. Processes that cannot share (another
    cluster or user, another uid, no flock) read from the server by themselves, and log a warning that says why.

    Args:
        path: The absolute path of the socket. The directory must exist and belong to the user of the processes. A lock
            is created beside it.

    Raises:
        ConfigError: The path is relative or too long, or the system has no Unix sockets.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = SocketPath(path)
        self._lock = HolderLock(self._path.lock)
        self._tasks = Tasks(self._crashed)
        self._told = LogOnce()
        self._client: Client | None = None
        self._identity: Account | None = None  # None until the server has said it
        self._state: State = Seeking()
        self._changed = asyncio.Event()  # set at the next state, and then replaced
        self._sources: WeakSet[SharedSource] = WeakSet()  # of the informers that exist
        self._may_seed = True  # False for good once the user has changed
        self._began = 0.0  # the time of `begin`
        self._alone_from = 0.0  # the time from which a holder that cannot be reached is no longer waited for

    def __repr__(self) -> str:
        return f"<Share {self._path}: {self._state.role}>"

    @property
    def role(self) -> Role:
        """The part of this process: "holder", "follower", or "alone" if it reads from the server by itself."""
        return self._state.role if self._tasks.running else "alone"

    @property
    def holder(self) -> int | None:
        """The process id of the holder, or None if this process is alone."""
        return self._state.holder if self._tasks.running else None

    def is_live(self, key: SourceKey) -> bool:
        """Return True unless the holder has been silent for 3 s, or does not follow the server in this key's objects.

        :meta private:
        """
        return self._state.silence <= _SILENT and not ((down := self._state.down) and key.token in down)

    @property
    def cluster(self) -> str | None:
        """The identity of the cluster, or None while it is unknown.

        :meta private:
        """
        return (self._identity.cluster or None) if self._identity is not None else None

    # --- for the factory ----------------------------------------------------------------------------------

    def begin(self, client: Client, options: Mapping[str, object]) -> None:
        """Start to share. A holder follows the server with `options`. Raises ConfigError if the socket cannot be used.

        :meta private:
        """
        if self._client is not None:
            raise ConfigError("share: this Share belongs to another factory; create one for each")
        self._path.check()
        how = ReflectorOptions(**cast("ReflectorKeywords", options))
        self._client = client
        self._began = asyncio.get_running_loop().time()
        with unfenced():  # it may be started in a leader's body, and outlive it
            self._tasks.start(self._run(client, how), f"kinformer share {self._path}")

    @shielded_from_scopes
    async def end(self) -> None:
        """Stop sharing.

        :meta private:
        """
        await self._tasks.cancel()
        self._lock.release()

    def source(self, direct: ListWatch, form: SharingForm, state: StateOf) -> ListerWatcher:
        """Return a source that reads from the shared cache.

        :meta private:
        """
        key = SourceKey(
            resource=direct.resource,
            namespace=direct.namespace or None,
            label_selector=form.label_selector,
            field_selector=form.field_selector,
            shard_selector=form.shard_selector,
            metadata_only=form.metadata_only,
            keep_managed_fields=form.keep_managed_fields,
            fields=form.fields,
            max_event_bytes=form.max_event_bytes,
        )
        made = SharedSource(direct, key, self, state)
        self._sources.add(made)
        return made

    # --- the route ----------------------------------------------------------------------------------------

    async def current(self) -> Route:
        """Return the route to the objects, once it is decided.

        :meta private:
        """
        loop = asyncio.get_running_loop()
        while (route := self._state.route) is None:
            left = self._began + _UNDECIDED - loop.time() if self._identity is None else _ABSENT
            try:
                async with asyncio.timeout(max(left, 0.0)):
                    await self._changed.wait()
            except TimeoutError:
                self._become(Alone())
        return route

    async def replaced(self, route: Route, within: float) -> bool:
        """Wait until another route takes the place of `route`. Return False if none does in time.

        :meta private:
        """
        try:
            async with asyncio.timeout(within):
                while self._state.route is route:
                    await self._changed.wait()
        except TimeoutError:
            return False
        return True

    def _become(self, state: State) -> None:
        before, self._state = self._state, state
        if (state.role, state.holder) != (before.role, before.holder):
            message = "%s: this process is now %s (holder: %s)"
            log.info(message, self._path, state.role, state.holder or "none", reason=state.role)
        self._changed.set()
        self._changed = asyncio.Event()
        if before.route is not None:
            before.route.end()

    # --- the parts that a process may have ----------------------------------------------------------------

    async def _run(self, client: Client, options: ReflectorOptions) -> None:
        check = IdentityCheck(client)
        try:
            identity = self._identity = await self._identified(check)
            while True:
                self._expect_holder()
                identity = self._identity = await self._until_another_user(
                    check, identity, self._take_part(client, check, identity, options)
                )
                log.warning(
                    "%s: this process is another user now: %r", self._path, identity.user, reason="another_user"
                )
                self._may_seed = False  # its objects were read by the rights of the user before
                await asyncio.sleep(_YIELD)
        finally:
            self._lock.release()
            self._become(Alone())

    async def _until_another_user(
        self, check: IdentityCheck, identity: Account, part: Coroutine[None, None, None]
    ) -> Account:
        """Take part until the server sees this process as another user, and return that."""
        taking = asyncio.ensure_future(part)
        changing = asyncio.ensure_future(check.changed(identity))
        try:
            await asyncio.wait({taking, changing}, return_when=asyncio.FIRST_COMPLETED)
            if taking.done():
                taking.result()
            return changing.result()
        finally:
            taking.cancel()
            changing.cancel()
            await wait_for_end([taking, changing])

    async def _take_part(
        self, client: Client, check: IdentityCheck, identity: Account, options: ReflectorOptions
    ) -> None:
        """Hold the cache or follow a holder, as each of them ends, until this is cancelled."""
        while True:
            try:
                if self._lock.acquire():
                    await self._hold(client, check, identity, options)
                    self._expect_holder()
                await self._follow(check, identity)
            except UnreachableError as error:
                if error.may_appear and asyncio.get_running_loop().time() < self._alone_from:
                    await asyncio.sleep(_AGAIN * (0.5 + random.random()))
                    continue
                self._go_alone(str(error))
                await asyncio.sleep(_ABSENT / 5 if error.may_appear else _REFUSED)

    def _expect_holder(self) -> None:
        """Wait for a holder from now on, before this process reads by itself."""
        self._alone_from = asyncio.get_running_loop().time() + _ABSENT

    async def _identified(self, check: IdentityCheck) -> Account:
        """Return the identity of this process, as soon as the server tells."""
        delay = _AGAIN
        while True:
            try:
                return await check.ask()
            except (KinformerError, OSError, UnreachableError) as error:
                self._go_alone(describe(error) if not isinstance(error, UnreachableError) else str(error))
                delay = min(delay * 4, _REFUSED)
                await asyncio.sleep(delay * (0.5 + random.random()))

    def _go_alone(self, why: str) -> None:
        if self._told.is_news("alone", why):
            message = "%s: the cache is not shared, so this process reads from the server by itself: %s"
            log.warning(message, self._path, why, reason="alone")
        if not isinstance(self._state, Alone):
            self._become(Alone())

    async def _hold(self, client: Client, check: IdentityCheck, identity: Account, options: ReflectorOptions) -> None:
        """Hold the cache until this is cancelled, or until another process may take the lock too."""
        from kinformer.watchcache.share.kept import KeptCaches
        from kinformer.watchcache.share.listener import HolderSocket

        caches = KeptCaches(client, identity.cluster, self._seed, options, check.doubt)
        listener = HolderSocket(self._path, client, identity, caches, check.doubt)
        try:
            try:
                await listener.start()
            except OSError as error:
                raise UnreachableError(f"{self._path}: {error.strerror or error}") from None
            self._told.forget("alone")
            async with client_at(self._path) as own:  # this process reads from it, as a follower does
                self._become(Holding(own, caches))
                try:
                    await self._keep_listening(listener)
                finally:
                    self._become(Seeking(self._state))
        finally:
            listener.leave()
            self._lock.release()
            await listener.close()
            await caches.close()
        if listener.is_asked_to_yield:
            await asyncio.sleep(_YIELD)

    async def _keep_listening(self, listener: HolderSocket) -> None:
        """Listen again when the socket has been removed, by a cleaner of /tmp for example.

        Return when the lock has been removed, or a follower asks for another holder.

        Raises:
            UnreachableError: This process has no descriptors for its own informers.
        """
        while not (self._lock.is_gone or listener.is_asked_to_yield):
            if self._is_refused():
                raise UnreachableError(f"{self._path}: the connections of this process itself are refused")
            try:
                await listener.listen_again()
                self._told.forget("socket")
            except (OSError, UnreachableError) as error:
                if self._told.is_news("socket", str(error)):
                    message = "%s: the socket was removed, and new processes cannot connect: %s"
                    log.warning(message, self._path, error, reason="socket")
            await asyncio.sleep(_SOCKET)

    async def _follow(self, check: IdentityCheck, identity: Account) -> None:
        """Follow a holder until it ends.

        Raises:
            UnreachableError: There is none, it refuses, or it ends before it gives a sign of life.
        """
        async with opened(self._path, identity) as session:
            self._told.forget("alone")
            try:
                while True:
                    async with client_at(self._path) as client:  # its end closes the streams from this holder
                        is_silent = await self._follow_session(session, client, check)
                    if not is_silent or not await self._has_returned(session):
                        break
            finally:
                if session.has_begun:
                    self._expect_holder()
            if not session.has_begun:
                raise UnreachableError(f"{self._path}: the holder ends each session", may_appear=True)

    async def _follow_session(self, session: Session, client: Client, check: IdentityCheck) -> bool:
        """Read from the holder until it ends (False), or is silent (True)."""
        state = Following(client, session)
        self._become(state)
        try:
            return await self._listen(session, client, check)
        finally:
            if self._state is state:
                self._become(Seeking(state))  # before its streams end, so that they wait for the next route

    async def _listen(self, session: Session, client: Client, check: IdentityCheck) -> bool:
        """Return False once the holder has ended, and True if this process now reads from the server.

        It does so if the holder is silent, or refuses connections, as one with few descriptors does. A silent holder
        whose lock is free has ended, and a child that it forked keeps its connections open.
        """
        while True:
            for seconds in (_SILENT, _ABSENT - _SILENT + random.random() * _SPREAD):
                heard = await session.heard(seconds)
                if heard is not None:
                    break
                if self._lock.acquire():
                    return False
            if heard is None:
                self._go_alone(f"the holder, process {session.holder}, does not answer")
                return True
            if not heard:
                return False
            if session.has_lost_server(_LOST):
                await self._ask_for_another_holder(session, client, check)
            if self._is_refused():
                self._go_alone(f"the holder, process {session.holder}, refuses connections")
                return True

    async def _ask_for_another_holder(self, session: Session, client: Client, check: IdentityCheck) -> None:
        """Have the holder let another process hold, if this one reaches the server that the holder has lost."""
        session.lost_since = None  # so that the next attempt comes after the same time
        try:
            async with asyncio.timeout(_SILENT):
                await check.ask()
                await client.request("GET", YIELD, params={"pid": str(session.holder)}, retries=0)
        except (KinformerError, OSError, TimeoutError, UnreachableError):
            return  # this process does not reach the server either, or the holder is about to end
        message = "%s: the holder, process %s, has lost the server, which this process reaches"
        log.warning(message, self._path, session.holder, reason="yield")

    def _is_refused(self) -> bool:
        return self._state.route is not None and self._state.route.is_refused

    async def _has_returned(self, session: Session) -> bool:
        """Return True once the holder has been heard for a while without a pause, and False once it has ended."""
        loop = asyncio.get_running_loop()
        until: float | None = None
        while until is None or loop.time() < until:
            heard = await session.heard(_SILENT)
            if heard is None:
                if self._lock.acquire():
                    return False
                until = None
            elif not heard:
                return False
            elif until is None:
                until = loop.time() + _RETURN
        return True

    async def _seed(self, key: SourceKey) -> CacheState | None:
        """Return the state of this process's own cache of the same objects, once it has applied what it received."""
        if not self._may_seed:
            return None
        own = [source for source in self._sources if source.key == key and source.has_listed]
        for within in (0.0, _SEED):
            for source in own:
                if (state := await source.state(within)) is not None:
                    return state
        return None

    def _crashed(self, task: str, error: BaseException) -> None:
        log.error("%s ended with %s", task, describe(error), exc_info=error, reason=error)
        self._become(Alone())
