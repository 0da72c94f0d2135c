"""Which resourceVersion the cache has reached, and who waits for the next."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping

from kinformer.exceptions import WatchError

__all__ = ["VersionWaiters", "version_number"]


_QUIET = 5.0  # seconds after which a version that nothing passes is asked for by a list


def version_number(resource_version: str) -> int:
    """The number that a resourceVersion is (KEP-5504); ValueError where it is none."""
    if not (resource_version.isascii() and resource_version.isdigit()) or resource_version.startswith("0"):
        raise ValueError(f"resourceVersion {resource_version!r} is not a number, so it cannot be waited for")
    return int(resource_version)


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
