"""Groups of objects by namespace and label set, so that a selector is evaluated once per set, not once per object.

A hundred thousand Pods have about a thousand different label sets, and decoding gives equal sets one shared dict. So
the identity of that dict identifies the group, and finding a group takes no comparison. The groups of a namespace
together hold all its objects, so the index by namespace needs no memory of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Generic, TypeAlias

import msgspec

from kinformer._runtime.partitioned_dict import PARTITION_AT, Table, TableCopies, stored, tables_of
from kinformer.cache.store import Keys, Objects, objects_of
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ObjectT

__all__ = ["NO_LABELS", "LabelGroups", "LabelGroupsFork", "Matches", "filter_by_labels"]

Matches = Callable[[Mapping[str, str]], bool]


class _Group(msgspec.Struct, Generic[ObjectT], frozen=True, eq=False, gc=False):
    """One group. The garbage collector does not see it nor, before Python 3.14, the dict of a namespace's groups.

    They would be half of all that it visits in an informer of a few hundred objects. No object refers to its group, so
    there is no cycle that it would have to find.
    """

    labels: dict[str, str]  # kept, so that their id stays unique
    members: Table[str, ObjectT]  # the objects by key


_Space: TypeAlias = Table[int, _Group[ObjectT]]  # the groups of one namespace, by the id of their labels

NO_LABELS = 0  # the group of all objects without labels, whichever empty dict they have
_TRIES = 3  # reads that a writer in another thread may invalidate before the caller scans all objects


def _labels(obj: object) -> Mapping[str, str]:
    """Return the labels of an object of any type, or an empty mapping if they are not in a usual place."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else getattr(obj, "metadata", None)
    if isinstance(metadata, Mapping):
        labels = metadata.get("labels")
    else:
        labels = getattr(obj if metadata is None else metadata, "labels", None)
    return labels if isinstance(labels, Mapping) else {}


def filter_by_labels(objects: Iterable[ObjectT], matches: Matches) -> Objects[ObjectT]:
    """Return the objects whose labels match. `matches` is called once per shared label dict."""
    matching: Objects[ObjectT] = []
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
            matching.append(obj)
    return matching


class LabelGroups(Generic[ObjectT]):
    """The groups of one cache, maintained by its writer.

    An object that is not a `KubeObject` is in no group, because the program may change its labels after storing it.
    Such objects are only counted. If a cache has any, a selector is evaluated once per object.
    """

    __slots__ = ("_changes", "_others", "spaces")

    def __init__(self) -> None:
        # Only the cache's writer changes these three.
        self.spaces: Table[str, _Space[ObjectT]] = {}
        self._others = 0  # objects in no group
        # A sequence number, odd while an object moves between groups. If it changes during a read in another thread,
        # the groups or their members have changed, so the reader reads again. (Without the GIL, the indexer's
        # `exclusive` methods keep readers and the writer apart.)
        self._changes = 0

    def put(self, key: str, old: ObjectT | None, new: ObjectT) -> None:
        """Record that `new` has been stored, replacing `old` if that is not None."""
        if isinstance(new, KubeObject) and isinstance(old, KubeObject):
            labels, namespace = new._labels, new.namespace
            # The usual case: the next state of the same object. Namespace strings are shared.
            if labels is old._labels and (namespace is old.namespace or namespace == old.namespace):
                self.spaces[namespace][id(labels) if labels else NO_LABELS].members[key] = new
                return
        self._changes += 1
        if old is not None:
            # Readers discard results while the number is odd, so the object may be in no group for a moment.
            self.remove(key, old)
        if isinstance(new, KubeObject):
            self._link(key, new, new.namespace, new._labels)
        else:
            self._others += 1
        self._changes += 1

    def remove(self, key: str, old: ObjectT) -> None:
        """Record that `old` is no longer stored."""
        if not isinstance(old, KubeObject):
            self._others -= 1
            return
        space = self.spaces[old.namespace]
        number = id(old._labels) if old._labels else NO_LABELS
        members = space[number].members
        del members[key]
        if not members:
            del space[number]
            if not space:
                del self.spaces[old.namespace]

    def select(self, matches: Matches, namespace: str | None = None) -> Objects[ObjectT] | None:
        """Return the objects of one namespace, or of all, whose labels match.

        None if the groups are incomplete (objects that are not a `KubeObject` are stored), or if a writer in another
        thread interferes.
        """
        if self._others:
            return None
        verdicts: dict[int, bool] = {}

        def takes(group: _Group[ObjectT]) -> bool:
            labels = group.labels
            verdict = verdicts.get(id(labels))
            if verdict is None:
                verdict = verdicts[id(labels)] = matches(labels)
            return verdict

        objects = self._read(takes, namespace)
        return None if self._others else objects  # one may have been stored in the meantime

    def in_namespace(self, namespace: str) -> Objects[ObjectT] | None:
        """Return the `KubeObject`s of one namespace, or None if a writer in another thread interferes."""
        return self._read(None, namespace)

    def keys_in(self, namespace: str) -> Keys:
        """Return the keys of the `KubeObject`s of one namespace."""
        space = self.spaces.get(namespace)
        groups = [] if space is None else list(space.values())
        return list(chain.from_iterable(tables_of(group.members for group in groups)))

    def namespaces(self) -> Keys:
        """Return the namespaces that have a `KubeObject`."""
        return list(self.spaces)

    @property
    def is_complete(self) -> bool:
        """True if every stored object is in a group."""
        return not self._others

    def _read(self, takes: Callable[[_Group[ObjectT]], bool] | None, namespace: str | None) -> Objects[ObjectT] | None:
        for _ in range(_TRIES):
            changes = self._changes
            if changes & 1:
                return None
            if namespace is None:
                spaces = list(self.spaces.values())
            else:
                space = self.spaces.get(namespace)
                spaces = [] if space is None else [space]
            members = [group.members for space in spaces for group in list(space.values()) if not takes or takes(group)]
            # If the number has not changed, the result is consistent.
            objects = objects_of(tables_of(members))
            if self._changes == changes:
                return objects
        return None

    def _link(self, key: str, obj: ObjectT, namespace: str, labels: dict[str, str]) -> None:
        number = id(labels) if labels else NO_LABELS
        space = self.spaces.get(namespace)
        if space is None:
            self.spaces = stored(self.spaces, namespace, {number: _Group(labels, {key: obj})})
            return
        group = space.get(number)
        if group is None:
            grown = stored(space, number, _Group(labels, {key: obj}))
            if grown is not space:
                self.spaces[namespace] = grown
            return
        members = stored(group.members, key, obj)
        if members is not group.members:
            space[number] = _Group(labels, members)


class LabelGroupsFork(LabelGroups[ObjectT]):
    """A copy-on-write copy of label groups, like `IndexFork`."""

    __slots__ = ("_copies", "_own_members", "origin")

    def __init__(self, origin: LabelGroups[ObjectT]) -> None:
        self.origin = origin
        # By namespace and id of the labels: the members of groups that this fork has copied or created.
        self._own_members: dict[str, dict[int, dict[str, ObjectT]]] = {}
        # Shared with the origin, until the first change copies it.
        self.spaces = origin.spaces
        self._others = origin._others
        self._changes = 0
        self._copies = TableCopies()

    def put(self, key: str, old: ObjectT | None, new: ObjectT) -> None:
        """Record that `new` will be stored, replacing `old` if that is not None."""
        if old is None and isinstance(new, KubeObject):
            own = self._own_members.get(new.namespace)
            if own is not None:
                members = own.get(id(new._labels) if new._labels else NO_LABELS)
                if members is not None and len(members) < PARTITION_AT:
                    members[key] = new
                    return
        elif old is None:
            self._others += 1
            return
        for obj in (old, new):
            if isinstance(obj, KubeObject):
                self._own(obj)
        super().put(key, old, new)
        if isinstance(new, KubeObject):
            number = id(new._labels) if new._labels else NO_LABELS
            grown = self.spaces[new.namespace][number].members
            if isinstance(grown, dict):
                self._own_members.setdefault(new.namespace, {})[number] = grown

    def remove(self, key: str, old: ObjectT) -> None:
        """Record that `old` will no longer be stored."""
        if isinstance(old, KubeObject):
            self._own(old)
            self._own_members.pop(old.namespace, None)  # a group without members is removed
        super().remove(key, old)

    def settled(self) -> LabelGroups[ObjectT]:
        """Return the groups that replace the origin. The fork must not be changed after this."""
        groups: LabelGroups[ObjectT] = LabelGroups()
        groups.spaces, groups._others = self.spaces, self._others
        return groups

    def release(self) -> Iterator[None]:
        """Free the origin's dicts that the new groups do not share, in small steps."""
        return self._copies.release()

    def _own(self, obj: KubeObject) -> None:
        """Copy the group of an object and the dicts that lead to it, unless they have been copied."""
        origin = self.origin.spaces
        if self.spaces is origin:
            self.spaces = self._copies.of(origin)
        space, before = self.spaces.get(obj.namespace), origin.get(obj.namespace)
        if space is None or before is None:
            return
        if space is before:
            self.spaces[obj.namespace] = space = self._copies.of(before)
        number = id(obj._labels) if obj._labels else NO_LABELS
        group = space.get(number)
        if group is not None and before.get(number) is group:
            space[number] = _Group(group.labels, self._copies.of(group.members))
