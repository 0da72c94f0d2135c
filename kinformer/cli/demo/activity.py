"""The latest calls of the demo's handlers, and their rate."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from kinformer import KubeObject, SharedInformer
from kinformer.cli.output.columns import columns_of
from kinformer.kinds import state_of

__all__ = ["Activity", "Happening"]

_KEPT = 200  # events. No screen has more lines
_SECONDS = 30  # of history for the rate


@dataclass(frozen=True, slots=True)
class Happening:
    """One call of a handler, in words."""

    at: datetime
    type: str
    kind: str
    key: str
    what: str


class Activity:
    """Listens to informers, with one handler each.

    Args:
        heard: Called with each event, except events of an initial list.
        clock: Returns seconds, for the rate.
    """

    def __init__(self, heard: Callable[[Happening], None] | None = None, *, clock: Callable[[], float]) -> None:
        self.recent: deque[Happening] = deque(maxlen=_KEPT)
        self._heard = heard
        self._clock = clock
        self._per_second: Counter[int] = Counter()

    def listen(self, informer: SharedInformer) -> None:
        """Add a handler to an informer."""

        def on_add(obj: KubeObject, *, is_in_initial_list: bool) -> None:
            if not is_in_initial_list:
                self._note("ADDED", obj, _state(obj))

        def on_update(old: KubeObject, new: KubeObject) -> None:
            self._note("UPDATED", new, _change(_state(old), _state(new)))

        def on_delete(obj: KubeObject) -> None:
            self._note("DELETED", obj, f"was {_state(obj)}")

        informer.add_event_handler(on_add=on_add, on_update=on_update, on_delete=on_delete, name="demo")

    def rate(self) -> float:
        """Return the events per second, over the last three full seconds."""
        now = int(self._clock())
        return sum(self._per_second[now - ago] for ago in (1, 2, 3)) / 3

    def history(self) -> list[int]:
        """Return the number of events in each of the last 30 full seconds, oldest first."""
        now = int(self._clock())
        return [self._per_second[now - ago] for ago in range(_SECONDS, 0, -1)]

    def _note(self, kind: str, obj: KubeObject, what: str) -> None:
        happening = Happening(datetime.now().astimezone(), kind, obj.kind, obj.key, what)
        self.recent.append(happening)
        now = int(self._clock())
        self._per_second[now] += 1
        if len(self._per_second) > 2 * _SECONDS:
            for second in [second for second in self._per_second if second < now - _SECONDS]:
                del self._per_second[second]
        if self._heard is not None:
            self._heard(happening)


def _state(obj: KubeObject) -> str:
    """Describe an object in a word or two: `Running`, `3/5 ready`."""
    if obj.kind == "Deployment":
        columns = columns_of("apps", "Deployment")
        return f"{columns.cells(obj)[columns.names.index('READY')]} ready"
    return state_of(obj).replace("ContainerCreating", "Creating")  # the long word could appear twice and fill a line


def _change(old: str, new: str) -> str:
    return new if old == new else f"{old} → {new}"
