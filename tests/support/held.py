"""What a cache really holds of an object, which reads as if it were whole and alone."""

from __future__ import annotations

import gc
from typing import Any

from kinformer import KubeObject


def label_set(obj: KubeObject) -> dict[str, str]:
    """Return the dict of its labels, which objects with equal labels share."""
    (found,) = gc.get_referents(obj.labels)
    assert isinstance(found, dict)
    return found


def held_bytes(obj: KubeObject) -> bytes:
    """Return the bytes that are kept, which of a compact cache are not those of `raw`."""
    return obj._data


def read_values(obj: KubeObject) -> Any:
    """Return the values of paths that were read while the object was decoded, or None."""
    return obj._path_values
