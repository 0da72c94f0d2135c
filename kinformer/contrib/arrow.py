"""Tables of Apache Arrow from caches, for questions that SQL answers better: ``pip install 'kinformer[arrow]'``.

::

    table = await to_arrow(pods, ["metadata.namespace", "spec.nodeName", "status.phase"])
    duckdb.from_arrow(table).query("pods", "SELECT nodeName, count(*) FROM pods GROUP BY nodeName").show()

A column has the name of its path's last part. DuckDB, Polars and pandas read a table without copying it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from kinformer import Collection, ConfigError, KubeObject
from kinformer._lazy import needs_extra

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["to_arrow"]

_SLICE = 64  # objects that are read before other tasks run, which takes about a millisecond


async def to_arrow(collection: Collection[Any], paths: Iterable[str] | Mapping[str, str]) -> pa.Table:
    """Return a table with a row for each object of a collection, and a column for each path.

    Objects are read in slices of 64, so that the event loop is not held. A column has one type: booleans, integers,
    floats or strings. Labels, lists and values of several types become JSON strings. A missing value is null.

    Args:
        collection: An informer, or another collection of objects.
        paths: JSON paths, or a mapping from the name of a column to its path.

    Raises:
        ModuleNotFoundError: pyarrow is not installed. The message names the extra.
        ConfigError: A path is invalid, there is none, two columns have one name, or the values are not objects.
    """
    with needs_extra("arrow", "pyarrow"):
        import pyarrow as pa
    columns = _columns(paths)
    cells: dict[str, list[Any]] = {name: [] for name in columns}
    for number, obj in enumerate(list(collection.by_key.values())):
        if not isinstance(obj, KubeObject):
            raise ConfigError(f"to_arrow: {collection.name} has values without paths, such as a {type(obj).__name__}")
        for name, path in columns.items():
            cells[name].append(obj.path(path))
        if number % _SLICE == _SLICE - 1:
            await asyncio.sleep(0)
    made = {}
    for name, values in cells.items():
        made[name] = _array(pa, values)
        await asyncio.sleep(0)
    return pa.table(made)


def _columns(paths: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    if isinstance(paths, str):
        raise ConfigError(f"to_arrow: invalid paths={paths!r}: expected a list of paths, or a dict")
    if isinstance(paths, Mapping):
        columns = dict(paths)
    else:
        columns = {}
        for path in paths:
            name = _last_part(path)
            if name in columns:
                raise ConfigError(
                    f"to_arrow: {columns[name]!r} and {path!r} would both be column {name!r}; pass a dict"
                )
            columns[name] = path
    if not columns:
        raise ConfigError("to_arrow: there is no path")
    return columns


def _last_part(path: str) -> str:
    """Return the last name of a path, such as `app` of `metadata.labels['app']`."""
    return path.replace("[*]", "").rstrip("'\"]").replace("['", ".").replace('["', ".").rpartition(".")[2] or path


def _array(pa: Any, values: list[Any]) -> pa.Array:
    kinds = {type(value) for value in values} - {type(None)}
    if kinds == {int, float}:
        kinds = {float}
    types = ((bool, pa.bool_()), (int, pa.int64()), (float, pa.float64()), (str, pa.string()))
    for kind, arrow_type in types:
        if kinds <= {kind}:
            try:
                return pa.array(values, arrow_type)
            except (OverflowError, pa.ArrowInvalid):  # an integer that has more than 64 bits
                break
    return pa.array([None if value is None else _text(value) for value in values], pa.string())


def _text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
