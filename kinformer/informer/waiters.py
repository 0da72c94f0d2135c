"""Waiting on an informer: for a resourceVersion, and for a refusal that a waiter may take for an answer."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any

from kinformer.exceptions import APIError, WatchError
from kinformer.objects.meta import version_number

__all__ = [
    "FailFast",
    "VersionWaiters",
]

_DENIED = (401, 403, 404)
_ENOUGH = 2  # the first may be a token that is being renewed, or a role that is on its way


class FailFast:
    """Counts the 401, 403 and 404 of one informer, and ends the waiting of those who want to fail fast."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._answer: APIError | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    def note(self, error: BaseException) -> None:
        """An error that ended a request or a stream; what is no refusal takes the last refusal back."""
        if not isinstance(error, APIError) or error.status not in _DENIED:
            self._answer = None
            return
        self._counts[error.status] += 1
        if self._counts[error.status] < _ENOUGH:
            return
        self._answer = error
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)

    async def unless_refused(self, waiting: Coroutine[Any, Any, None]) -> None:
        """Wait for `waiting`; raises the second refusal of a kind if that comes first."""
        refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._answer is not None:
            refused.set_exception(self._answer)
        self._waiters.add(refused)
        done = asyncio.ensure_future(waiting)
        try:
            await asyncio.wait({refused, done}, return_when=asyncio.FIRST_COMPLETED)
            (done if done.done() else refused).result()
        finally:
            self._waiters.remove(refused)
            if not refused.cancel():
                refused.exception()  # where both were done, the sync counts
            done.cancel()


_QUIET = 5.0  # seconds after which a version that nothing passes is asked for by a list


class VersionWaiters:
    """The versions that the cache has applied, one for each scope (a namespace, or None), and their waiters.

    Attributes:
        lists: How many full lists it has applied, of all scopes.
    """

    def __init__(self, scopes: Iterable[str | None]) -> None:
        self._versions: dict[str | None, str] = dict.fromkeys(scopes, "")
        self._waiters: list[tuple[str | None, int, asyncio.Future[None]]] = []
        self.lists = 0

    def replaced(self, scope: str | None, version: str) -> None:
        """The cache holds a full list of one scope, of this version."""
        self.lists += 1
        self.applied({scope: version})

    def applied(self, versions: Mapping[str | None, str]) -> None:
        """The cache holds everything up to these."""
        if not self._waiters:
            self._versions.update(versions)
            return
        before = dict(self._versions)
        self._versions.update(versions)
        for scope, wanted, waiter in self._waiters:
            if waiter.done():
                continue
            now, was = _number_or_none(self._versions[scope]), _number_or_none(before[scope])
            if now is None:
                continue
            if now >= wanted:
                waiter.set_result(None)
            elif was is not None and now < was:
                waiter.set_exception(
                    WatchError(f"the server went back from resourceVersion {was} to {now}: {wanted} is of another past")
                )

    def lowest(self) -> str:
        """The version of the scope that is furthest behind; "" while one has none."""
        versions = list(self._versions.values())
        if len(versions) == 1 or "" in versions:
            return versions[0] if len(versions) == 1 else ""
        return min(versions, key=lambda version: (len(version), version))

    def has(self, scope: str | None, wanted: int) -> bool:
        """Whether the cache has passed `wanted`."""
        now = _number_or_none(self._versions[scope])
        return now is not None and now >= wanted

    def scope_of(self, namespace: str | None, name: str) -> str | None:
        """The scope that a namespace is in; `name` is the informer's, for the ValueError where it is in none."""
        scope = None if None in self._versions else namespace
        if scope not in self._versions:
            followed = ", ".join(sorted(str(each) for each in self._versions))
            raise ValueError(f"informer {name} follows the namespaces {followed}: say which, not {namespace!r}")
        return scope

    async def wait(self, scope: str | None, wanted: int, refresh: Callable[[], None]) -> None:
        """Until the cache has passed `wanted`; where nothing does for 5 s, `refresh` is called.

        Raises:
            WatchError: The server went back in time.
        """
        if self.has(scope, wanted):
            return
        with self.waiter(scope, wanted) as passed:
            done, _ = await asyncio.wait({passed}, timeout=_QUIET)
            if not done:
                refresh()
            await passed

    @contextlib.contextmanager
    def waiter(self, scope: str | None, wanted: int) -> Iterator[asyncio.Future[None]]:
        """A future that is done when the cache has passed `wanted`; fails with WatchError at a rewind."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (scope, wanted, future)
        self._waiters.append(entry)
        try:
            yield future
        finally:
            self._waiters.remove(entry)
            if not future.cancel():
                future.exception()  # seen, also where the waiter's timeout came first

    def fail(self, error: BaseException) -> None:
        """No version will be applied any more."""
        for _, _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)


def _number_or_none(resource_version: str) -> int | None:
    try:
        return version_number(resource_version)
    except ValueError:
        return None
