"""The values of a function that returns several for each object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kinformer._runtime.logs import LogOnce, get_logger
from kinformer.derived.entries import value_of
from kinformer.derived.values import Values

__all__ = ["ManyValues"]

log = get_logger("kinformer.derived")


class ManyValues:
    """Stores values under keys of their own, and records the object that each of them came from.

    If several objects give a value for one key, the object with the lowest key wins, regardless of which came first,
    because the result must not depend on the order of events.
    """

    def __init__(self, name: str, values: Values) -> None:
        self._name = name
        self._values = values
        self._of: dict[str, tuple[str, ...]] = {}  # the keys of the values of each object
        self._owner: dict[str, str] = {}  # of each key, the object whose value it has
        self._contested: dict[str, dict[str, Any]] = {}  # all values for a key to which several objects give one
        self._logged = LogOnce()

    def set(self, origin: str, returned: object) -> None:
        """Replace the values of one object with the function's result for it.

        Raises:
            TypeError, ValueError: The result is not None, a mapping, or pairs of a non-empty string and a value. The
                object then has no values.
        """
        try:
            pairs = _pairs_of(returned)
        except Exception:
            self.set(origin, None)
            raise
        before = self._of.get(origin, ())
        for key in before:
            if key not in pairs:
                self._remove(key, origin)
        for key, value in pairs.items():
            self._put(key, origin, value)
        if pairs:
            self._of[origin] = tuple(pairs)
        else:
            self._of.pop(origin, None)

    def _put(self, key: str, origin: str, value: Any) -> None:
        owner = self._owner.setdefault(key, origin)
        claims = self._contested.get(key)
        if claims is None and owner != origin:
            claims = self._contested[key] = {owner: value_of(self._values.get(key))}
            if self._logged.is_news(key):
                line = "derived collection %s: %s and %s both give a value for %s; the object with the lower key wins"
                log.warning(line, self._name, owner, origin, key, resource=self._name, key=key, reason="key_contested")
        if claims is not None:
            claims[origin] = value
            self._owner[key] = owner = min(claims)
            value = claims[owner]
        self._values.set(key, value)

    def _remove(self, key: str, origin: str) -> None:
        claims = self._contested.get(key)
        if claims is None:
            del self._owner[key]
            self._values.remove(key)
            return
        del claims[origin]
        self._owner[key] = owner = min(claims)
        self._values.set(key, claims[owner])
        if len(claims) == 1:
            del self._contested[key]


def _pairs_of(values: object) -> Mapping[str, Any]:
    """Return the result of a function with `many=True` as a mapping.

    Raises:
        TypeError, ValueError: The result is not None, a mapping, or pairs of a non-empty string and a value.
    """
    if values is None:
        return {}
    if isinstance(values, Mapping) or (isinstance(values, Iterable) and not isinstance(values, (str, bytes))):
        pairs = dict(values)
    else:
        raise TypeError(f"many=True: expected a mapping of keys to values, or pairs, got {values!r}")
    for key in pairs:
        if not isinstance(key, str) or not key:
            raise TypeError(f"many=True: expected a non-empty string as the key of a value, got {key!r}")
    return pairs
