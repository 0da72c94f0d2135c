"""The members of the public classes, as completion offers them; `python -m tests.docs.public_members` writes the list.

The list is in `public_members.txt`: a class and its members in each line. A member that is added to a public class by
accident, such as a method for another module of the package, is so seen in a review.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from importlib import import_module
from pathlib import Path

from kinformer import KubeObject
from kinformer.objects.attribute_hints import HINTS

LIST = Path(__file__).with_suffix(".txt")

DOORS = (
    "kinformer",
    "kinformer.blocking",
    "kinformer.conditions",
    "kinformer.testing",
    "kinformer.testing.faults",
    "kinformer.contrib.fastapi",
    "kinformer.contrib.prometheus",
    "kinformer.contrib.opentelemetry",
)


def members_of(cls: type) -> set[str]:
    """Return the members that completion offers, except those of classes outside of kinformer."""
    inherited = {name for base in cls.__mro__ if not base.__module__.startswith("kinformer") for name in dir(base)}
    found = {name for name in dir(cls) if not name.startswith("_")}
    for base in cls.__mro__:
        if base.__module__.startswith("kinformer"):
            found |= {name for name in assigned_in(base) if not name.startswith("_")}
    return found - inherited - (set(HINTS) if issubclass(cls, KubeObject) else set())


def assigned_in(cls: type) -> set[str]:
    """Return the attributes that the methods of a class assign to `self`."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    except (OSError, TypeError):
        return set()
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }


def lines() -> list[str]:
    """Return the lines that the list should have."""
    return [
        f"{door}.{name}: {' '.join(sorted(members_of(found)))}".rstrip()
        for door in DOORS
        for name in import_module(door).__all__
        if inspect.isclass(found := getattr(import_module(door), name))
    ]


if __name__ == "__main__":
    LIST.write_text("\n".join(lines()) + "\n", encoding="utf-8")
