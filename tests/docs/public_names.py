"""The public names and their members, which a release promises; `python -m tests.docs.public_names` writes the list.

The list is `docs/reference/public_names.txt`: a name in each line, with the package or module that it is imported from,
and of a class the members that completion offers. So a name, or a member of a public class, that is added or removed is
seen in a review. The pages of the reference are made from it.

Internals: the attributes that an object only hints at, which are no members, and the list of places.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from importlib import import_module
from pathlib import Path

from kinformer import KubeObject
from kinformer._lazy import PLACES
from kinformer.objects.attribute_hints import HINTS

ROOT = Path(__file__).parents[2]
LIST = ROOT / "docs" / "reference" / "public_names.txt"

DOORS = tuple(PLACES)  # where names are imported from, in the order of the list


def names_of(door: str) -> list[str]:
    """Return the public names of a package or module."""
    names: list[str] = import_module(door).__all__
    return sorted(names)


def members_of(cls: type) -> set[str]:
    """Return the promised members: not those of classes outside of kinformer, nor those marked `:meta private:`."""
    inherited = {name for base in cls.__mro__ if not base.__module__.startswith("kinformer") for name in dir(base)}
    found = {name for name in dir(cls) if not name.startswith("_")}
    for base in cls.__mro__:
        if base.__module__.startswith("kinformer"):
            found |= {name for name in assigned_in(base) if not name.startswith("_")}
    private = {name for name in found if ":meta private:" in (inspect.getdoc(getattr(cls, name, None)) or "")}
    return found - inherited - private - (set(HINTS) if issubclass(cls, KubeObject) else set())


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
    return [_line(door, name) for door in DOORS for name in names_of(door)]


def _line(door: str, name: str) -> str:
    found = getattr(import_module(door), name)
    if door == "kinformer" or not inspect.isclass(found):
        return f"{door}.{name}"  # the members of a name of the root are with its package
    if found.__name__ != name:
        return f"{door}.{name}: as {found.__name__}"
    return f"{door}.{name}: {' '.join(sorted(members_of(found)))}".rstrip(": ")


if __name__ == "__main__":
    LIST.write_text("\n".join(lines()) + "\n", encoding="utf-8")
