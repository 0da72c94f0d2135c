"""Makes the pages of the reference: one for each package or module that public names are imported from.

They are made from `reference/public_names.txt`, which `python -m tests.docs.public_names` writes. A page begins with
the docstring of the package, without what only its contributors need.
"""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files

_LIST = Path(__file__).parents[1] / "reference" / "public_names.txt"
_INSIDE = re.compile(r"^(May import|Reading order|Owns|Names are imported|Each is written)\b")


def names_by_door() -> dict[str, list[str]]:
    """Return the public names by the package or module that they are imported from."""
    doors: dict[str, list[str]] = {}
    for line in _LIST.read_text(encoding="utf-8").splitlines():
        door, _, name = line.partition(":")[0].rpartition(".")
        doors.setdefault(door, []).append(name)
    return doors


def _members() -> dict[str, list[str]]:
    """Return the promised members of each class, by its full name."""
    lines = _LIST.read_text(encoding="utf-8").splitlines()
    return {name: members.split() for name, _, members in (line.partition(":") for line in lines)}


def path_of(door: str) -> str:
    """Return the path of the page of a package or module."""
    return f"reference/{door.removeprefix('kinformer.')}.md"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each package or module but the root, whose names are on those pages."""
    from mkdocs.structure.files import File  # tests read this module in environments without mkdocs

    doors = names_by_door()
    del doors["kinformer"]
    for door, names in doors.items():
        files.append(File.generated(config, path_of(door), content=_page(door, names, doors)))
    return files


def _page(door: str, names: list[str], doors: dict[str, list[str]]) -> str:
    shown = [name for name in names if f"{door}.{name}" not in doors]  # a module with a page of its own
    entries = (f"::: {door}.{name}{_inherited(door, name)}" for name in shown)
    return "\n\n".join([f"# {door}", _introduction(door), *entries]) + "\n"


def _inherited(door: str, name: str) -> str:
    """Return the options that show the promised members of a class that base classes without entries define."""
    cls = getattr(import_module(door), name)
    shown = {shown for names in names_by_door().values() for shown in names}
    bases = cls.__mro__[1:] if inspect.isclass(cls) else ()
    hidden = [base for base in bases if base.__module__.startswith("kinformer") and base.__name__ not in shown]
    promised = _members()[f"{door}.{name}"]
    defined = {member for base in hidden for member in (*vars(base), *inspect.get_annotations(base))}
    members = [member for member in promised if member in defined and member not in vars(cls)]
    if not members:
        return ""
    return f"\n    options:\n      show_bases: false\n      inherited_members: [{', '.join(members)}]"


def _introduction(door: str) -> str:
    text = inspect.getdoc(import_module(door)) or ""
    paragraphs = re.split(r"\n{2,}", text)
    kept = [paragraph for paragraph in paragraphs if not _INSIDE.match(paragraph)]
    return re.sub(r"^::\n((?:\n|    .*\n?)+)", _fenced, "\n\n".join(kept), flags=re.MULTILINE)


def _fenced(block: re.Match[str]) -> str:
    return f"```python\n{inspect.cleandoc(block[1])}\n```\n"
