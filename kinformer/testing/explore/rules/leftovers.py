"""The rule of leftovers: what a program makes for an object does not outlive it.

Names tell for which object another one was probably made. An object that has the name of a living one, or a living
owner, is not left behind.
"""

from __future__ import annotations

from collections.abc import Iterator

from kinformer.testing.explore.rules.finding import Object, ObjectKey, Violation

__all__ = ["Leftovers"]


class Leftovers:
    """The objects that programs have made, and those that others have removed."""

    def __init__(self) -> None:
        self._made: dict[ObjectKey, str] = {}  # by the replica
        self._removed: dict[ObjectKey, Object] = {}

    def note_made(self, key: ObjectKey, replica: str) -> None:
        """Note that a replica has created an object."""
        self._made[key] = replica

    def note_created(self, key: ObjectKey) -> None:
        """Note that an object is there, whoever has made it."""
        self._removed.pop(key, None)

    def note_gone(self, key: ObjectKey) -> None:
        """Note that an object is gone."""
        self._made.pop(key, None)

    def note_removed(self, key: ObjectKey, obj: Object) -> None:
        """Note that others have deleted an object."""
        self._removed[key] = obj

    def find(self, objects: dict[ObjectKey, Object]) -> Iterator[Violation]:
        """Yield the objects that were left behind, among all that there are."""
        gone = {key: obj for key, obj in self._removed.items() if key not in objects}
        suspected: dict[ObjectKey, ObjectKey] = {}
        for key in self._made:
            obj = objects.get(key)
            if obj is None or obj["metadata"].get("deletionTimestamp"):
                continue
            matches = [(_named_after(obj, removed), other) for other, removed in gone.items() if other[0] != key[0]]
            likeness, other = max(matches, default=(0, key))
            if likeness:
                suspected[key] = other
        for key in self._left(suspected, objects):
            resource, name = suspected[key]
            message = (
                f"{key[0]} {key[1]}, made by {self._made[key]}, is left behind by {resource} {name}, which is gone"
            )
            yield Violation("leftovers", message, (" ".join(key), f"{resource} {name}"))

    def _left(self, suspected: dict[ObjectKey, ObjectKey], objects: dict[ObjectKey, Object]) -> list[ObjectKey]:
        """Return the suspected objects that no living one explains."""
        left = dict(suspected)
        while True:
            living = {key: obj for key, obj in objects.items() if key not in left}
            explained = [
                key for key, gone in left.items() if self._is_explained(key, self._removed[gone], living, objects)
            ]
            if not explained:
                return list(left)
            for key in explained:
                del left[key]

    def _is_explained(
        self, key: ObjectKey, gone: Object, living: dict[ObjectKey, Object], objects: dict[ObjectKey, Object]
    ) -> bool:
        """Return True if a living object owns this one, or has the name at least as much as the one that is gone."""
        obj = objects[key]
        owners = {reference.get("uid") for reference in obj["metadata"].get("ownerReferences") or ()}
        likeness = _named_after(obj, gone)
        for other, candidate in living.items():
            metadata = candidate["metadata"]
            if metadata["uid"] in owners:
                return True
            if other[0] == key[0] or not (closeness := _named_after(obj, candidate)):
                continue
            tie = metadata["name"] == gone["metadata"]["name"] or (closeness == likeness and other not in self._made)
            if tie or closeness > likeness:
                return True
        return False


def _named_after(obj: Object, owner: Object) -> int:
    """Return how much an object has the owner's name: its length if its own name begins with it, 1 for a label."""
    name, metadata = owner["metadata"]["name"], obj["metadata"]
    if owner["metadata"].get("namespace", metadata.get("namespace")) != metadata.get("namespace"):
        return 0
    own = metadata["name"]
    if own == name or own.startswith(f"{name}-"):
        return 1 + len(name)
    return int(name in (metadata.get("labels") or {}).values())
