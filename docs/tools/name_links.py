"""Links from the public names in tables to their entries in the reference, so that each has its package.

A table says `owned_by(obj)`. On the site, that is a link whose title is `from kinformer.objects import owned_by`.
"""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING, Any

from docs.tools.reference_pages import names_by_door, path_of

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

# A name alone, or one that is called or read from, in code. Names of one small word mean other things too.
_NAME = re.compile(r"(?<!\[)`(?P<name>[A-Z]\w+|[a-z]\w*_\w+)(?:[(.\[][^`|]*)?`(?!\])")
_ROW = re.compile(r"^\|.*\|$", re.MULTILINE)
_FENCED = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)
# Only pages about them mean these by `Slow` or `Stale`.
_OF_EXPLORATION = "kinformer.testing.explore"


def places(page: str) -> dict[str, str]:
    """Return the package of each public name that a table of a page may mean."""
    doors = names_by_door()
    del doors["kinformer"]  # these names have their entries on the pages of their packages
    doors = {door: names for door, names in doors.items() if door != _OF_EXPLORATION or page == "explore.md"}
    return {name: door for door in reversed(doors) for name in doors[door]}


def with_links(text: str, page: str) -> str:
    """Return the Markdown of a page with links from the names in its tables."""
    known = places(page)

    def linked(match: re.Match[str]) -> str:
        door = known.get(name := match["name"])
        if door is None:
            return match[0]
        path = posixpath.relpath(path_of(door), posixpath.dirname(page) or ".")
        return f'[{match[0]}]({path}#{door}.{name} "from {door} import {name}")'

    parts = _FENCED.split(text)
    parts[::2] = [_ROW.sub(lambda row: _NAME.sub(linked, row[0]), part) for part in parts[::2]]
    return "".join(parts)


def on_page_markdown(markdown: str, page: Page, **_kwargs: Any) -> str:
    """Link the names in the tables of the pages of docs/."""
    path = page.file.src_uri
    return markdown if path.startswith(("source/", "reference/")) else with_links(markdown, path)
