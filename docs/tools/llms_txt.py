"""Writes llms.txt, an index of the pages for language models, and the text of each page beside its HTML.

`llms.txt` names every page of the nav with its first sentence (https://llmstxt.org/). Its links lead to `index.md`
beside each page's `index.html`: the Markdown of the page, with docstrings in the place of mkdocstrings' directives.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

_DIRECTIVE = re.compile(r"^::: (?P<name>[\w.]+)\n(?:^(?: {4}.*)?\n)*", re.MULTILINE)
_SNIPPET = re.compile(r"^--8<-- \"(?P<path>[\w./-]+)\"$", re.MULTILINE)
_HTML = re.compile(r"<[^>]+>")
_nav: list[Navigation] = []


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Keep the nav of this build."""
    _nav[:] = [nav]
    return nav


def on_post_build(config: MkDocsConfig) -> None:
    """Write llms.txt and the text of each page into the site."""
    site = Path(config.site_dir)
    (nav,) = _nav
    lines = [f"# {config.site_name.split()[0]}", "", f"> {config.site_description}"]
    lines += ["", "## Pages", ""]
    for title, page in _pages(nav.items):
        if title.startswith("## "):
            lines += ["", title, ""]
        elif page is not None:
            text = _text_of(page, Path(config.docs_dir).parent)
            path = f"{page.url}index.md"
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text, encoding="utf-8")
            lines.append(f"- [{title}]({path}): {first_sentence(text)}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def first_sentence(text: str) -> str:
    """Return the first sentence of a page's first paragraph, without markup."""
    for paragraph in re.split(r"\n{2,}", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        plain = " ".join(_HTML.sub("", paragraph).split())
        if plain and not plain.startswith(("#", "|", "!", "-", "[", ":::")):
            plain = re.sub(r"!?\[([^]]*)\]\([^)]*\)(?:\{[^}]*\})?|[*`]", r"\1", plain)
            return re.split(r"(?<=[.:?]) ", plain)[0].rstrip(":")
    return ""


def _pages(items: list[object]) -> Iterator[tuple[str, Page | None]]:
    """The titles and pages of a nav, in order; a section's title comes alone, as a heading."""
    for item in items:
        if isinstance(item, Section):
            yield f"## {item.title}", None
            yield from _pages(list(item.children))
        elif isinstance(item, Page):
            yield str(item.title), item


def _text_of(page: Page, root: Path) -> str:
    text = _SNIPPET.sub(lambda found: (root / found["path"]).read_text(encoding="utf-8"), page.markdown or "")
    return _DIRECTIVE.sub(_docstring, text + "\n")


def _docstring(found: re.Match[str]) -> str:
    """The signature and the docstring of a name, and those of its public members."""
    module, _, name = found["name"].rpartition(".")
    documented = getattr(import_module(module), name)
    parts = [f"## {name}{_signature(documented)}", inspect.getdoc(documented) or ""]
    if inspect.isclass(documented):
        for member, value in vars(documented).items():
            if not member.startswith("_") and (text := inspect.getdoc(value)) and not isinstance(value, type):
                parts += [f"### {name}.{member}{_signature(getattr(documented, member))}", text]
    return "\n\n".join(part for part in parts if part) + "\n\n"


def _signature(documented: object) -> str:
    try:
        return str(inspect.signature(documented)) if callable(documented) else ""
    except (TypeError, ValueError):  # a built-in one has none
        return ""
