"""Recordings: what a real kube-apiserver, or kubectl, answers to many small cases, in `recordings/NAME.jsonl`.

A line `{"answer": ...}` is the answer of the cases in the lines below it. A case is a text that its test understands. A
new one is a line more below any answer, and `--record-transcripts` writes its own. `recorded_differences.py` reads the
cases that this project answers otherwise.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.conformance.recorded_differences import known_differences

__all__ = ["all_answers", "check", "read", "write"]

FOLDER = Path(__file__).parent / "recordings"


def read(name: str) -> dict[str, Any]:
    """Return the answer to each case of a recording, in order."""
    answers: dict[str, Any] = {}
    answer = None
    for line in (FOLDER / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if isinstance(row, str):
            assert row not in answers, f"{name} has the case {row!r} twice"
            answers[row] = answer
        else:
            answer = row["answer"]
    return answers


def write(name: str, answers: Mapping[str, Any]) -> None:
    """Write a recording. The cases of an answer are together, behind the first of them."""
    cases: dict[str, list[str]] = {}
    for case, answer in answers.items():
        cases.setdefault(_line({"answer": answer}), []).append(_line(case))
    lines = [line for answer, of_it in cases.items() for line in (answer, *of_it)]
    (FOLDER / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _line(value: Any) -> str:
    """JSON that `splitlines` does not split, with odd characters escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() else json.dumps(value, separators=(",", ":"))


async def all_answers(
    answer: Callable[[str], Awaitable[Any]], cases: Iterable[str], *, at_once: int = 60
) -> dict[str, Any]:
    """Return the answers to cases, in their order. Many are asked for at once, as most of their time is waiting."""
    free = asyncio.Semaphore(at_once)

    async def answer_in_turn(case: str) -> Any:
        async with free:
            return await answer(case)

    async with asyncio.TaskGroup() as group:
        tasks = {case: group.create_task(answer_in_turn(case)) for case in cases}
    return {case: task.result() for case, task in tasks.items()}


def check(
    name: str, answers: Mapping[str, Any], by: str, *, as_here: Callable[[Any], Any] = lambda recorded: recorded
) -> None:
    """Assert that each case is answered as it was recorded, but for known differences, which must still be there.

    Args:
        name: The recording.
        answers: What came now.
        by: What answered, as `recorded_differences.py` calls it.
        as_here: Turns a recorded answer into the form of those that came.
    """
    recorded = {case: as_here(answer) for case, answer in read(name).items()}
    assert answers.keys() == recorded.keys()
    different = {case for case, answer in recorded.items() if answers[case] != answer}
    expected = dict[str, str]()
    for known in known_differences():
        if known.recording == name and by in known.by:
            expected |= dict.fromkeys(known.cases, known.reason)
    texts = [f"{case}\n    is no longer different: {expected[case]}" for case in expected.keys() - different]
    for case in sorted(different - expected.keys()):
        texts.append(f"{case}\n    recorded {recorded[case]!r}\n    came     {answers[case]!r}")
    assert not texts, f"{len(texts)} differences of {by} from the recording {name}:\n" + "\n".join(texts)
