"""The mirror: the objects of one of the program's own collections, as derived collections read them.

A class of the program has only the members of `Collection`. The engines of derived collections also need indexes, and
each change in the step in which it happens. So a mirror follows the collection through these members, and keeps its
objects, not copies of them, in a cache like any derived collection's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import get_logger
from kinformer.connection.refusals import Refusals
from kinformer.derived.metrics import DerivedMetrics, DerivedStatistics
from kinformer.derived.values import Values
from kinformer.exceptions import describe
from kinformer.informer.collection import Collection
from kinformer.informer.core import CollectionCore
from kinformer.informer.following import KeyFollower
from kinformer.metrics import Metrics
from kinformer.reflector.health import InformerHealth

__all__ = ["MirrorCore"]

log = get_logger("kinformer.derived")


class MirrorCore(CollectionCore):
    """Keeps the objects of one collection, for the derived collection that reads it.

    Args:
        collection: Has the members of `Collection`, and is entered and exited by its owner.

    Attributes:
        collection: See above.
    """

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self._values = Values()
        super().__init__(
            "mirror of",
            collection.name,
            publisher=self._values,
            schedule=self._values.schedule,
            metrics=DerivedMetrics(collection.name, lambda: None, self.health, DerivedStatistics),
            log=log,
        )

    def _start(self) -> None:
        follower = KeyFollower(
            self.collection, "derived", changed=self._changed, synced=self._publish, ended=self._ended
        )
        with unfenced():  # it may be started by the body of `leading()`, and outlive that
            self.tasks.start(follower.run(), f"kinformer mirror of {self.name}")

    async def _finish(self, deadline: float) -> None:
        await self.tasks.cancel()

    def crashed(self, task: str, error: BaseException) -> None:
        """End with the error of a task."""
        if not self.life.has_ended:
            log.error("%s ended with %s", task, describe(error), exc_info=error, resource=self.name, reason=error)
            self._ended(error)

    def _ended(self, error: BaseException) -> None:
        self.life.error = error
        self._values.fail(error)

    def _changed(self, key: str, *, is_there: bool) -> bool:
        value = self.collection.by_key.get(key)
        if value is None:
            self._values.remove(key)
        else:
            self._values.set(key, value)
        self._values.hand_out()
        return False

    async def _publish(self) -> None:
        budget = YieldBudget()
        while not self._values.publish(budget):
            await budget.pause()

    # --- state ------------------------------------------------------------------------------------

    def unlisted_reason(self) -> str:
        """Return that the collection has not synced, or "" if it has."""
        return "" if self._values.synced.is_open else "it has not synced"

    def unsynced_errors(self) -> Mapping[str, BaseException | None]:
        """Return the last error of the collection."""
        return {self.name: self.collection.health().last_error}

    def refusals(self, strict: bool) -> list[Refusals]:
        """Return none, because the collection's requests are unknown."""
        return []

    def health(self) -> InformerHealth:
        """Return the health of the collection."""
        return self.collection.health()

    @property
    def sink(self) -> Metrics | None:
        """None, because the collection may have a sink of its own, but does not expose it."""
        return None

    async def prove(self) -> None:
        """Call `confirm` of the collection.

        Raises:
            TypeError: It has none.
        """
        confirm = getattr(self.collection, "confirm", None)
        if confirm is None:
            raise TypeError(f"{self.name} ({type(self.collection).__name__}) has no method `confirm`")
        await confirm(timeout=None)

    def roots(self, member: str = "") -> list[Any]:
        """Return no informers, because the collection's sources are unknown."""
        return []
