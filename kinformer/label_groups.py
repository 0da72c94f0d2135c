"""Objects by their label set, so that a selector is asked once per set and not once per object.

A hundred thousand Pods carry about a thousand different label sets, and decoding gives equal sets one shared dict.
So the identity of that dict is the group, and finding it costs no comparison.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kinformer.object import KubeObject
from kinformer.store import Objects

__all__ = ["LabelGroups", "LabelGroupsFork", "Matches", "filter_by_labels"]

Matches = Callable[[Mapping[str, str]], bool]

_Group = tuple[dict[str, str], dict[str, Any]]  # the labels, which keeps their id taken; and the objects by key

_NO_LABELS = 0  # the group of all that have none, whatever empty dict they hold


def _labels(obj: Any) -> Mapping[str, str]:
    """The labels of any object that has some in a usual place."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else getattr(obj, "metadata", None)
    if isinstance(metadata, Mapping):
        labels = metadata.get("labels")
    else:
        labels = getattr(obj if metadata is None else metadata, "labels", None)
    return labels if isinstance(labels, Mapping) else {}


def filter_by_labels(objects: Iterable[Any], matches: Matches) -> Objects:
    """The objects whose labels match; `matches` is asked once per shared label dict."""
    found: Objects = []
    verdicts: dict[int, bool] = {}
    for obj in objects:
        if isinstance(obj, KubeObject):
            labels = obj._labels
            verdict = verdicts.get(id(labels))
            if verdict is None:
                verdict = verdicts[id(labels)] = matches(labels)
        else:
            verdict = matches(_labels(obj))
        if verdict:
            found.append(obj)
    return found


class LabelGroups:
    """The groups of one cache, kept by its writer.

    Objects that are no `KubeObject` may change their labels behind our back, so they are only counted, and a cache
    that has any is searched one by one.
    """

    __slots__ = ("_groups", "_moves", "_others")

    def __init__(self) -> None:
        self._groups: dict[int, _Group] = {}
        self._others = 0
        self._moves = 0  # odd while an object moves between groups, so that a reader in another thread looks again

    def put(self, key: str, old: Any, new: Any) -> None:
        """`new` is in the cache now, in the place of `old` (None: of nothing)."""
        if isinstance(new, KubeObject):
            labels = new._labels
            if old is None:
                self._link(labels, key, new)
                return
            if isinstance(old, KubeObject):
                before = old._labels
                if before is labels:
                    self._groups[id(labels) if labels else _NO_LABELS][1][key] = new
                    return
                if not before and not labels:
                    self._groups[_NO_LABELS][1][key] = new
                    return
        self._moves += 1
        if isinstance(new, KubeObject):
            self._link(new._labels, key, new)
        else:
            self._others += 1
        if old is not None:
            self.remove(key, old)
        self._moves += 1

    def remove(self, key: str, old: Any) -> None:
        """`old` is in the cache no more."""
        if not isinstance(old, KubeObject):
            self._others -= 1
            return
        group = id(old._labels) if old._labels else _NO_LABELS
        members = self._groups[group][1]
        del members[key]
        if not members:
            del self._groups[group]

    def select(self, matches: Matches) -> Objects | None:
        """The objects whose labels match; None where the groups cannot tell, now or ever."""
        moves = self._moves
        if self._others or moves & 1:
            return None
        found: Objects = []
        for labels, members in list(self._groups.values()):
            if matches(labels):
                found += members.values()
        return found if self._moves == moves else None

    @property
    def is_complete(self) -> bool:
        """Whether every object of the cache is in a group."""
        return not self._others

    def __len__(self) -> int:
        return len(self._groups)

    def _link(self, labels: dict[str, str], key: str, obj: Any) -> None:
        number = id(labels) if labels else _NO_LABELS
        group = self._groups.get(number)
        if group is None:
            self._groups[number] = (labels, {key: obj})
        else:
            group[1][key] = obj


class LabelGroupsFork(LabelGroups):
    """Groups that start as those of another, and copy each before they change it; see `IndexFork`."""

    __slots__ = ("_own", "_replaced", "origin")

    def __init__(self, origin: LabelGroups) -> None:
        self.origin = origin
        self._groups = origin._groups
        self._others = origin._others
        self._moves = 0
        self._own: set[int] = set()
        self._replaced: list[dict[str, Any]] = []

    def put(self, key: str, old: Any, new: Any) -> None:
        """`new` is in the cache to be, in the place of `old` (None: of nothing)."""
        if isinstance(new, KubeObject):
            self._own_group(new)
        if old is not None and isinstance(old, KubeObject):
            self._own_group(old)
        super().put(key, old, new)

    def remove(self, key: str, old: Any) -> None:
        """`old` is not in the cache to be."""
        if isinstance(old, KubeObject):
            self._own_group(old)
        super().remove(key, old)

    def merge(self) -> list[dict[str, Any]]:
        """Make this the state of the origin; returns the dicts that it no longer needs."""
        origin = self.origin
        origin._moves += 1
        origin._groups = self._groups
        origin._others = self._others
        origin._moves += 1
        return self._replaced

    def _own_group(self, obj: KubeObject) -> None:
        labels = obj._labels
        number = id(labels) if labels else _NO_LABELS
        if number in self._own:
            return
        self._own.add(number)
        if self._groups is self.origin._groups:
            self._groups = self._groups.copy()
        group = self._groups.get(number)
        if group is not None:
            self._replaced.append(group[1])
            self._groups[number] = (group[0], group[1].copy())
