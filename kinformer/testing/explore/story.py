"""The story of a failed history: the decisive events in about a dozen lines, and how to reproduce it."""

from __future__ import annotations

from kinformer.testing.explore.rules.finding import Violation
from kinformer.testing.explore.schedule import Schedule, encode_schedule
from kinformer.testing.explore.trace import Entry, Trace

__all__ = ["tell"]

_LINES = 18  # entries of a story at most


def tell(finding: Violation, schedule: Schedule, trace: Trace, after: str) -> str:
    """Return the story.

    Args:
        finding: The failure.
        schedule: The schedule that produced it.
        trace: The trace of the history.
        after: A description of how it was found.
    """
    concerned = set(finding.objects) or _written_last(trace)
    lines = [entry.line() for entry in _decisive(trace, concerned)]
    faults = len(schedule.strikes)
    how = f"{after}; {faults} fault{'' if faults == 1 else 's'}" if faults else f"{after}, without any fault"
    parts = [finding.text, f"({how})", "", *lines, "", f'To see it again: @reproduce("{encode_schedule(schedule)}")']
    return "\n".join([*parts, finding.remedy] if finding.remedy else parts)


def _written_last(trace: Trace) -> set[str]:
    writes = [entry for entry in trace if entry.kind == "write"]
    return {name for entry in writes[-4:] for name in entry.objects}


def _decisive(trace: Trace, concerned: set[str]) -> list[Entry]:
    """Choose all faults, writes, starts and ends, but only the requests and events of the objects concerned."""
    resources = {name.partition(" ")[0] for name in concerned}
    chosen: list[tuple[int, int, Entry]] = []
    for number, entry in enumerate(trace):
        about = concerned.intersection(entry.objects)
        if entry.kind == "fault":
            weight = 0
        elif entry.kind == "life" or (entry.kind == "write" and about):
            weight = 1
        elif entry.kind == "request" and about:
            weight = 2
        elif entry.kind == "write" or (entry.kind == "event" and about):
            weight = 3
        elif entry.kind == "request" and resources.intersection(entry.objects):
            weight = 4
        else:
            continue
        chosen.append((weight, -number, entry))
    kept = sorted(chosen, key=lambda choice: choice[:2])[:_LINES]
    return [entry for _, _, entry in sorted(kept, key=lambda choice: -choice[1])]
