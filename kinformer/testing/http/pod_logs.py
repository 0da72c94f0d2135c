"""Logs of pods: generated lines, because no containers run behind this server.

A container has a log if its status says that it has started. Line `n` was written `n` seconds after the start, so a
log grows by a line a second, and each line says that it is generated.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from kinformer.apiserver.options import integer_of
from kinformer.apiserver.status import StatusError, bad_request, cause, invalid
from kinformer.testing.http.call import HTTPCall
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.store.forms import decode_stored
from kinformer.testing.store.ledger import Ledger

__all__ = ["has_logs", "send_log"]

Object = dict[str, Any]

_KEPT = 500  # lines. Older ones are gone, as after a rotation
_UNDATED = 20  # seconds that a container ran whose status does not say when it ended
_PERIOD = 1.0  # seconds between two lines
_TEXTS = ("GET /items 200 in 3 ms", "GET /healthz 200 in 1 ms", "POST /items 201 in 12 ms", "cache refreshed")


def has_logs(pod: Object, container: str) -> bool:
    """Return True if a status says what the container does, or did before."""
    return bool(_status_of(pod, container))


async def send_log(call: HTTPCall, ledger: Ledger, resource: ResourceType, pod: Object) -> None:
    """Answer with the log of a container. Raises a 400 or 422 `StatusError`, as the kubelet or the API server does."""
    options = _Options.read(call.params, pod)
    log = _read_log(pod, options)
    response = call.response
    await response.start_stream(content_type="text/plain")
    last = log.last_at(ledger.wall())
    for number in log.numbers(last, options.tail):
        await response.write(log.line(number, final=log.ended is not None and number == last))
    while options.follow and log.ended is None:
        await asyncio.sleep(_PERIOD)
        stored = ledger.collection(resource).get(resource.key(call.info.namespace, call.info.name))
        if stored is None or stored.uid != pod["metadata"]["uid"]:
            break
        try:
            now = _read_log(decode_stored(resource, stored), options)
        except StatusError:  # it waits to be started again
            break
        if now.started != log.started:  # another run, whose log is another file
            break
        log, last = now, last + 1  # a line for each sleep, because the time of the loop may be virtual
        await response.write(log.line(last, final=log.ended is not None))
    await response.finish()


@dataclass(slots=True)
class _Options:
    """The query (kubernetes, pkg/apis/core/types.go, PodLogOptions). Options that are not here have no effect."""

    container: str
    previous: bool
    follow: bool
    tail: int | None

    @classmethod
    def read(cls, params: Mapping[str, str], pod: Object) -> _Options:
        tail = integer_of(params, "tailLines") if "tailLines" in params else None
        if tail is not None and tail < 0:
            reason = f"Invalid value: {tail}: must be greater than or equal to 0"
            wrong = cause("FieldValueInvalid", reason, "tailLines")
            raise invalid("", "PodLogOptions", pod["metadata"]["name"], [wrong])
        return cls(
            params.get("container") or _first_container(pod),
            params.get("previous") in ("true", "1"),
            params.get("follow") in ("true", "1"),
            tail,
        )


@dataclass(slots=True)
class _Log:
    """The log of one run of a container.

    Attributes:
        title: The container and the pod, for the first line.
        started: The time at which the run began.
        ended: The time at which it ended, or None.
        end: The text of its last line.
        failed: True if that line is an error.
    """

    title: str
    started: float
    ended: float | None
    end: str
    failed: bool

    def last_at(self, now: float) -> int:
        """Return the number of the newest line."""
        until = now if self.ended is None else self.ended
        return max(0, int((until - self.started) // _PERIOD))

    def numbers(self, last: int, tail: int | None) -> Iterator[int]:
        """Return the numbers of the lines up to `last` that are still there, or of the last `tail` of them."""
        count = _KEPT if tail is None else min(tail, _KEPT)
        return iter(range(max(0, last + 1 - count), last + 1))

    def line(self, number: int, *, final: bool) -> bytes:
        """Return a line, which is the last one of the run if `final`."""
        moment = datetime.fromtimestamp(self.started + number * _PERIOD, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        level, text = "INFO", _TEXTS[number % len(_TEXTS)]
        if final:
            level, text = "ERROR" if self.failed else "INFO", self.end
        elif number == 0:
            text = f"{self.title} started, without a container"
        return f"{moment} {level} generated line {number}: {text}\n".encode()


def _read_log(pod: Object, options: _Options) -> _Log:
    """Return the log of a container's present or previous run. Raises a 400 `StatusError` if there is none."""
    metadata, name = pod["metadata"], options.container
    status = _status_of(pod, name)
    state: Object = status.get("lastState" if options.previous else "state") or {}
    if options.previous and "terminated" not in state:
        if not status.get("restartCount"):
            raise bad_request(f'previous terminated container "{name}" in pod "{metadata["name"]}" not found')
        state = {"terminated": {"exitCode": 1, "reason": "Error"}}
    if "waiting" in state and status.get("restartCount"):
        state = status.get("lastState") or {"terminated": {"exitCode": 1, "reason": "Error"}}  # as in CrashLoopBackOff
    run: Object = state.get("running") or state.get("terminated") or {}
    if "running" not in state and "terminated" not in state:
        reason = (state.get("waiting") or {}).get("reason") or "ContainerCreating"
        raise bad_request(f'container "{name}" in pod "{metadata["name"]}" is waiting to start: {reason}')
    started = _seconds(run.get("startedAt") or metadata["creationTimestamp"])
    ended = None
    if "terminated" in state:
        finished = run.get("finishedAt")
        ended = max(started, _seconds(finished)) if finished else started + _UNDATED
    code = run.get("exitCode") or 0
    reason = run.get("reason") or ("Error" if code else "Completed")
    title = f"{name} of {metadata['namespace']}/{metadata['name']}"
    return _Log(title, started, ended, f"exiting with code {code}: {reason}", bool(code))


def _status_of(pod: Object, container: str) -> Object:
    status = pod.get("status") or {}
    kinds = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
    container = container or _first_container(pod)
    matching = (reported for kind in kinds for reported in status.get(kind) or [] if reported.get("name") == container)
    return next(matching, {})


def _first_container(pod: Object) -> str:
    name: str = pod["spec"]["containers"][0]["name"]
    return name


def _seconds(moment: str) -> float:
    return datetime.fromisoformat(moment).timestamp()
