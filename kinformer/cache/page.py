"""Pages of a collection for web pages: sorted, filtered, in slices that do not hold the event loop."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Generic, Protocol, TypeVar

import msgspec

from kinformer._runtime.clock import UserFunction, YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer._runtime.signatures import check_callback
from kinformer.exceptions import ConfigError
from kinformer.objects.object import KubeObject
from kinformer.objects.paths.json_path import parse_path

__all__ = ["Page", "page_of"]

log = get_logger("kinformer.informer")

V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)

Sort = str | Callable[[V], object]
Place = tuple[int, int | float | str, str]
"""The order of a value: its kind, the value, and its key."""

_MORE = 16  # objects beyond twice the number of a page that are kept until the next sort


@dataclass(frozen=True, slots=True)
class Page(Generic[V]):
    """A page of a collection.

    Attributes:
        items: The objects or values of the page, in order.
        total: The number of objects that met the condition at this moment, on all pages.
        next: The cursor of the next page, or None on the last page.
    """

    items: list[V]
    total: int
    next: str | None


class Paged(Protocol[V_co]):
    """A collection, as far as its pages need it."""

    @property
    def name(self) -> str: ...
    @property
    def by_key(self) -> Mapping[str, V_co]: ...


async def page_of(
    collection: Paged[V], sort: Sort[V], where: Callable[[V], object] | None, limit: int, after: str | None
) -> Page[V]:
    """Implement `SharedInformer.page`, which documents the arguments and errors."""
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ConfigError(f"page: invalid limit={limit!r}: expected a whole number, 1 or more")
    if where is not None:
        check_callback(where, "where", "obj", f"page of {collection.name}", plain=True)
    descends, value_of = _sorting(sort, collection.name)
    start = None if after is None else _place(after)
    budget = YieldBudget(UserFunction(f"page of {collection.name}: where= or sort=", log, collection.name))
    total = 0
    best: _Best[V] = _Best(limit + 1, descends=descends)
    for key, obj in collection.by_key.items():
        if where is None or where(obj):
            total += 1
            place = (*_order(value_of(obj)), key)
            if start is None or (place < start if descends else place > start):
                best.add(place, obj)
        if budget.exhausted():
            budget.key = key
            await budget.pause()
    ordered = best.sorted()
    shown = ordered[:limit]
    return Page([obj for _, obj in shown], total, _cursor(shown[-1][0]) if len(ordered) > limit else None)


class _Best(Generic[V]):
    """Keeps the first objects of an order, in a buffer that is sorted and cut when it has twice as many."""

    def __init__(self, count: int, *, descends: bool) -> None:
        self._count = count
        self._descends = descends
        self._found: list[tuple[Place, V]] = []
        self._last: Place | None = None  # the last one that is kept, once there are enough

    def add(self, place: Place, obj: V) -> None:
        """Keep an object, unless enough others come before it."""
        last = self._last
        if last is not None and (place < last if self._descends else place > last):
            return
        self._found.append((place, obj))
        if len(self._found) >= 2 * self._count + _MORE:
            self._cut()

    def _cut(self) -> None:
        self._found.sort(key=itemgetter(0), reverse=self._descends)
        del self._found[self._count :]
        if len(self._found) == self._count:
            self._last = self._found[-1][0]

    def sorted(self) -> list[tuple[Place, V]]:
        """Return the first objects, in order."""
        self._cut()
        return self._found


def _sorting(sort: Sort[V], name: str) -> tuple[bool, Callable[[V], object]]:
    """Return whether the order descends, and a function that returns the value to sort by."""
    if not isinstance(sort, str):
        check_callback(sort, "sort", "obj", f"page of {name}", plain=True)
        return False, sort
    descends, path = sort.startswith("-"), sort.removeprefix("-")
    parse_path(path)

    def value_of(obj: V) -> object:
        if not isinstance(obj, KubeObject):
            raise ConfigError(f"page of {name}: the values are not objects with paths; pass a function as sort=")
        return obj.path(path)

    return descends, value_of


def _order(value: object) -> tuple[int, int | float | str]:
    """Return what a value is sorted by: missing ones first, then numbers, strings, and all others by their JSON."""
    if value is None or value != value:  # nan, which has no order
        return 0, 0
    if isinstance(value, int | float):
        return 1, int(value) if isinstance(value, bool) else value
    if isinstance(value, str):
        return 2, value
    return 3, msgspec.json.encode(value).decode()


def _cursor(place: Place) -> str:
    return base64.urlsafe_b64encode(json.dumps(place).encode()).decode().rstrip("=")  # msgspec writes inf as null


def _place(cursor: str) -> Place:
    try:
        decoded = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        place: Place = msgspec.convert(decoded, type=tuple[int, int | float | str, str])
    except (binascii.Error, ValueError, TypeError, RecursionError):
        place = (-1, 0, "")
    if place[0] not in (0, 1, 2, 3) or isinstance(place[1], str) != (place[0] > 1):
        raise ConfigError(f"page: invalid after={cursor!r}: expected the `next` of an earlier page")
    return place
