"""Decides whether a 404 means that the resource was removed (a CRD deleted) or that something in between is broken."""

from __future__ import annotations

from kinformer.list_watcher import ListerWatcher, capabilities_of
from kinformer.objects.meta import GroupVersionResource
from kinformer.reflector.timeouts import answered

__all__ = ["APART", "RemovedResourceCheck"]

APART = 5.0  # seconds between the two times that discovery must say it; a backend that is swapped is back by then


class RemovedResourceCheck:
    """Decides when a cache may be emptied because its resource no longer exists.

    A 404 alone proves nothing: a wrong backend says it too. Only discovery, asked at each 404, and lacking the resource
    twice at least `APART` seconds apart, does. A resource of the core group is always there, so a server without it is
    no API server, and its cache is never emptied.

    Args:
        source: Is asked by its `presence` (see `PresenceProbe`); without one nothing is ever proved.
        timeout: Seconds for an answer.
    """

    def __init__(self, source: ListerWatcher, *, timeout: float) -> None:
        capabilities = capabilities_of(source)
        resource = capabilities.resource
        self._presence = capabilities.presence
        self._core = isinstance(resource, GroupVersionResource) and resource.group == ""
        self._timeout = timeout
        self._since: float | None = None
        self._proved = False

    @property
    def questionable(self) -> bool:
        """True if asking can prove anything that has not been proved."""
        return self._presence is not None and not self._core and not self._proved

    async def ask(self, now: float) -> bool:
        """Ask discovery once, at loop time `now`; True the one time that it proves the resource to be gone.

        Raises:
            KinformerError, OSError: The question failed, which proves nothing.
        """
        assert self._presence is not None
        try:
            present = await answered(self._presence.presence(), self._timeout, "discovery")
        except BaseException:
            self._since = None
            raise
        if present is not False:
            self._since = None
        elif self._since is None:
            self._since = now
        elif now - self._since >= APART:
            self._proved = True
            return True
        return False

    def over(self) -> None:
        """The collection has answered."""
        self._since = None
        self._proved = False
