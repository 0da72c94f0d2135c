"""The real history of each object, in order, to compare with the history that a follower saw."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Mark", "State", "Truth", "how_it_lies"]

Mark = tuple[str, str] | None  # uid and resourceVersion; None if the object does not exist


@dataclass(frozen=True, slots=True)
class State:
    """One state of an object."""

    uid: str
    version: str
    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, obj: Mapping[str, Any]) -> State:
        meta = obj["metadata"]
        return cls(meta["uid"], meta["resourceVersion"], meta.get("namespace", ""), dict(meta.get("labels", {})))

    @property
    def mark(self) -> Mark:
        return (self.uid, self.version)


class Truth:
    """The histories of one resource, by key. A writer tells it of each change, in the order of each object's."""

    def __init__(self) -> None:
        self._histories: dict[str, list[State | None]] = {}
        self.changes = 0

    def note(self, key: str, state: State | None) -> None:
        """`key` is in this state now. Told twice, it is noted once."""
        history = self._histories.setdefault(key, [None])
        last = history[-1]
        if (last.mark if last else None) == (state.mark if state else None):
            return
        if last is not None and state is not None and last.uid != state.uid:
            history.append(None)
        history.append(state)
        self.changes += 1

    def note_all(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """The server has these objects, and no others."""
        present = {f"{obj['metadata']['namespace']}/{obj['metadata']['name']}": State.of(obj) for obj in objects}
        for key in {*present, *self._histories}:
            self.note(key, present.get(key))

    def last(self, key: str) -> State | None:
        """The present state."""
        return self._histories.get(key, [None])[-1]

    def present(self, shows: Callable[[State], bool]) -> dict[str, Mark]:
        """The present state of the objects that a follower is shown."""
        return {key: state.mark for key in self._histories if (state := self.last(key)) is not None and shows(state)}

    def history(self, key: str, shows: Callable[[State], bool]) -> list[Mark]:
        """The states that a follower may have seen of an object, if nothing was missed."""
        marks: list[Mark] = []
        for state in self._histories.get(key, [None]):
            mark = state.mark if state is not None and shows(state) else None
            if not marks or mark != marks[-1]:
                marks.append(mark)
        return marks

    def forget(self) -> None:
        """All followers have seen the present: the history before it is no longer needed."""
        self._histories = {key: [last] for key in self._histories if (last := self.last(key)) is not None}


def how_it_lies(seen: list[Mark], true: list[Mark]) -> str | None:
    """The reason why `seen` is not a subsequence of `true` with the same end; None if it is one."""
    rest = iter(true)
    for number, mark in enumerate(seen, 1):
        if not any(mark == other for other in rest):
            return f"step {number} of {seen} is not, or not there, in {true}"
    if seen and seen[-1] != true[-1]:
        return f"{seen} does not end as {true} does"
    return None
