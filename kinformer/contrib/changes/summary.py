"""The summary of a change in one line: `ready true to false`, `image 1.2 to 1.3`, `replicas 3 to 5`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from kinformer.contrib.changes.differences import ABSENT, Difference

__all__ = ["summary_of"]

_MOST = 3  # differences that a summary names
_LONGEST = 60  # characters of a value

_Words = Callable[[re.Match[str], Difference], str]


def summary_of(places: Sequence[Difference]) -> str:
    """Return the most telling differences in words, and the number of the others."""
    unknown = [
        place for place in places if _CONDITION.fullmatch(place.path) and _member(place.new, "status") == "Unknown"
    ]
    ready = [place for place in unknown if place.path.startswith("status.conditions[Ready]")]
    rest = unknown if ready else []  # of a node that does not answer, nothing is known
    shown = [place for place in places if place in ready or not (place in rest or _is_implied(place))] or places
    ranked = sorted(((*_words(place), number) for number, place in enumerate(shown)), key=lambda row: (row[0], row[2]))
    words = list(dict.fromkeys(words for _, words, _ in ranked))
    if not words:
        return "no field that is shown"
    more = len(words) - _MOST
    return ", ".join(words[:_MOST]) + (f", and {more:,} more" if more > 0 else "")


# Details of a start or an end of a pod, and of conditions. They are in the differences.
_IMPLIED = re.compile(
    r"""
    status\.(podIPs?|hostIPs?|startTime|qosClass)([.\[].*)?
    | status\.(init|ephemeral)?[cC]ontainerStatuses(\[[^\]]*\](\.(lastState.*|started|containerID|image|imageID))?)?
    | status\..*ontainerStatuses\[[^\]]*\]\.state\.running(\..*)?
    | status\.conditions\[[^\]]*\]\.(reason|message) | status\.conditions\[ContainersReady\].*
    """,
    re.VERBOSE,
)
_CONDITION = re.compile(r"status\.conditions\[[^\]]*\](\.status)?")
_ENDED_STATE = re.compile(r"status\..*ontainerStatuses\[[^\]]*\]\.state\.\w+(\..*)?")


def _is_implied(difference: Difference) -> bool:
    """Return True if another difference says the same more plainly."""
    if _IMPLIED.fullmatch(difference.path):
        return True
    return difference.new is ABSENT and _ENDED_STATE.fullmatch(difference.path) is not None


def _words(difference: Difference) -> tuple[int, str]:
    """Return the rank of a difference, lower for a more telling one, and its words."""
    path = difference.path
    for rank, (pattern, words) in enumerate(_TELLING):
        match = pattern.fullmatch(path)
        if match is not None:
            return rank, words(match, difference)
    rank = len(_TELLING) + (2 if path.startswith("status") else 1 if path.startswith("metadata") else 0)
    return rank, _plain(_leaf(path), difference)


# --- words ----------------------------------------------------------------------------------------------


def _named(name: str) -> _Words:
    return lambda match, difference: _plain(name, difference)


def _group(match: re.Match[str], difference: Difference) -> str:
    return _plain(match[1], difference)


def _condition(match: re.Match[str], difference: Difference) -> str:
    name = _decapitalized(match[1])
    _, was, now = difference
    old, new = (str(_member(side, "status")).lower() for side in (was, now))
    return f"{name} {new}" if was is ABSENT else f"{name} {old} to {new}" if now is not ABSENT else f"no {name}"


def _conditions(match: re.Match[str], difference: Difference) -> str:
    """Return the first conditions of an object: those that hold, or any."""
    if not isinstance(difference.new, list):
        return _plain("conditions", difference)
    given = [entry for entry in difference.new if isinstance(entry, dict) and isinstance(entry.get("type"), str)]
    true = [entry for entry in given if entry.get("status") == "True"] or given
    words = [f"{_decapitalized(entry['type'])} {str(entry.get('status')).lower()}" for entry in true[:_MOST]]
    return ", ".join(words) or "conditions added"


def _decapitalized(name: str) -> str:
    return name[:1].lower() + name[1:]


def _image(match: re.Match[str], difference: Difference) -> str:
    _, was, now = difference
    if not isinstance(was, str) or not isinstance(now, str):
        return _plain("image", difference)
    (name, old), (other, new) = _split_image(was), _split_image(now)
    return f"image {old} to {new}" if name == other and old and new else f"image {_cut(was)} to {_cut(now)}"


def _split_image(image: str) -> tuple[str, str]:
    """Split an image into its name and its tag or digest."""
    name, at, digest = image.partition("@")
    if at:
        return name, digest
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "")


def _state(match: re.Match[str], difference: Difference) -> str:
    if difference.new is ABSENT or not isinstance(difference.new, dict):
        return f"{match[1]} no longer {match[2]}"
    if match[2] == "terminated":
        return f"{match[1]} ended with exit code {difference.new.get('exitCode', 0)}"
    reason = difference.new.get("reason")
    return f"{match[1]} {match[2]} {reason}" if reason else f"{match[1]} {match[2]}"


def _deletion(match: re.Match[str], difference: Difference) -> str:
    return "deletion began"


def _map_entry(match: re.Match[str], difference: Difference) -> str:
    return _plain(f"{match[1].removesuffix('s')} {match[2] or match[3]}", difference)


# From the most telling.
_TELLING: tuple[tuple[re.Pattern[str], _Words], ...] = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"metadata\.deletionTimestamp", _deletion),
        (r"status\.phase", _named("phase")),
        (r"status\.conditions\[(Ready)\](?:\.status)?", _condition),
        (r"spec\.replicas", _named("replicas")),
        (r".*ontainers\[[^\]]*\]\.image", _image),
        (r"status\..*ontainerStatuses\[[^\]]*\]\.ready", _named("ready")),
        (r"status\..*ontainerStatuses\[[^\]]*\]\.restartCount", _named("restarts")),
        (r"status\..*ontainerStatuses\[([^\]]*)\]\.state\.(waiting|terminated)", _state),
        (r"status\..*ontainerStatuses\[[^\]]*\]\.state\.(?:waiting|terminated)\.(reason)", _group),
        (r"status\.conditions\[([^\]]*)\](?:\.status)?", _condition),
        (r"status\.conditions", _conditions),
        (r"spec\.nodeName", _named("node")),
        (r"(data\.\w+)", _group),
        (r"(?:spec|status)\.(\w+)", _group),
        (r"spec\..*", lambda match, difference: _plain(_leaf(difference.path), difference)),
        (r"metadata\.(labels|annotations)(?:\.(.*)|\[(.*)\])", _map_entry),
    )
)


def _plain(name: str, difference: Difference) -> str:
    """Return the words for any difference."""
    old, new = _short(difference.old), _short(difference.new)
    if difference.old is ABSENT:
        return f"{name} {new}" if new else f"{name} added"
    if difference.new is ABSENT:
        return f"{name} removed"
    return f"{name} {old} to {new}" if old and new and old != new else f"{name} changed"


def _leaf(path: str) -> str:
    """Return the last name of a path, with the name of the item before it: `env[DEBUG].value`."""
    parts = re.findall(r"[^.\[\]]+(?:\[[^\]]*\])*|\[[^\]]*\]", path)
    return ".".join(parts[-2:]) if len(parts) > 1 and "[" in parts[-2] else parts[-1] if parts else path


def _short(value: Any) -> str:
    """Return a value if it is short enough for a line, or ""."""
    if isinstance(value, str):
        return _cut(" ".join(value.split())) or '""'
    if value is None or isinstance(value, (dict, list)) or value is ABSENT:
        return "" if value else "nothing"
    return json.dumps(value)


def _cut(words: str) -> str:
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 1]}…"


def _member(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else value
