"""The resourceVersions that a cache has reached, and the tasks that wait for later ones."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable

from kinformer.exceptions import StoppedError, WatchError
from kinformer.objects.meta import version_number

__all__ = ["AppliedVersions"]


class AppliedVersions:
    """The version that the cache has reached in each scope (a namespace, or None), and the tasks that wait for one.

    Attributes:
        current: The version of each scope, or "" before its first list. The processor writes it in the step in which
            the cache gets the last change up to that version.
        proved: The version up to which the cache of a scope is proved to lack nothing, if that is later than the last
            change that it got. A full list replaces it.
        lists: The number of full lists that the cache has taken, in all scopes.
        taken: The number of full lists of each scope that the cache has taken.
        before_list: The version that a scope had reached or was proved to have when its last full list came, or 0.
        waiters: The scope, the wanted version and the future of each waiting task. Without a version, any change of the
            current one ends the wait.
    """

    def __init__(self, scopes: Iterable[str | None]) -> None:
        self.current: dict[str | None, str] = dict.fromkeys(scopes, "")
        self.proved: dict[str | None, int] = {}
        self.lists = 0
        self.taken: Counter[str | None] = Counter()
        self.before_list: dict[str | None, int] = {}
        self.waiters: list[tuple[str | None, int | None, asyncio.Future[None]]] = []

    def advance(self, scope: str | None, version: str) -> None:
        """Record that the cache holds everything of a scope up to `version`, and wake the tasks that wait for it."""
        before, self.current[scope] = self.current[scope], version
        if self.waiters:
            self._settle(scope, _number_or_none(version), _number_or_none(before))

    def listed(self, scope: str | None, version: str) -> None:
        """Record that the cache has taken a full list of a scope."""
        self.lists += 1
        self.taken[scope] += 1
        self.before_list[scope] = max(_number_or_none(self.current[scope]) or 0, self.proved.pop(scope, 0))
        self.advance(scope, version)

    def prove(self, scope: str | None, version: int) -> None:
        """Record that the cache lacks no change of a scope up to `version`, and wake the tasks that wait for it."""
        self.proved[scope] = max(version, self.proved.get(scope, 0))
        self._settle(scope, version, None)

    def _settle(self, scope: str | None, now: int | None, was: int | None) -> None:
        for waiting, target, waiter in self.waiters:
            if waiting != scope or waiter.done():
                continue
            if target is None or (now is not None and now >= target):
                waiter.set_result(None)
            elif was is not None and now is not None and now < was:
                message = (
                    f"the server went back from resourceVersion {was} to {now}, so the cache will never hold the write "
                    f"at {target}; read the object again"
                )
                waiter.set_exception(WatchError(message))

    def lowest(self) -> str:
        """Return the version of the scope that is furthest behind, or "" while a scope has none."""
        versions = list(self.current.values())
        if len(versions) == 1 or "" in versions:
            return versions[0] if len(versions) == 1 else ""
        return min(versions, key=lambda version: (len(version), version), default="")

    def has(self, scope: str | None, wanted: int) -> bool:
        """True if the cache has reached `wanted`."""
        now = _number_or_none(self.current[scope])
        return (now is not None and now >= wanted) or self.proved.get(scope, 0) >= wanted

    def scope_of(self, namespace: str | None, name: str) -> str | None:
        """Return the scope of a namespace.

        Args:
            namespace: Required if the informer follows several.
            name: The name of the informer, for the error.

        Raises:
            ValueError: The namespace is missing, or the informer does not follow it.
        """
        scope = None if None in self.current else namespace
        if scope not in self.current:
            followed = ", ".join(sorted(str(other) for other in self.current))
            raise ValueError(
                f"namespace={namespace!r}: informer {name} follows the namespaces {followed}; pass one of them"
            )
        return scope

    async def wait(self, scope: str | None, wanted: int) -> None:
        """Wait until the cache has reached `wanted`.

        Raises:
            WatchError: The server went back in time.
            StoppedError: The scope is no longer followed.
        """
        if not self.has(scope, wanted):
            await self._wait(scope, wanted)

    async def moved(self, scope: str | None) -> None:
        """Wait until the current version of a scope changes."""
        await self._wait(scope, None)

    async def _wait(self, scope: str | None, wanted: int | None) -> None:
        passed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = (scope, wanted, passed)
        self.waiters.append(entry)
        try:
            await passed
        finally:
            self.waiters.remove(entry)
            if not passed.cancel():
                passed.exception()  # marks it as retrieved, in case the caller's timeout came first

    def leave(self, scope: str) -> None:
        """Forget a scope that is no longer followed. Tasks that wait for one of its versions get an error."""
        self.current.pop(scope, None)
        self.proved.pop(scope, None)
        self.before_list.pop(scope, None)
        self.taken.pop(scope, None)
        for waiting, _, waiter in self.waiters:
            if waiting == scope and not waiter.done():
                waiter.set_exception(StoppedError(f"namespace {scope} is no longer followed"))

    def fail(self, error: BaseException) -> None:
        """Raise `error` in each waiting task, because no further version will be applied."""
        for _, _, waiter in self.waiters:
            if not waiter.done():
                waiter.set_exception(error)


def _number_or_none(resource_version: str) -> int | None:
    try:
        return version_number(resource_version)
    except ValueError:
        return None
