"""The pods by node: a square for each pod, and a card for each node.

A page draws a bounded number of squares. Where a node has more, its card has those that fail first, and the number of
the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kinformer.cli.dashboard.view.order import PageFilter, rank_of
from kinformer.cli.dashboard.view.rows import Row, Rows

__all__ = ["node_map"]

_SQUARES = 4000  # on all nodes
_FEWEST = 20  # on each node

_encode = msgspec.json.Encoder().encode

Columns = Callable[[str], list[str]]


async def node_map(
    pods: Rows | None,
    nodes: Rows | None,
    columns: Columns,
    selected: PageFilter,
    breathe: Callable[[], Awaitable[None]],
) -> dict[str, bytes]:
    """Return the squares and cards as JSON, by `pod <key>` and `node <name>`.

    Args:
        pods, nodes: The rows, or None if the resource is not followed.
        columns: Returns the columns of a resource.
        selected: Squares of other pods are dimmed.
        breathe: Awaited between two pods.
    """
    by_node: defaultdict[str, list[tuple[bool, int, str, Row]]] = defaultdict(list)
    status = node = -1
    if pods is not None:
        names = columns("v1/pods")
        status, node = _place(names, "STATUS"), _place(names, "NODE")
        for obj in pods.objects():
            row = pods.of(obj)
            dim = not selected.shows(obj, pods)
            where = row.cell(node)
            by_node["" if where == "<none>" else where].append((dim, rank_of(row), row.key, row))
            await breathe()
    cards = await _cards(nodes, columns, by_node, breathe)
    most = max(_FEWEST, _SQUARES // max(1, len(by_node)))
    encoded = {}
    for name, squares in by_node.items():
        if len(squares) > most:
            squares = sorted(squares)[:most]
            await breathe()
        for dim, _, key, row in squares:
            encoded[f"pod {key}"] = _encode([name, row.level, row.cell(status), row.reason, dim])
            await breathe()
    return encoded | {f"node {name}": _encode(card) for name, card in cards.items()}


async def _cards(
    nodes: Rows | None, columns: Columns, by_node: dict[str, list[Any]], breathe: Callable[[], Awaitable[None]]
) -> dict[str, list[Any]]:
    """Return number of pods, status, level and reason of each node. Level and reason are None for one that is gone."""
    cards: dict[str, list[Any]] = {name: [len(squares), "", None, None] for name, squares in by_node.items()}
    if nodes is not None:
        status = _place(columns("v1/nodes"), "STATUS")
        for obj in nodes.objects():
            row = nodes.of(obj)
            cards[obj.name] = [len(by_node.get(obj.name, ())), row.cell(status), row.level, row.reason]
            await breathe()
    return cards


def _place(names: list[str], name: str) -> int:
    return names.index(name) if name in names else -1
