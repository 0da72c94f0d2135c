"""The order of `--sort-by`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from kinformer import DecodeError, KubeObject
from kinformer.cli.output.json_path import JSONPath

__all__ = ["Order"]

# apimachinery, pkg/api/resource/quantity.go: what the suffixes of quantities multiply by.
_SUFFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0} | {
    suffix + binary: (1024.0 if binary else 1000.0) ** (power + 1)
    for power, suffix in enumerate("kMGTPE")
    for binary in ("", "i")
}
_SUFFIXES["Ki"] = 1024.0
_QUANTITY = re.compile(r"([+-]?\d+(?:\.\d*)?)(n|u|m|k|[KMGTPE]i|[MGTPE])?")
_NUMBERS = re.compile(r"(\d+)")

Key = tuple[Any, ...]


class Order:
    """Orders objects by the value at a path: those without one first, numbers and quantities by their size.

    Args:
        path: As kubectl takes it: `.metadata.creationTimestamp`, `{.status.phase}`.

    Raises:
        ValueError: The path does not parse.
    """

    def __init__(self, path: str) -> None:
        self._path = JSONPath(path)

    def key(self, obj: KubeObject) -> Key:
        """Return the place of an object among others, which is that of its namespace and name among equals."""
        try:
            value = self._path.first(obj.to_dict())
        except DecodeError:
            value = None
        return (*_key(value), obj.namespace, obj.name)

    def sorted(self, objects: Sequence[KubeObject]) -> list[KubeObject]:
        """Return the objects in this order."""
        return sorted(objects, key=self.key)


def _key(value: Any) -> tuple[int, float, tuple[Any, ...]]:
    """Return a key that can be compared with those of all other values: nothing, then numbers, then texts."""
    if value is None:
        return 0, 0.0, ()
    if isinstance(value, int | float):
        return 1, float(value), ()
    text = str(value)
    if found := _QUANTITY.fullmatch(text):
        return 1, float(found[1]) * _SUFFIXES[found[2] or ""], ()
    # web-9 before web-10: runs of digits alternate with the text between them, and are compared as numbers.
    parts = _NUMBERS.split(text)
    return 2, 0.0, tuple(int(part) if number % 2 else part for number, part in enumerate(parts))
