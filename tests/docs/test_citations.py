"""Every rule of Kubernetes is in one package: a file of Go that two packages cite is in a table, with the reason.

Two packages that cite one file often hold the same rule twice, and then one of them is wrong. A rule that a second
package needs is moved down (`objects`, `kinds`) and read from there, without another citation.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from tests.docs.citations import Citation, citations_in, is_one_file, shared
from tests.docs.documentation import ROOT


class Row(NamedTuple):
    """The packages that cite a file, and why each needs to."""

    packages: set[str]
    reason: str


SHARED = {
    "apimachinery/pkg/apis/meta/v1/types.go": Row(
        {"connection", "kinds", "list_watcher", "objects", "reflector", "wire"},
        "It declares the types that all requests and objects have, and each package cites the type that it owns: "
        "APIResource, TableColumnDefinition, ListOptions, OwnerReference and Condition, StatusReason, ListMeta.",
    ),
    "apimachinery/pkg/labels/selector.go": Row(
        {"apiserver", "objects"},
        "The server's parser and the client's are apart on purpose: a double that shares the parser under test shares "
        "its bugs.",
    ),
    "apimachinery/pkg/fields/selector.go": Row({"apiserver", "objects"}, "As for labels."),
    "apiserver/pkg/storage/cacher/cache_watcher.go": Row(
        {"apiserver", "informer"},
        "The watcher is ported in `apiserver`. The informer relies on the time of its last bookmark.",
    ),
    "apiserver/pkg/storage/cacher/watch_cache.go": Row(
        {"apiserver", "testing"},
        "The history is ported in `apiserver`. `ControlPlane` says what the real one does at a restart.",
    ),
    "client-go/tools/cache/reflector.go": Row(
        {"_runtime", "exceptions", "reflector"},
        "`Backoff` has the defaults of the reflector, and `exceptions` knows by what text it recognizes a version that "
        "is too large.",
    ),
    "pkg/apis/*/v*/conversion.go": Row(
        {"apiserver", "testing"},
        "The fields that selectors can name (`apiserver`), and the conversion between versions (`testing`).",
    ),
    "pkg/printers/internalversion/printers.go": Row(
        {"kinds", "objects"}, "The row of a pod reads `PodState`, a public name of `objects`."
    ),
    "pkg/reconcile/reconcile.go": Row(
        {"controller", "exceptions"}, "`TerminalError` is with the other errors, and `Result` with the controller."
    ),
    "pkg/registry/generic/registry/store.go": Row(
        {"objects", "testing"},
        "The server's writes and deletes are in `testing`. The client recognizes a response to the last of them.",
    ),
    "rest/request.go": Row(
        {"connection", "objects"},
        "The log of throttling (`connection`), and the names that a path may have (`objects`).",
    ),
    "tools/cache/delta_fifo.go": Row(
        {"objects", "queue"}, "The tombstone is an object that caches, processors and handlers read, not only queues."
    ),
    "tools/cache/listwatch.go": Row(
        {"list_watcher", "listwatch"}, "The port to a source, and the source that is made with a client."
    ),
    "tools/cache/store.go": Row(
        {"cache", "objects"}, "Keys are those of `objects`, since all packages need them, and the store is the cache."
    ),
}


def row_of(file: str) -> Row:
    return next((row for name, row in SHARED.items() if is_one_file(name, file)), Row(set(), ""))


@pytest.fixture(scope="module")
def in_package() -> dict[str, list[Citation]]:
    return shared(citations_in(ROOT / "kinformer"))


@pytest.mark.slow
def test_a_file_that_a_second_package_cites_has_a_reason(in_package: dict[str, list[Citation]]) -> None:
    for file, citations in in_package.items():
        more = {citation.package for citation in citations} - row_of(file).packages
        places = "\n".join(f"  kinformer/{citation.place}" for citation in citations)
        assert not more, (
            f"{', '.join(sorted(more))}: {file} is cited by more than one package:\n{places}\n"
            "One rule: keep it in the lower package, and read it from there, without another citation. "
            "Two rules, or one that is apart on purpose: give the reason in SHARED of tests/docs/test_citations.py. "
            "Files of different folders: cite them with their folder."
        )


def test_the_table_has_no_row_or_package_that_is_needed_no_more(in_package: dict[str, list[Citation]]) -> None:
    for name, row in SHARED.items():
        citing = {
            citation.package
            for file, citations in in_package.items()
            if is_one_file(name, file)
            for citation in citations
        }
        assert row.packages == citing & row.packages, f"{name}: {row.packages - citing} no longer cite it"
        assert len(row.packages) > 1
        assert row.reason.endswith(".")


# --- the test can fail ----------------------------------------------------------------------------------------------


def test_files_are_one_if_the_path_of_one_ends_with_the_others() -> None:
    assert is_one_file("store.go", "tools/cache/store.go")
    assert is_one_file("client-go/tools/cache/store.go", "tools/cache/store.go")
    assert is_one_file("pkg/apis/*/v1/defaults.go", "apis/core/v1/defaults.go")
    assert not is_one_file("registry/store.go", "cache/store.go")
    assert not is_one_file("thread_safe_store.go", "store.go")


def test_citations_are_found_in_docstrings_and_comments_also_over_two_lines(tmp_path: Path) -> None:
    (tmp_path / "low").mkdir()
    (tmp_path / "low" / "rules.py").write_text(
        '"""A rule (kubernetes, staging/src/k8s.io/api/\ncore/v1/types.go)."""\n\n'
        "A = 1  # another (apimachinery, pkg/\n# version/helpers.go)\n"
        'B = "not/this.go"\n',
        encoding="utf-8",
    )
    (tmp_path / "high.py").write_text('def f():\n    """Apply a rule (core/v1/types.go)."""\n', encoding="utf-8")
    citations = citations_in(tmp_path)
    assert citations == [
        Citation("core/v1/types.go", "high", "high.py:2"),
        Citation("staging/src/k8s.io/api/core/v1/types.go", "low", "low/rules.py:1"),
        Citation("pkg/version/helpers.go", "low", "low/rules.py:4"),
    ]
    assert {file: [citation.place for citation in of_file] for file, of_file in shared(citations).items()} == {
        "staging/src/k8s.io/api/core/v1/types.go": ["low/rules.py:1", "high.py:2"]
    }
