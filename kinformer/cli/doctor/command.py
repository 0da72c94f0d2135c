"""`kinformer doctor`: runs the steps in order, and reports them as text or JSON."""

from __future__ import annotations

import json
import sys
import textwrap
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

from rich.text import Text

from kinformer.cli.doctor.connection import check_authentication, check_configuration, check_server, open_client
from kinformer.cli.doctor.findings import CannotGoOn, Report, StepFinding, Verdict
from kinformer.cli.doctor.resource import Place, check_discovery, check_list, check_rights, check_shards, check_watch
from kinformer.cli.doctor.size import check_sizes
from kinformer.cli.output.amounts import count, seconds, size
from kinformer.cli.output.tables import Ink, clean
from kinformer.cli.target import ObjectSelection, Server

__all__ = ["doctor"]

_STEPS = (
    *("configuration", "credentials", "server", "authentication", "resource"),
    *("rights", "list", "watch", "watch list", "shards", "objects", "informer"),
)
_OF_A_RESOURCE = _STEPS.index("rights")
_STYLES = {Verdict.OK: "green", Verdict.WARN: "yellow", Verdict.FAIL: "bold red", Verdict.SKIP: "bright_black"}
_INDENT = " " * 22
_WIDEST = 120


async def doctor(server: Server, selection: ObjectSelection, *, output: str, timeout: float) -> int:
    """Perform the steps of an informer one by one, and print the findings. Nothing is changed.

    Args:
        server: The server.
        selection: The objects, by default in all namespaces. With an empty resource, only the server is checked.
        output: "table" (a line for each step, printed immediately) or "json" (one document).
        timeout: Seconds for each request.

    Returns:
        0, or the status of the first failure, as defined in `findings`.
    """
    lines = _Lines() if output == "table" else None
    report = Report(lines)
    steps = _STEPS if selection.resource else _STEPS[:_OF_A_RESOURCE]
    try:
        await _examine(report, server, selection, timeout)
    except CannotGoOn:
        done = {finding.step for finding in report.findings}
        for step in steps:
            if step not in done:
                report.skip(step, "not tried, because of an earlier failure")
    if lines is not None:
        lines.end(_conclusion(report, selection))
    else:
        print(json.dumps(_document(report), indent=2))
    sys.stdout.flush()
    return report.status


async def _examine(report: Report, server: Server, selection: ObjectSelection, timeout: float) -> None:
    connection = await check_configuration(report, server)
    async with AsyncExitStack() as stack:
        client = await open_client(report, stack, server, connection)
        await check_server(report, client, connection, timeout)
        user = await check_authentication(report, client, timeout)
        resource = await check_discovery(report, client, selection.resource or None)
        if resource is None:
            return
        place = Place(resource, selection.namespace if resource.namespaced else None, selection, user)
        await check_rights(report, client, place, client.namespace)
        sample = await check_list(report, client, place, timeout)
        await check_watch(report, client, place, sample, timeout)
        await check_shards(report, client, place, timeout)
        await check_sizes(report, client, place, sample, timeout)


class _Lines:
    """Prints findings as they occur."""

    def __init__(self) -> None:
        self._ink = Ink()
        self._width = min(_WIDEST, self._ink.width or 0)
        self._skipped: list[str] = []

    def __call__(self, finding: StepFinding) -> None:
        """Print the finding of a step."""
        if finding.verdict is Verdict.SKIP:
            self._skipped.append(finding.step)
            return
        head = Text()
        word = finding.verdict.upper() if finding.verdict is Verdict.FAIL else finding.verdict
        head.append(f"{word:<6}", _STYLES[finding.verdict])
        head.append(f"{finding.step:<16}", "bold")
        head.append(self._wrapped(clean(finding.text)))
        self._write(head)
        for advice in finding.advice:
            first, *rest = advice.splitlines()
            self._write(Text(f"{_INDENT}> {self._wrapped(clean(first), 2)}", "cyan"))
            for line in rest:
                self._write(Text(f"{_INDENT}  {clean(line)}"))
        sys.stdout.flush()

    def end(self, conclusion: str) -> None:
        """Print the steps that were not tried, and the conclusion."""
        if self._skipped:
            skipped = self._wrapped(f"not tried: {', '.join(self._skipped)}")
            self._write(Text(f"{Verdict.SKIP:<6}{'':<16}{skipped}", "bright_black"))
        lines = textwrap.wrap(conclusion, self._width) if self._width else [conclusion]
        self._write(Text("\n" + "\n".join(map(clean, lines)), "bold"))

    def _write(self, text: Text) -> None:
        sys.stdout.write(f"{self._ink.render(text)}\n")

    def _wrapped(self, text: str, further: int = 0) -> str:
        if self._width < 2 * len(_INDENT):
            return text
        lines = textwrap.wrap(text, self._width - len(_INDENT) - further, break_on_hyphens=False)
        return f"\n{_INDENT}{' ' * further}".join(lines)


def _conclusion(report: Report, selection: ObjectSelection) -> str:
    failed = [finding.step for finding in report.findings if finding.verdict is Verdict.FAIL]
    warned = [finding.step for finding in report.findings if finding.verdict is Verdict.WARN]
    but = f" See: {', '.join(warned)}." if warned else ""
    if failed:
        what = f"An informer of {selection.resource} would not work" if selection.resource else "This does not work"
        return f"{what}: {', '.join(failed)}. (status {report.status})"
    if not selection.resource:
        return f"The server can be used.{but}"
    name = report.data("resource").get("resource", selection.resource)
    figures = report.data("informer")
    if not figures:
        return f"An informer of {name} works.{but}"
    way = "as a stream" if report.data("watch list").get("supported") else "as a list"
    objects = count(figures["objects"], "object") + (" at least" if figures["at_least"] else "")
    return (
        f"An informer of {name} works: {objects}, about {size(figures['memory'])}, "
        f"the first {way} in about {seconds(figures['list_seconds'])}.{but}"
    )


def _document(report: Report) -> dict[str, Any]:
    return {
        "ok": report.status == 0,
        "status": report.status,
        "steps": [asdict(finding) for finding in report.findings],
    }
