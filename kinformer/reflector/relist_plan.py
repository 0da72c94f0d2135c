"""Whether a full list is due, why, and how it is to be asked for."""

from __future__ import annotations

from kinformer.exceptions import ConfigError
from kinformer.objects.meta import compare_resource_versions
from kinformer.reflector.recovery import Remedy
from kinformer.reflector.relist import page_limit

__all__ = ["FIRST", "RelistPlan", "reaches"]

FIRST = "first"  # the cause of the list that is no relist


class RelistPlan:
    """What the next full list is to be.

    Args:
        page_size: See `page_limit`.

    Raises:
        ConfigError: It is no number of objects.

    Attributes:
        cause: Why a full list is due; None where none is.
        wanted: The version that was asked for from outside, and is not reached yet.
        asked: The version that the last list was asked at.
        unpaged: The next list is asked for without pages.
    """

    def __init__(self, page_size: int | None) -> None:
        if page_size is not None and page_size < 1:
            raise ConfigError(f"page_size={page_size!r}: 1 at least is needed, or None")
        self._page_size = page_size
        self._unset = False
        self._came_in_pages = False
        self._wanted_when_asked: str | None = None
        self._stood_still = False  # a watch from the version of the last list had expired before that list
        self.cause: str | None = FIRST
        self.wanted: str | None = None
        self.asked = ""
        self.unpaged = False

    def want(self, version: str) -> None:
        """Something has to be as new as `version`; ValueError where that is no number."""
        if compare_resource_versions(version, self.wanted or version) >= 0:
            self.wanted = version

    def take(self, remedy: Remedy) -> None:
        """Note down what a failure asks for."""
        self.cause = remedy.relist or self.cause
        # A version that has expired and is listed again is not asked for a third time: there would be no end to it.
        self._unset |= remedy.unset or (remedy.relist == "expired" and self._stood_still)
        self.unpaged |= remedy.unpaged

    def is_due(self, version: str) -> bool:
        """Whether a full list is due for a store that is as far as `version`."""
        if self.cause is None and self.wanted is not None:
            if reaches(version, self.wanted):
                self.wanted = None
            else:
                self.cause = "requested"
        return self.cause is not None

    def ask(self, version: str, *, first: str) -> str:
        """The version to ask at: none where the last seen is of no use, else that, or what is wanted, or `first`."""
        if self._unset:
            self.asked = ""
        elif self.wanted is not None and not reaches(version, self.wanted):
            self.asked = self.wanted
        else:
            self.asked = version or first
        self._wanted_when_asked = self.wanted
        return self.asked

    def limit(self) -> int | None:
        """The `limit` of the LIST that is asked at `asked`."""
        return None if self.unpaged else page_limit(self._page_size, self.asked, self._came_in_pages)

    def pages(self, count: int) -> None:
        """The LIST came in so many pages. At "0" more than one means that the server has no watch cache."""
        if self.asked == "0" and count > 1:
            self._came_in_pages = True

    def done(self, before: str, version: str) -> str | None:
        """The store was at `before` and is at `version` now; the cause of this relist, None for the first list."""
        cause = self.cause
        self._stood_still = cause == "expired" and version == before
        if cause not in (FIRST, "cluster_replaced") and self._unset and not reaches(version, before, unknown=True):
            cause = "rewind"
        # Asked without a version, the server gives the newest that it has: what was wanted before does not exist.
        # Asked at the very version, a server that answers with an older one ignores it, and would the next time.
        answered = self.asked in ("", self.wanted) and self.wanted == self._wanted_when_asked
        if self.wanted is not None and (answered or reaches(version, self.wanted)):
            self.wanted = None
        self.cause, self._unset, self.unpaged = None, False, False
        return None if cause == FIRST else cause


def reaches(version: str, wanted: str, *, unknown: bool = False) -> bool:
    """Whether `version` is `wanted` or newer; `unknown` where the two cannot be compared."""
    try:
        return compare_resource_versions(version, wanted) >= 0
    except ValueError:
        return unknown
