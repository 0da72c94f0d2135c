"""The known differences between the embedded server and a real one; docs/testing.md has the reasons."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.conformance.transcript import differences

Exchange = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Difference:
    """In tests of that name the places that match differ."""

    test: str  # how `module::function` begins
    place: str  # a regular expression for a path such as `[3].answer.spec.clusterIP`
    reason: str


KNOWN = [
    Difference(
        "custom::a_custom_object_is_held_against_its_schema",
        r"^\[9\]\.answer\.(message|details\.causes)",
        "`multipleOf` below 1 of an integer value is one error more on a real server, which takes the factor for 0",
    ),
    Difference(
        "objects::a_name_has_to_be_a_dns_name",
        r"^\[13\]\.answer\.(message|details\.causes)",
        "Services get no cluster addresses, and no errors of their allocator",
    ),
    Difference(
        "objects::a_namespace_that_is_being_deleted",
        r"^\[3\]\.answer\.metadata\.deletion",
        "A deleted namespace is emptied, as by a controller manager",
    ),
    Difference(
        "objects::what_cannot_be_changed",
        r"^\[3\]\.answer\.(message|details\.causes\[0\]\.message)",
        "The refusal of a change to a Pod's spec names the fields, not a diff of Go structs",
    ),
    Difference(
        "subresources::ephemeral_containers_are_neither",
        r"^\[(20|21)\]\.answer\.(message|details\.causes\[0\]\.message)",
        "The refusal of a change to a Pod's spec names the fields, not a diff of Go structs",
    ),
    Difference(
        "patches::a_merge_patch_adds",
        r"^\[3\]\.answer\.(message|details\.causes\[0\]\.message)",
        "Objects within messages have another order of keys",
    ),
    Difference(
        "patches::apply_takes_yaml",
        r"^\[1\]\.answer\.message",
        "errors in YAML other words",
    ),
]


def unexpected(
    test: str,
    recorded: list[Exchange],
    came: list[Exchange],
    *,
    embedded: bool,
    otherwise: list[Exchange] | None = None,
) -> list[str]:
    """A text for each place that differs and is not known to, and for each that is known to and does not.

    On a real server nothing is known to differ.

    Args:
        test: The name, `module::function`.
        recorded: What a real server answered.
        came: What this one answered.
        embedded: True if it is the embedded server.
        otherwise: What another real server answered, if each place may be as in either.
    """
    if otherwise is not None:
        first, second = (dict(_places(one, came)) for one in (recorded, otherwise))
        return [text for place, text in first.items() if any(_overlap(place, other) for other in second)]
    known = {re.compile(one.place): one for one in KNOWN if embedded and test.startswith(one.test)}
    seen = set()
    found = []
    for place, text in _places(recorded, came):
        matching = {pattern for pattern in known if pattern.search(place)}
        seen |= matching
        if not matching:
            found.append(text)
    found += [f"no longer different, so no longer to be listed: {known[one].reason}" for one in known.keys() - seen]
    return found


def _places(real: list[Exchange], came: list[Exchange]) -> Iterator[tuple[str, str]]:
    """Each place that differs, with its text."""
    for number in range(max(len(real), len(came))):
        left, right = (list_[number] if number < len(list_) else {} for list_ in (real, came))
        request = right.get("request") or left.get("request")
        for place, was, became in _between(left, right):
            yield f"[{number}]{place}", f"{request}\n    [{number}]{place}\n    real {was!r}\n    ours {became!r}"


def _overlap(place: str, other: str) -> bool:
    """True if two places are the same, or one is within the other."""
    short, long = sorted((place, other), key=len)
    return long.startswith(short) and (len(long) == len(short) or long[len(short)] in ".[")


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
