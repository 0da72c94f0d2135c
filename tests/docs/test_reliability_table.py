"""docs/reliability.md says what the tests show, and no number is missing."""

from __future__ import annotations

import pytest

from tests.faults.reliability_table import DOCUMENT, FAULTS, TRAPS, entries, render


def test_the_document_is_what_the_tests_say() -> None:
    document = DOCUMENT.read_text(encoding="utf-8")
    assert document == render(document), "run: python -m tests.faults.reliability_table"


@pytest.mark.parametrize(("kind", "numbers"), [("fault", FAULTS), ("trap", TRAPS)])
def test_every_number_has_a_test(kind: str, numbers: range) -> None:
    assert [entry.number for entry in entries(kind)] == list(numbers)
