"""Ranks the pages of the site in its search: a user's pages first, then the reference, then the project's own.

A word of a heading counts a thousand times as much as one of the text. Without these ranks, a method called `delete` in
the reference would come before the page that explains how to delete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.pages import Page

_REFERENCE = 0.002
_PROJECT = 0.001
_PROJECT_PAGES = ("architecture", "changelog", "internals/", "promises", "results")


def boost(path: str) -> float:
    """Return the factor for the page at a path of the site."""
    if path.startswith("reference/") and path != "reference/":
        return _REFERENCE
    return _PROJECT if path.startswith(_PROJECT_PAGES) else 1.0


def on_page_markdown(markdown: str, page: Page, **_kwargs: Any) -> str:
    """Give the page its rank, and leave its text as it is. A page that is not to be searched stays so."""
    page.meta["search"] = {"boost": boost(page.url), **page.meta.get("search", {})}
    return markdown
