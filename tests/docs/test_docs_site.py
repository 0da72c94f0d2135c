"""The site of the documentation: complete, true to the code, and usable without a network."""

from __future__ import annotations

import ast
import asyncio
import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.tools import reference_pages
from tests.docs.documentation import DOCS, ROOT
from tests.docs.public_names import DOORS
from tests.support.browser import browsing, missing, shows


def nav_of(config: Any) -> Iterator[str]:
    """The pages of a nav, in order."""
    if isinstance(config, str):
        yield config
    else:
        for entry in config.values() if isinstance(config, dict) else config:
            yield from nav_of(entry)


def test_every_page_stands_in_the_nav_once() -> None:
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    counted = Counter(nav_of(config["nav"]))
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    there |= {reference_pages.path_of(door) for door in DOORS[1:]}
    assert there - counted.keys() == set(), "add them to the nav of mkdocs.yml"
    assert counted.keys() - there == set()
    assert max(counted.values()) == 1


def test_each_contrib_has_public_names() -> None:
    """So that a new one is not forgotten: whatever is for an extra."""
    helpers = {"_numbered_log", "event_log", "event_source", "shutdown"}  # `fastapi` hands out their names
    modules = {path.stem for path in (ROOT / "kinformer" / "contrib").glob("*.py")} - {"__init__"} - helpers
    assert {f"kinformer.contrib.{module}" for module in modules} <= set(DOORS)


def test_the_reference_names_every_package_with_public_names() -> None:
    text = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(kinformer[\w.]*)\]\(([\w.]+)\) \|", text, re.MULTILINE)
    assert sorted(rows) == sorted(
        (door, reference_pages.path_of(door).removeprefix("reference/")) for door in DOORS[1:]
    )
    in_the_nav = nav_of(yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"])
    assert [f"reference/{page}" for _, page in rows] == [
        page for page in in_the_nav if page.startswith("reference/") and page != "reference/index.md"
    ]


def test_the_thirty_names_are_thirty_and_are_imported_from_where_the_page_says() -> None:
    text = (DOCS / "names.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \w* \| `(\w+)` \| `(kinformer[\w.]*)` \|", text.replace("| |", "|  |"), re.MULTILINE)
    assert len(rows) == len(dict(rows)) == 30
    for name, door in rows:
        assert name in import_module(door).__all__, f"{door}.{name}"


def test_every_public_name_has_a_docstring() -> None:
    def constant(module: str, name: str) -> bool:
        return not callable(getattr(import_module(module), name))

    bare = [
        f"{module}.{name}"
        for module in DOORS
        for name in import_module(module).__all__
        if not constant(module, name) and not (getattr(import_module(module), name).__doc__ or "").strip()
    ]
    assert bare == []


@cache
def names_of_tests(path: Path) -> set[str]:
    """The names of the tests in a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name for node in ast.walk(tree) if isinstance(node, functions) and node.name.startswith("test_")}


def test_every_promise_has_tests_that_are_there() -> None:
    promises = re.split(r"^### ", (DOCS / "promises.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    page = (ROOT / "tests" / "docs" / "promises.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^- (.+?):\n((?:  .+\n)+)", page, re.MULTILINE))
    assert len(promises) >= 30
    assert [promise.splitlines()[0] for promise in promises] == list(rows)
    assert [promise.splitlines()[0] for promise in promises if len(promise.strip().splitlines()) < 3] == []
    for title, tests in rows.items():
        named = re.findall(r"`tests/([\w/.]+)::(\w+)`", tests)
        assert named, f"{title}: no test holds it"
        for file, name in named:
            assert name in names_of_tests(ROOT / "tests" / file), f"{title}: {file} has no {name}"


def test_every_link_to_a_heading_of_the_readme_and_to_a_file_leads_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md"):
        for link in re.findall(r"(?:\]\(|src=\"|srcset=\")([^)\"#]+)", page.read_text(encoding="utf-8")):
            assert link.startswith("https://") or (ROOT / link).exists(), f"{page.name}: {link}"


def test_the_pictures_are_small_enough_to_be_looked_at() -> None:
    pictures = list((DOCS / "images").iterdir())
    assert len(pictures) >= 4
    assert all(picture.stat().st_size < 300_000 for picture in pictures)
    for picture in pictures:
        if picture.suffix == ".svg":
            remote = re.findall(
                r"(?:href|src)=\"https?:|url\([\"']?https?:|@import", picture.read_text(encoding="utf-8")
            )
            assert not remote, f"{picture.name} needs a network"


needs_mkdocs = pytest.mark.skipif(
    find_spec("mkdocs") is None, reason="mkdocs is not installed (the dependency group `docs`)"
)


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site of the mkdocs.yml in a folder. Never with `--quiet`, which counts no warnings."""
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=folder,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.tools
@pytest.mark.process
@needs_mkdocs
def test_a_link_to_a_file_of_the_project_leads_to_its_text_and_one_to_nothing_fails(tmp_path: Path) -> None:
    hook = json.dumps(str(DOCS / "tools" / "source_pages.py"))
    (tmp_path / "mkdocs.yml").write_text(f"site_name: a\nhooks: [{hook}]\ntheme: mkdocs\n", encoding="utf-8")
    page = tmp_path / "docs" / "deep" / "index.md"
    page.parent.mkdir(parents=True)
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "a.py").write_text("SHOWN = 1\n", encoding="utf-8")
    page.write_text("# A\n\n<!-- code: run\nfor_the_tests\n-->\n[a](../../code/a.py)\n", encoding="utf-8")
    assert build(tmp_path, tmp_path / "site").returncode == 0
    built = (tmp_path / "site" / "deep" / "index.html").read_text(encoding="utf-8")
    assert 'href="../source/code/a.py/"' in built
    assert "for_the_tests" not in built
    assert "SHOWN = 1" in (tmp_path / "site" / "source" / "code" / "a.py" / "index.html").read_text(encoding="utf-8")
    page.write_text("# A\n\n[a](../../code/b.py)\n", encoding="utf-8")
    failed = build(tmp_path, tmp_path / "site")
    assert failed.returncode != 0
    assert "code/b.py" in failed.stderr


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of the project, built strictly."""
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT, folder)
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.timeout(360)  # the fixture builds the site
@pytest.mark.tools
@pytest.mark.process
@needs_mkdocs
def test_the_site_builds_strictly_and_needs_no_network_to_be_read(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > len(list(DOCS.rglob("*.md")))
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.findall(r"<(?:script|img|iframe|source)[^>]+src(?:set)?=\"?(?:https?:)?//", text), page
        for link in re.findall(r"<link [^>]*>", text):
            assert "//" not in link or 'rel="canonical"' in link, f"{page}: {link}"
        assert "<!-- code:" not in text, page
    for style in site.rglob("*.css"):
        assert not re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", style.read_text(encoding="utf-8")), style
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


@pytest.mark.timeout(360)  # the fixture builds the site
@pytest.mark.tools
@pytest.mark.process
@needs_mkdocs
def test_llms_txt_names_each_page_with_a_sentence_and_leads_to_its_text(site: Path) -> None:
    lines = (site / "llms.txt").read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# kinformer"
    assert lines[2].startswith("> Kubernetes informers")
    entries = [re.fullmatch(r"- \[([^]]+)\]\(([\w./-]+)\): (.{10,})", line) for line in lines if line.startswith("- ")]
    assert all(entries), lines
    assert len(entries) == len(list(DOCS.rglob("*.md"))) + len(DOORS) - 1
    texts = {entry[2]: (site / entry[2]).read_text(encoding="utf-8") for entry in entries if entry}
    assert "async with" in texts["start/index.md"]
    assert "<!-- code:" not in texts["start/index.md"]
    assert "wait_for_cache_sync" in texts["reference/informer/index.md"]
    assert ":::" not in texts["reference/informer/index.md"]
    assert "## Habits" in texts["internals/contributing/index.md"]


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


@pytest.mark.timeout(360)  # the fixture builds the site
@pytest.mark.tools
@pytest.mark.process
@needs_mkdocs
@pytest.mark.skipif(bool(missing()), reason=missing())
async def test_the_search_finds_parts_of_names_and_lists_the_pages_of_users_first(site: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site))) as server:
        serving = asyncio.ensure_future(asyncio.to_thread(server.serve_forever, 0.05))
        try:
            async with browsing() as browser:
                for word in ("readyz", "kubernetes.io", "nodeName", "wait_for_cache_sync"):
                    page = await browser.new_page()
                    await page.goto(f"http://127.0.0.1:{server.server_port}/?q={word}")
                    await shows(page, f"{FOUND}.some(text => text.includes({word!r}))", seconds=15)
                    await page.close()
                for word in ("timeout", "rbac", "deploy", "403", "workers"):
                    page = await browser.new_page()
                    await page.goto(f"http://127.0.0.1:{server.server_port}/?q={word}")
                    addresses = await shows(page, ADDRESSES, lambda addresses: len(addresses) > 2, seconds=15)
                    for address in addresses[:3]:
                        assert not re.search(r"/(source|reference|internals)/", address), f"{word}: {addresses[:3]}"
                    await page.close()
                firsts = {
                    "workers": "Several workers",
                    "403": "Rights, and 403 errors",
                    "timeout": "Waiting for a condition",
                    "pytest": "A first test",
                    "index": "Reading the cache",
                    "join": "Derived collections",
                }
                for word, heading in firsts.items():
                    page = await browser.new_page()
                    await page.goto(f"http://127.0.0.1:{server.server_port}/?q={word}")
                    await shows(page, f"{FOUND}[0]?.includes({heading!r})", seconds=15)
                    await page.close()
        finally:
            server.shutdown()
            await serving


ADDRESSES = "[...document.querySelectorAll('.md-search-result__item > a')].map(link => link.href)"
FOUND = "[...document.querySelectorAll('.md-search-result__item')].map(item => item.textContent)"


@pytest.mark.tools
@pytest.mark.process
@needs_mkdocs
def test_the_reference_shows_the_attributes_of_objects_with_their_types(site: Path) -> None:
    objects = (site / "reference" / "objects" / "index.html").read_text(encoding="utf-8")
    shown = re.sub(r"<[^>]+>", "", objects)
    attributes = ("key", "name", "namespace", "uid", "resource_version", "kind", "api_version", "owner_references")
    for owner, names in {
        "KubeObject": attributes,
        "OwnerReference": ("api_version", "kind", "name", "uid", "controller", "block_owner_deletion"),
        "DeletedFinalStateUnknown": ("key", "object"),
    }.items():
        for name in names:
            assert re.search(rf'id="kinformer\.(?:[\w.]+\.)?{owner}\.{name}"', objects), f"{owner}.{name}"
    for typed in ("key: str", "owner_references: tuple[OwnerReference, ...]", "controller: bool = False"):
        assert typed in shown, typed


@pytest.mark.timeout(360)  # the fixture builds the site
@pytest.mark.tools
@pytest.mark.process
@needs_mkdocs
def test_the_page_of_a_class_shows_the_members_that_it_inherits(site: Path) -> None:
    informer = (site / "reference" / "informer" / "index.html").read_text(encoding="utf-8")
    for name in ("lister", "by_key", "health", "name", "has_synced", "wait_synced", "remove_event_handler"):
        assert f'id="kinformer.informer.SharedInformer.{name}"' in informer, name


@pytest.mark.timeout(360)  # the fixture builds the site
@pytest.mark.tools
@pytest.mark.process
@needs_mkdocs
def test_every_public_name_in_a_table_leads_to_its_package(site: Path) -> None:
    names = {name for door in DOORS[1:-1] for name in import_module(door).__all__ if re.search(r"_|[a-z][A-Z]", name)}
    bare = []
    for path in site.rglob("*.html"):
        page = path.relative_to(site).as_posix()
        if page.startswith(("reference/", "source/")):
            continue
        for table in re.findall(r"<table>.*?</table>", path.read_text(encoding="utf-8"), re.DOTALL):
            alone = re.sub(r"<a [^>]*>.*?</a>", "", table, flags=re.DOTALL)
            shown = re.findall(r"<code>(\w+)(?:[(.\[][^<|]*)?</code>", alone)
            bare += [f"{page}: {name}" for name in shown if name in names]
    assert bare == []


def test_site_and_dashboard_have_one_logo() -> None:
    page = ROOT / "kinformer" / "cli" / "dashboard" / "page"
    assert (DOCS / "images" / "logo.svg").read_bytes() == (page / "icon.svg").read_bytes()


@needs_mkdocs
def test_docstrings_are_shown_without_the_marks_of_their_own() -> None:
    from docs.tools.docstrings import readable

    text = "One.\n\n::\n\n    code\n\nTwo::\n\n    code\n\n"
    text += "Args:\n    a, b: See C,\n        or D.\n    **more: Any.\n    e,\n    f: G.\n"
    shown = readable(text)
    assert "::" not in shown
    assert "Two:\n\n    code\n" in shown
    assert (
        "    a: See C,\n        or D.\n    b: See C,\n        or D.\n    **more: Any.\n    e: G.\n    f: G.\n" in shown
    )
    args, keywords = readable(text, {"a", "more"}).split("Keyword Args:\n")
    assert args.endswith("Args:\n    a: See C,\n        or D.\n    **more: Any.\n\n")
    assert keywords == "    b: See C,\n        or D.\n    e: G.\n    f: G.\n\n"
