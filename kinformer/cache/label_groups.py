"""Objects by namespace and label set, so that a selector is asked once per set and not once per object.

A hundred thousand Pods carry about a thousand different label sets, and decoding gives equal sets one shared dict.
So the identity of that dict is the group, and finding it costs no comparison. The groups of a namespace together are
what is in it, so that the index by namespace costs nothing more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from kinformer._runtime.partitioned_dict import PartitionedDict, Table, stored, tables_of
from kinformer.cache.store import Keys, Objects, objects_of
from kinformer.objects.object import KubeObject

__all__ = ["LabelGroups", "LabelGroupsFork", "Matches", "filter_by_labels"]

Matches = Callable[[Mapping[str, str]], bool]

_Members = Table[str, Any]
_Group = tuple[dict[str, str], _Members]  # the labels, which keeps their id taken; and the objects by key
_Space = Table[int, _Group]  # the groups of one namespace, by the id of their labels

_NO_LABELS = 0  # the group of all that have none, whatever empty dict they hold
_TRIES = 3  # readings that a writer in another thread may spoil before the caller has to look at every object


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

    __slots__ = ("_changes", "_others", "_spaces")

    def __init__(self) -> None:
        self._spaces: Table[str, _Space] = {}
        self._others = 0
        # Odd while an object moves between groups; another number once there are other groups, or other objects in
        # them than a reader in another thread began with: so that it looks again.
        self._changes = 0

    def put(self, key: str, old: Any, new: Any) -> None:
        """`new` is in the cache now, in the place of `old` (None: of nothing)."""
        if isinstance(new, KubeObject) and isinstance(old, KubeObject):
            labels, namespace = new._labels, new.namespace
            # Nearly always: the next state of the same object. Namespaces are shared text.
            if labels is old._labels and (namespace is old.namespace or namespace == old.namespace):
                self._spaces[namespace][id(labels) if labels else _NO_LABELS][1][key] = new
                return
        self._changes += 1
        if old is not None:
            # Nobody reads while the number is odd, so it does not matter that the object is nowhere for a moment.
            self.remove(key, old)
        if isinstance(new, KubeObject):
            self._link(key, new)
        else:
            self._others += 1
        self._changes += 1

    def remove(self, key: str, old: Any) -> None:
        """`old` is in the cache no more."""
        if not isinstance(old, KubeObject):
            self._others -= 1
            return
        space = self._spaces[old.namespace]
        number = id(old._labels) if old._labels else _NO_LABELS
        members = space[number][1]
        del members[key]
        if not members:
            del space[number]
            if not space:
                del self._spaces[old.namespace]

    def select(self, matches: Matches, namespace: str | None = None) -> Objects | None:
        """The objects whose labels match, of one namespace or all.

        None where the groups cannot tell: there are other objects, or a writer in another thread is in the way.
        """
        verdicts: dict[int, bool] = {}

        def wanted(group: _Group) -> bool:
            labels = group[0]
            verdict = verdicts.get(id(labels))
            if verdict is None:
                verdict = verdicts[id(labels)] = matches(labels)
            return verdict

        return self._read(wanted, namespace)

    def in_namespace(self, namespace: str) -> Objects | None:
        """The objects of one namespace; None as with `select`."""
        return self._read(None, namespace)

    def keys_in(self, namespace: str) -> Keys:
        """The keys of the objects in one namespace."""
        space = self._spaces.get(namespace)
        return [] if space is None else list(chain.from_iterable(tables_of(group[1] for group in list(space.values()))))

    def namespaces(self) -> Keys:
        """The namespaces that have an object."""
        return list(self._spaces)

    @property
    def is_complete(self) -> bool:
        """Whether every object of the cache is in a group."""
        return not self._others

    def _read(self, wanted: Callable[[_Group], bool] | None, namespace: str | None) -> Objects | None:
        for _ in range(_TRIES):
            changes = self._changes
            if self._others or changes & 1:
                return None
            if namespace is None:
                spaces = list(self._spaces.values())
            else:
                space = self._spaces.get(namespace)
                spaces = [] if space is None else [space]
            members = [
                group[1] for space in spaces for group in list(space.values()) if wanted is None or wanted(group)
            ]
            # What it gives is of one moment, if nothing came between.
            found = objects_of(tables_of(members))
            if self._changes == changes:
                return found
        return None

    def _link(self, key: str, obj: KubeObject) -> None:
        labels, namespace = obj._labels, obj.namespace
        number = id(labels) if labels else _NO_LABELS
        space = self._spaces.get(namespace)
        if space is None:
            self._spaces = stored(self._spaces, namespace, {number: (labels, {key: obj})})
            return
        group = space.get(number)
        if group is None:
            grown = stored(space, number, (labels, {key: obj}))
            if grown is not space:
                self._spaces[namespace] = grown
            return
        members = stored(group[1], key, obj)
        if members is not group[1]:
            space[number] = (labels, members)


class LabelGroupsFork(LabelGroups):
    """Groups that start as those of another, and copy each before they change it; see `IndexFork`."""

    __slots__ = ("_replaced", "_wide", "origin")

    def __init__(self, origin: LabelGroups) -> None:
        self.origin = origin
        self._spaces = origin._spaces
        self._others = origin._others
        self._changes = 0
        self._replaced: list[Any] = []
        self._wide: list[PartitionedDict[Any, Any]] = []

    def put(self, key: str, old: Any, new: Any) -> None:
        """`new` is in the cache to be, in the place of `old` (None: of nothing)."""
        for obj in (old, new):
            if isinstance(obj, KubeObject):
                self._own(obj)
        super().put(key, old, new)

    def remove(self, key: str, old: Any) -> None:
        """`old` is not in the cache to be."""
        if isinstance(old, KubeObject):
            self._own(old)
        super().remove(key, old)

    def merge(self) -> list[Any]:
        """Make this the state of the origin; returns the dicts that it no longer needs."""
        origin = self.origin
        origin._changes += 1
        origin._spaces = self._spaces
        origin._others = self._others
        origin._changes += 1
        for wide in self._wide:
            self._replaced += wide.settle()
        return self._replaced

    def _own(self, obj: KubeObject) -> None:
        """Have copies of all that leads to the group of an object, and of that itself."""
        origin = self.origin._spaces
        if self._spaces is origin:
            self._spaces = self._copy(origin)
        space, before = self._spaces.get(obj.namespace), origin.get(obj.namespace)
        if space is None or before is None:
            return
        if space is before:
            self._spaces[obj.namespace] = space = self._copy(before)
        number = id(obj._labels) if obj._labels else _NO_LABELS
        group: _Group | None = space.get(number)
        if group is not None and before.get(number) is group:
            space[number] = (group[0], self._copy(group[1]))

    def _copy(self, table: Any) -> Any:
        made = table.copy()
        if type(made) is dict:
            self._replaced.append(table)
        else:
            self._wide.append(made)
        return made
