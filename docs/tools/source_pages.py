"""Links from a page to a file outside of docs/ lead to a page with that file's text.

So the same link works in the repository and on the site, which needs no other place to send its readers to.
And the comments with which the tests run a page's code (tests/docs/documentation.py) stay out of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

_LINK = re.compile(r"(?<=\]\()(\.\./[\w./-]+)(?=\))")
_FOR_TESTS = re.compile(r"^ *<!-- code: .*?-->\n", re.DOTALL | re.MULTILINE)
_LANGUAGE = {".py": "python", ".yaml": "yaml", ".json": "json", ".md": "markdown"}


def _root(config: MkDocsConfig) -> Path:
    return Path(config.docs_dir).parent


def _target(link: str, page: str) -> str | None:
    """The path, from the root of the project, that a link of a page leads to; None if it stays in docs/."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if path.startswith("docs/") else path


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each file outside of docs/ that is linked to."""
    wanted = set()
    for file in files.documentation_pages():
        for link in _LINK.findall(file.content_string):
            if path := _target(link, file.src_uri):
                wanted.add(path)
    for path in sorted(wanted):
        source = _root(config) / path
        if not source.is_file():
            continue  # the link stays as it is, and a strict build complains of it
        language = _LANGUAGE.get(source.suffix, "text")
        text = f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n``````{language}\n{source.read_text()}\n``````\n"
        page = File.generated(config, f"source/{path}.md", content=text, inclusion=InclusionLevel.NOT_IN_NAV)
        files.append(page)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns the links to these files into links to these pages."""
    here = page.file.src_uri

    def turned(found: re.Match[str]) -> str:
        path = _target(found[1], here)
        if path is None or files.get_file_from_path(f"source/{path}.md") is None:
            return found[1]
        return posixpath.relpath(f"source/{path}.md", posixpath.dirname(here))

    return _LINK.sub(turned, _FOR_TESTS.sub("", markdown))
