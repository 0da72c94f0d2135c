"""Durations in Go's syntax, such as `1m30s`, and request timeouts."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kinformer.serving.status import bad_request
from kinformer.testing.api.request import RequestInfo

__all__ = ["check_duration", "check_timeout"]

_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([^\d.]*)")
_UNITS = {"ns", "us", "µs", "μs", "ms", "s", "m", "h"}
_LONG_RUNNING = ("attach", "exec", "proxy", "log", "portforward")


def check_duration(text: str) -> str:
    """Return the error of Go's time.ParseDuration for a string, or "" if it is a duration."""
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return ""
    while True:
        part = _PART.match(rest)
        if part is None:
            return f'time: invalid duration "{text}"'
        unit = part[2]
        if not unit:
            return f'time: missing unit in duration "{text}"'
        if unit not in _UNITS:
            return f'time: unknown unit "{unit}" in duration "{text}"'
        rest = rest[part.end() :]
        if not rest:
            return ""


def check_timeout(info: RequestInfo, params: Mapping[str, str]) -> None:
    """Refuse a `timeout` that is not a duration, except for long-running requests (request_deadline.go)."""
    timeout = params.get("timeout", "")
    if not timeout or info.verb in ("watch", "proxy") or info.subresource in _LONG_RUNNING:
        return
    wrong = check_duration(timeout)
    if wrong:
        raise bad_request(f"invalid timeout specified in the request URL - {wrong}")
