"""Functions that create derived collections: derive, and its short forms filtered, mapped, group_by, join and union."""

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
from kinformer.objects.paths.json_path import PathIndex
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
    """Derive a collection: a function computes a value from each object of another one, and from objects it fetches.

    ::

        def pods_of(node, fetch):
            return NodePods(node.name, fetch(pods, index=("spec.nodeName", node.name)))

        async with derive(nodes, pods_of, name="pods by node") as by_node:
            await by_node.wait_synced()
            print(by_node.by_key.get("node-1"))

    The function runs again when its object or anything that it fetched changes, and for no other reason. So it must
    depend only on these, and not on the time or other state.

    Args:
        primary: The collection whose objects the function gets: an informer, or another derived collection.
        function: A plain function that returns the value of an object, of any type, or None for no value. Values are
            compared (`==`, and `KubeObject`s by their JSON), so return new values and do not change returned ones.
            Its exceptions are counted and logged, and the object has no value until something changes.
        name: The name in the log, errors and metrics. By default, made of the names of the function and the primary.
        many: True if the function returns a mapping from keys to values, or pairs: any number per object. Otherwise,
            the key of a value is the object's key.
        indexers: Index names to index functions (value -> strings) or JSON paths.

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
    """Derive the objects for which `predicate` is true. See `derive`."""
    check_callback(predicate, "predicate", "obj", f"filter of {collection.name}", plain=True)
    name = name or f"{collection.name} filtered by {name_of(predicate)}"
    engine = FunctionEngine(name, collection, lambda obj: obj if predicate(obj) else None, fetches=False, many=False)
    return DerivedCollection(engine)


def mapped(
    collection: Collection[T], function: Callable[[T], V | None], *, name: str | None = None
) -> DerivedCollection[V]:
    """Derive the values that `function` returns for each object. See `derive`."""
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
    """Derive the groups of a collection: the name of each group maps to the tuple of its members, ordered by key.

    The cost of a change depends on the size of its groups, not on the size of the collection.

    Args:
        collection: An informer, or another derived collection.
        key: A function that returns the groups of an object (a string, several, or None), or a JSON path such as
            `"spec.nodeName"`.
        name: By default, made of the names of the collection and the key.
        indexers: Index names to index functions (members -> strings) or JSON paths.

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
    """Derive each object of one collection with its related objects in another.

    ::

        join(pods, nodes, on=lambda pod: pod.path("spec.nodeName"))  # a pod with its node, or None
        join(nodes, pods, on="spec.nodeName")                        # a node with its pods, by this index of pods

    Args:
        left: The collection whose keys the result has.
        right: The other collection.
        on: A function that returns the key in `right` for an object of `left`, or None. Or the name of an index of
            `right` whose values are the key or the name of the object of `left` that an object belongs to.
        name: By default, made of both names.

    Returns:
        The collection of `Joined` pairs. On the right is an object of `right` or None if `on` is a function, or a tuple
        ordered by key if `on` is an index.

    Raises:
        TypeError: The function cannot be called with an object, or is a coroutine function.
    """
    name = name or f"{left.name} with {right.name}"
    if isinstance(on, str):
        index = on

        def function(obj: Any, fetch: Fetch) -> Joined[Any, Any]:
            linked = fetch(right, index=(index, obj.key))
            if obj.name != obj.key:
                linked = [*linked, *(other for other in fetch(right, index=(index, obj.name)) if other not in linked)]
            return Joined(obj, tuple(sorted(linked, key=lambda other: str(getattr(other, "key", "")))))
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
    """Derive one collection of all objects of several collections.

    ::

        union(deployments_of_a, deployments_of_b)             # keys as they are; of two objects with one key the first
        union({"east": pods_east, "west": pods_west})         # keys "east/default/web-1": clusters, for example

    Args:
        members: Collections, or one mapping from names to collections.
        name: By default, made of all names.
        away_after: Seconds after which a named member whose requests fail counts as away, and no longer delays the
            first sync. 10 by default.

    Raises:
        ConfigError: No collection was passed, or a name is empty or has a slash.
    """
    if len(members) == 1 and isinstance(members[0], Mapping):
        named: Mapping[str, Collection] = members[0]
        return UnionCollection(UnionEngine(name or f"union of {', '.join(named)}", named, away_after=away_after))
    if not members:
        raise ConfigError("union: expected collections, or a mapping of names to collections")
    listed: Sequence[Collection] = members
    name = name or f"union of {', '.join(member.name for member in listed)}"
    return DerivedCollection(UnionEngine(name, tuple(listed)))


class UnionCollection(DerivedCollection[ObjectT]):
    """The union of named collections, such as clusters. Members can be added and removed while it is running.

    The key of a value is the name of its member and its key there: `"east/default/web-1"`, or `"east//node-1"` without
    a namespace. The values of a member that is removed or exited are deleted. A member whose server is away, or that
    has crashed, keeps its last state, is not live, and does not delay the others.

    It is synced when each member has synced, has crashed, or is away, because its requests fail and it was added
    `away_after` seconds ago. The values of such a member are added when it is back. `health` is the worst member's.
    """

    def __init__(self, engine: UnionEngine, *, indexers: ValueIndexers | None = None) -> None:
        super().__init__(engine, indexers=indexers)
        self._members = engine

    @property
    def members(self) -> tuple[str, ...]:
        """The names of the members."""
        return self._members.members

    def member_health(self) -> dict[str, InformerHealth]:
        """Return the health of each member, by name. A member that is away is not `live`."""
        return self._members.member_health()

    def add(self, name: str, collection: Collection[V]) -> None:
        """Add a member. Its values are added when it is complete.

        Raises:
            ConfigError: The name is taken, is empty or has a slash, or the collection is derived from this union.
            RuntimeError: The union has not been entered.
        """
        self._core.life.require_running("add")
        self._members.add(name, collection)

    def replace(self, name: str, collection: Collection[V]) -> None:
        """Replace a member with another collection, such as one that reads with new credentials.

        The values stay until the new collection is complete. Then only the differences are delivered.

        Raises:
            KeyError: There is no member with this name.
            ConfigError: The collection is derived from this union.
        """
        self._core.life.require_running("replace")
        self._members.replace(name, collection)

    def remove(self, name: str) -> None:
        """Remove a member. Its values are delivered as deletes.

        Raises:
            KeyError: There is no member with this name.
        """
        self._core.life.require_running("remove")
        self._members.remove(name)


def _indexers(indexers: Mapping[str, IndexFunc[Any] | str] | None) -> ValueIndexers | None:
    return None if indexers is None else dict(indexers)
