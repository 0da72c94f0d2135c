"""Where the embedded server is known to answer otherwise than a real one, and why; docs/testing.md has the reasons."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.transcript import differences

Exchange = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """In tests whose name matches, the places that match may differ."""

    test: str  # a regular expression for `module::function`
    place: str  # a regular expression for a path such as `[3].answer.spec.clusterIP`
    reason: str


KNOWN: list[Difference] = []


def unexpected(test: str, recorded: list[Exchange], came: list[Exchange], *, embedded: bool) -> list[str]:
    """A text for each place that differs and is not known to; on a real server nothing is."""
    known = [re.compile(one.place) for one in KNOWN if embedded and re.search(one.test, test)]
    found = []
    for number in range(max(len(recorded), len(came))):
        real, ours = (list_[number] if number < len(list_) else {} for list_ in (recorded, came))
        for place, left, right in _between(real, ours):
            place = f"[{number}]{place}"
            if not any(one.search(place) for one in known):
                request = ours.get("request") or real.get("request")
                found.append(f"{request}\n    {place}\n    real {left!r}\n    ours {right!r}")
    return found


def _between(real: Exchange, ours: Exchange) -> list[tuple[str, Any, Any]]:
    # A body may be made of what the server answered before, where a difference has been told of already.
    real, ours = ({name: value for name, value in one.items() if name != "body"} for one in (real, ours))
    if real.get("status") != ours.get("status"):  # with another status nothing else is alike; what it says is enough
        return [("", _said(real), _said(ours))]
    return list(differences(real, ours))


def _said(exchange: Exchange) -> str:
    answer = exchange.get("answer")
    text = answer.get("message", answer.get("kind")) if isinstance(answer, dict) else answer
    return f"{exchange.get('status', 'not asked')} {text}"


PENDING = Path(__file__).parent / "pending.txt"


def pending() -> frozenset[str]:
    """The tests in which the embedded server does not answer like a real one yet."""
    return frozenset(PENDING.read_text(encoding="utf-8").split())
