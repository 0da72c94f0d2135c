"""Decides whether a 404 means that the resource was removed (a CRD deleted) or that a proxy or backend is broken."""

from __future__ import annotations

from kinformer.capabilities import capabilities_of
from kinformer.list_watcher import ListerWatcher
from kinformer.objects.meta import GroupVersionResource
from kinformer.reflector.timeouts import answered

__all__ = ["APART", "RemovedResourceCheck"]

APART = 5.0  # seconds between the two discovery responses. A backend that is being replaced is back by then


class RemovedResourceCheck:
    """Decides when a cache may be emptied because its resource no longer exists.

    A 404 alone proves nothing, because a wrong backend sends it too. So discovery is requested at each 404, and the
    resource counts as removed once discovery has lacked it twice, at least `APART` seconds apart. A resource of the
    core group always exists, and a server without it is not an API server, so such a cache is never emptied.

    Args:
        source: The source. Its `presence` is used (see `PresenceProbe`). Without one, nothing is ever proved.
        timeout: Seconds for a response.
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
        """True if discovery could prove the removal, and has not done so yet."""
        return self._presence is not None and not self._core and not self._proved

    async def ask(self, now: float) -> bool:
        """Request discovery once, at loop time `now`. Returns True the one time that it proves the removal.

        Raises:
            KinformerError, OSError: The request failed, which proves nothing.
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
        """Record that the collection has responded, so the resource exists."""
        self._since = None
        self._proved = False
