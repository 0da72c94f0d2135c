"""The values of an object that was read: dicts and lists that refuse to be changed.

A change of them would be kept by nobody, and an object that is sent afterwards would be the old one. They are a `dict`
and a `list` for every reader and encoder. What is within them is wrapped when it is read, since most of it never is: a
member of a dict by itself, the items of a list with the list, which is then read and iterated at the speed of a list.
"""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from typing import Any, NoReturn, SupportsIndex

__all__ = ["FrozenDict", "FrozenList", "frozen", "plain"]

_item, _get, _set = dict.__getitem__, dict.get, dict.__setitem__
_keys, _pairs, _values = dict.__iter__, dict.items, dict.values


def _refuse(self: object, *_: object, **__: object) -> NoReturn:
    kind = "dict" if isinstance(self, dict) else "list"
    raise TypeError(
        f"this {kind} belongs to an object that was read, and cannot be changed; change a copy, such as obj.to_dict(), "
        "and send that"
    )


class FrozenDict(dict[str, object]):
    """A dict of an object that was read. Copies are plain: `dict(it)` and `it | {}` flat ones, `deepcopy` deep ones."""

    __slots__ = ()

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __getitem__(self, key: str, /) -> object:
        value = _item(self, key)
        if type(value) is str:  # most values are strings, and are read without another call
            return value
        if (make := _FROZEN.get(type(value))) is not None:
            value = make(value)
            _set(self, key, value)  # the next read gets the same one
        return value

    def get(self, key: str, default: object = None, /) -> object:
        """Return `self[key]`, or `default` if there is no such key."""
        value = _get(self, key, default)
        return value if value is default or type(value) not in _FROZEN else self[key]

    def __iter__(self) -> Iterator[str]:
        # It must be defined here: `dict(it)` and `{**it}` read a dict that inherits it without calling `__getitem__`.
        return _keys(self)

    def _wrapped(self) -> FrozenDict:
        for key, value in _pairs(self):
            if (make := _FROZEN.get(type(value))) is not None:
                _set(self, key, make(value))
        return self

    def items(self) -> ItemsView[str, object]:  # type: ignore[override]
        """Return the keys and values."""
        return _pairs(self._wrapped())

    def values(self) -> ValuesView[object]:  # type: ignore[override]
        """Return the values."""
        return _values(self._wrapped())

    def copy(self) -> dict[str, object]:
        """Return a plain dict with the same values."""
        return dict(self)

    __copy__ = copy

    def __deepcopy__(self, memo: object) -> object:
        return plain(self)

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[object, ...]:
        return dict, (plain(self),)

    def __or__(self, other: Mapping[str, object], /) -> dict[str, object]:  # type: ignore[override]
        return dict(self) | dict(other) if isinstance(other, dict) else NotImplemented

    def __ror__(self, other: Mapping[str, object], /) -> dict[str, object]:  # type: ignore[override]
        return dict(other) | dict(self) if isinstance(other, dict) else NotImplemented


class FrozenList(list[object]):
    """A list of an object that was read. Copies, slices and sums are plain lists."""

    __slots__ = ()

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __copy__(self) -> list[object]:
        return self.copy()

    def __deepcopy__(self, memo: object) -> object:
        return plain(self)

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> tuple[object, ...]:
        return list, (plain(self),)


def _frozen_list(items: list[object]) -> FrozenList:
    kinds = set(map(type, items))
    if kinds.isdisjoint(_FROZEN):
        return FrozenList(items)
    if len(kinds) == 1:  # nearly always all items are of one type
        return FrozenList(map(_FROZEN[kinds.pop()], items))
    return FrozenList([frozen(element) for element in items])


_FROZEN: dict[type, Callable[[Any], object]] = {dict: FrozenDict, list: _frozen_list}


def frozen(value: object) -> object:
    """Return a decoded value so that it refuses to be changed. The value itself is not used any more."""
    make = _FROZEN.get(type(value))
    return value if make is None else make(value)


def plain(value: object) -> object:
    """Return a copy that may be changed, at each level."""
    if isinstance(value, dict):
        return {key: plain(member) for key, member in _pairs(value)}
    return [plain(member) for member in value] if isinstance(value, list) else value
