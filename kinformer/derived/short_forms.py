"""Derive, and its short forms: filtered, mapped, group_by, join and union."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypeVar, overload

from kinformer._runtime.signatures import check_callback, name_of
from kinformer.cache.index import IndexFunc
from kinformer.derived.collection import DerivedCollection
from kinformer.derived.entries import Joined
from kinformer.derived.fetch import Fetch
from kinformer.derived.function_engine import FunctionEngine
from kinformer.derived.group_engine import GroupEngine
from kinformer.derived.union_engine import AWAY_AFTER, UnionEngine
from kinformer.derived.values import ValueIndexers
from kinformer.exceptions import ConfigError
from kinformer.informer.collection import Collection
from kinformer.objects.json_path import PathIndex
from kinformer.objects.types import ObjectT
from kinformer.reflector.health import InformerHealth

__all__ = ["UnionCollection", "derive", "filtered", "group_by", "join", "mapped", "union"]

T = TypeVar("T")
V = TypeVar("V")
R = TypeVar("R")


@overload
def derive(
    primary: Collection[T],
    function: Callable[[T, Fetch], V | None],
    *,
    name: str | None = None,
    many: Literal[False] = False,
    indexers: Mapping[str, IndexFunc[V] | str] | None = None,
) -> DerivedCollection[V]: ...
@overload
def derive(
    primary: Collection[T],
    function: Callable[[T, Fetch], Mapping[str, V] | Iterable[tuple[str, V]] | None],
    *,
    name: str | None = None,
    many: Literal[True],
    indexers: Mapping[str, IndexFunc[V] | str] | None = None,
) -> DerivedCollection[V]: ...
def derive(
    primary: Collection,
    function: Callable[[Any, Fetch], Any],
    *,
    name: str | None = None,
    many: bool = False,
    indexers: Mapping[str, IndexFunc[Any] | str] | None = None,
) -> DerivedCollection:
    """Derive a collection: what a function makes of each object of another, and of what it fetches for it.

    ::

        def pods_of(node, fetch):
            return NodePods(node.name, fetch(pods, index=("spec.nodeName", node.name)))

        async with derive(nodes, pods_of, name="pods by node") as by_node:
            await by_node.wait_synced()
            print(by_node.by_key.get("node-1"))

    The function runs again when its object changes, or anything that it has fetched, and for no other reason. So it has
    to be a function of these alone: not of the time, and not of state that nobody tells it of.

    Args:
        primary: The collection whose objects the function gets: an informer, or another derived collection.
        function: Plain; returns the value of an object, of any type, or None for none. Values are compared (`==`), so
            return new ones and do not change those that were returned. What it raises is counted and logged, and the
            object has no value until something changes.
        name: For the log, errors and metrics; default: that of the function, with the primary's.
        many: The function returns a mapping from keys to values, or pairs: any number for each object. Without it the
            key of a value is that of the object.
        indexers: Name to index function (value -> texts) or JSON path.

    Raises:
        TypeError: The function cannot be called with an object and `fetch`, or is a coroutine function.
    """
    name = name or f"{name_of(function)} of {primary.name}"
    check_callback(function, "function", "obj, fetch", f"derive {name}", plain=True)
    engine = FunctionEngine(name, primary, function, fetches=True, many=many)
    return DerivedCollection(engine, indexers=_indexers(indexers))


def filtered(
    collection: Collection[T], predicate: Callable[[T], object], *, name: str | None = None
) -> DerivedCollection[T]:
    """Derive the objects for which `predicate` is true; see `derive`."""
    check_callback(predicate, "predicate", "obj", f"filter of {collection.name}", plain=True)
    name = name or f"{collection.name} filtered by {name_of(predicate)}"
    engine = FunctionEngine(name, collection, lambda obj: obj if predicate(obj) else None, fetches=False, many=False)
    return DerivedCollection(engine)


def mapped(
    collection: Collection[T], function: Callable[[T], V | None], *, name: str | None = None
) -> DerivedCollection[V]:
    """Derive what `function` returns for each object; see `derive`."""
    check_callback(function, "function", "obj", f"map of {collection.name}", plain=True)
    name = name or f"{collection.name} mapped by {name_of(function)}"
    return DerivedCollection(FunctionEngine(name, collection, function, fetches=False, many=False))


def group_by(
    collection: Collection[T],
    key: Callable[[T], str | Iterable[str] | None] | str,
    *,
    name: str | None = None,
    indexers: Mapping[str, IndexFunc[tuple[T, ...]] | str] | None = None,
) -> DerivedCollection[tuple[T, ...]]:
    """Derive the groups of a collection: from the name of a group to the tuple of its members, in the order of keys.

    A change costs what its groups cost, whatever the size of the collection.

    Args:
        collection: An informer, or another derived collection.
        key: Returns the groups of an object: a text, several, or None; or a JSON path such as `"spec.nodeName"`.
        name: Default: that of the collection, with the key's.
        indexers: Name to index function (members -> texts) or JSON path.

    Raises:
        ConfigError: The path does not parse.
        TypeError: The function cannot be called with an object, or is a coroutine function.
    """
    named = name or f"{collection.name} by {key if isinstance(key, str) else name_of(key)}"
    function: Callable[[Any], Any] = PathIndex(key) if isinstance(key, str) else key
    check_callback(function, "key", "obj", f"group_by {named}", plain=True)
    return DerivedCollection(GroupEngine(named, collection, function), indexers=_indexers(indexers))


@overload
def join(
    left: Collection[T], right: Collection[R], *, on: Callable[[T], str | None], name: str | None = None
) -> DerivedCollection[Joined[T, R | None]]: ...
@overload
def join(
    left: Collection[T], right: Collection[R], *, on: str, name: str | None = None
) -> DerivedCollection[Joined[T, tuple[R, ...]]]: ...
def join(
    left: Collection, right: Collection, *, on: Callable[[Any], str | None] | str, name: str | None = None
) -> DerivedCollection:
    """Derive each object of one collection with what belongs to it in another.

    ::

        join(pods, nodes, on=lambda pod: pod.path("spec.nodeName"))  # a pod with its node, or None
        join(nodes, pods, on="spec.nodeName")                        # a node with its pods, by this index of pods

    Args:
        left: The collection that gives the keys.
        right: The other one.
        on: A function that returns the key in `right` for an object of `left`, or None; or the name of an index of
            `right`, in which objects have the key or the name of the object of `left` that they belong to.
        name: Default: made of the names of both.

    Returns:
        The collection of `Joined` pairs: an object of `right` or None for a function, a tuple in the order of keys for
        an index.

    Raises:
        TypeError: The function cannot be called with an object, or is a coroutine function.
    """
    name = name or f"{left.name} with {right.name}"
    if isinstance(on, str):
        index = on

        def function(obj: Any, fetch: Fetch) -> Joined[Any, Any]:
            found = fetch(right, index=(index, obj.key))
            if obj.name != obj.key:
                found = [*found, *(other for other in fetch(right, index=(index, obj.name)) if other not in found)]
            return Joined(obj, tuple(sorted(found, key=_key_of)))
    else:
        key_of = on
        check_callback(key_of, "on", "obj", f"join {name}", plain=True)

        def function(obj: Any, fetch: Fetch) -> Joined[Any, Any]:
            key = key_of(obj)
            return Joined(obj, None if key is None else fetch(right, key=key))

    return derive(left, function, name=name)


@overload
def union(*members: Collection[T], name: str | None = None) -> DerivedCollection[T]: ...
@overload
def union(
    members: Mapping[str, Collection[T]], /, *, name: str | None = None, away_after: float = AWAY_AFTER
) -> UnionCollection[T]: ...
def union(*members: Any, name: str | None = None, away_after: float = AWAY_AFTER) -> DerivedCollection:
    """Derive one collection of all objects of several.

    ::

        union(deployments_of_a, deployments_of_b)             # keys as they are; of two objects with one key the first
        union({"east": pods_east, "west": pods_west})         # keys "east/default/web-1": clusters, for example

    Args:
        members: Collections, or one mapping from names to collections.
        name: Default: made of the names of all.
        away_after: Seconds after which a member by name whose requests fail counts as away, and no longer holds up the
            first sync.

    Raises:
        ConfigError: There is no member; a name is empty or has a slash.
    """
    if len(members) == 1 and isinstance(members[0], Mapping):
        named: Mapping[str, Collection] = members[0]
        return UnionCollection(UnionEngine(name or f"union of {', '.join(named)}", named, away_after=away_after))
    if not members:
        raise ConfigError("union: got no collection; pass some, or a mapping of names to collections")
    listed: Sequence[Collection] = members
    text = name or f"union of {', '.join(member.name for member in listed)}"
    return DerivedCollection(UnionEngine(text, tuple(listed)))


class UnionCollection(DerivedCollection[ObjectT]):
    """The union of collections by name, such as clusters; members come and go while it runs.

    The key of a value is the name of its member and the key that it has there: `"east/default/web-1"`, and without a
    namespace `"east//node-1"`. A member that is removed or left takes its values along, as deletes. One whose server is
    away, or that has crashed, keeps its last state, is not live, and holds up no other.

    It is synced when each member has synced or is away: its requests fail, and it was added `away_after` seconds ago.
    The values of such a member come as adds when it is back. `health` is that of the worst member.
    """

    def __init__(self, engine: UnionEngine, *, indexers: ValueIndexers | None = None) -> None:
        super().__init__(engine, indexers=indexers)
        self._members = engine

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members."""
        return self._members.members

    def member_health(self) -> dict[str, InformerHealth]:
        """Return the health of each member, by name; one that is away is not `live`."""
        return self._members.member_health()

    def add(self, name: str, collection: Collection[V]) -> None:
        """Add a member; its values come as adds when it is complete.

        Raises:
            ConfigError: The name is taken, empty or has a slash; or the collection is made of this union.
            RuntimeError: The union has not been entered.
        """
        self._core.life.require_running("add")
        self._members.add(name, collection)

    def replace(self, name: str, collection: Collection[V]) -> None:
        """Have another collection take the place of a member, such as one that reads with new credentials.

        The values stay until the new one is complete; then their differences are told.

        Raises:
            KeyError: There is no member of this name.
            ConfigError: The collection is made of this union.
        """
        self._core.life.require_running("replace")
        self._members.replace(name, collection)

    def remove(self, name: str) -> None:
        """Remove a member; its values are told as deletes.

        Raises:
            KeyError: There is no member of this name.
        """
        self._core.life.require_running("remove")
        self._members.remove(name)


def _key_of(value: Any) -> str:
    return str(getattr(value, "key", ""))


def _indexers(indexers: Mapping[str, IndexFunc[Any] | str] | None) -> ValueIndexers | None:
    return None if indexers is None else dict(indexers)
