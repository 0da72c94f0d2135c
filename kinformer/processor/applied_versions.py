"""The resourceVersions that a cache has reached, and the tasks that wait for the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from kinformer.exceptions import WatchError
from kinformer.objects.meta import version_number

__all__ = ["AppliedVersions"]

_QUIET = 5.0  # seconds after which a version that nothing passes is asked for by a list


class AppliedVersions:
    """How far the cache is, for each scope (a namespace, or None), and the waiters for a version.

    Attributes:
        current: The version of each scope; "" before its first list. Written by the processor, in the step in which the
            cache has everything up to it.
        lists: How many full lists the cache has taken, of all scopes.
        waiters: Scope, wanted version and future of each task that waits.
    """

    def __init__(self, scopes: Iterable[str | None]) -> None:
        self.current: dict[str | None, str] = dict.fromkeys(scopes, "")
        self.lists = 0
        self.waiters: list[tuple[str | None, int, asyncio.Future[None]]] = []

    def advance(self, scope: str | None, version: str) -> None:
        """The cache holds everything of a scope up to `version`."""
        before, self.current[scope] = self.current[scope], version
        if self.waiters:
            self._settle(scope, _number_or_none(version), _number_or_none(before))

    def _settle(self, scope: str | None, now: int | None, was: int | None) -> None:
        if now is None:
            return
        for waiting, wanted, waiter in self.waiters:
            if waiting != scope or waiter.done():
                continue
            if now >= wanted:
                waiter.set_result(None)
            elif was is not None and now < was:
                text = f"the server went back from resourceVersion {was} to {now}: {wanted} is of another past"
                waiter.set_exception(WatchError(text))

    def lowest(self) -> str:
        """The version of the scope that is furthest behind; "" while one has none."""
        versions = list(self.current.values())
        if len(versions) == 1 or "" in versions:
            return versions[0] if len(versions) == 1 else ""
        return min(versions, key=lambda version: (len(version), version))

    def has(self, scope: str | None, wanted: int) -> bool:
        """True if the cache has passed `wanted`."""
        now = _number_or_none(self.current[scope])
        return now is not None and now >= wanted

    def scope_of(self, namespace: str | None, name: str) -> str | None:
        """The scope that a namespace is in.

        Raises:
            ValueError: None, for the informer of this name.
        """
        scope = None if None in self.current else namespace
        if scope not in self.current:
            followed = ", ".join(sorted(str(each) for each in self.current))
            raise ValueError(f"informer {name} follows the namespaces {followed}: say which, not {namespace!r}")
        return scope

    async def wait(self, scope: str | None, wanted: int, refresh: Callable[[], None]) -> None:
        """Wait until the cache has passed `wanted`; if nothing does for 5 s, `refresh` is called.

        Raises:
            WatchError: The server went back in time.
        """
        if self.has(scope, wanted):
            return
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (scope, wanted, passed)
        self.waiters.append(entry)
        try:
            done, _ = await asyncio.wait({passed}, timeout=_QUIET)
            if not done:
                refresh()
            await passed
        finally:
            self.waiters.remove(entry)
            if not passed.cancel():
                passed.exception()  # retrieved, also if the caller's timeout came first

    def fail(self, error: BaseException) -> None:
        """No version will be applied any more: each waiter gets `error`."""
        for _, _, waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(error)


def _number_or_none(resource_version: str) -> int | None:
    try:
        return version_number(resource_version)
    except ValueError:
        return None
