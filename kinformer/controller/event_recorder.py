"""Kubernetes Events: what a controller tells people about an object (`kubectl describe`, `kubectl events`)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import uuid
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, NamedTuple, Self

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.logs import get_logger
from kinformer.client.client import Client
from kinformer.controller.event_series import EventSeries, Occurrences, TokenBuckets
from kinformer.exceptions import (
    AlreadyExistsError,
    ConfigError,
    ConnectError,
    KinformerError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from kinformer.objects.accessors import key_of, resource_version_of, uid_of
from kinformer.objects.meta import GroupVersionResource, split_meta_namespace_key
from kinformer.objects.object import KubeObject
from kinformer.objects.selectors import DNS_SUBDOMAIN

__all__ = ["EventRecorder", "EventRecorderStatistics"]

log = get_logger("kinformer.events")

_EVENTS = GroupVersionResource("events.k8s.io", "v1", "events")
_TRIES = 12  # client-go, tools/events/event_broadcaster.go
_PAUSE = 10.0  # seconds between them, the first one random, so that a restarted server is not met by all at once
_LOOK = 60.0  # seconds between two looks at series that are over
_NOTE = 1024  # bytes; and characters of the rest: pkg/apis/core/validation/events.go
_WORD = 128


@dataclass(frozen=True, slots=True)
class EventRecorderStatistics:
    """Counts so far.

    Attributes:
        recorded: Calls of `record`.
        sent: Requests that the server took.
        folded: Calls that became part of a series that the server knows of.
        dropped: Events that are lost: too many about one object, a full queue, a server that would not have them.
    """

    recorded: int
    sent: int
    folded: int
    dropped: int


class _Job(NamedTuple):
    key: Hashable
    occurrences: Occurrences
    document: dict[str, Any]


class EventRecorder:
    """Records Events for objects, without ever keeping the caller waiting.

    ::

        async with EventRecorder(client, controller="foo-operator.example.com") as events:
            events.record(foo, "Scaled", f"to {replicas} replicas")
            events.record(foo, "NoSuchImage", str(error), type="Warning")

    Events are for people: they may be folded or lost, so nothing may depend on one. A repeat (the same but for its
    note) within 6 minutes of the last becomes part of a series: the server hears of the second, then every half hour
    and at the end. About one object 25 different ones are sent at once, and one in 5 minutes from then on. What a
    dead server does not take is tried 12 times in about 2 minutes. (client-go, tools/events and tools/record.)

    Args:
        client: An entered one.
        controller: Who says so: a name with a domain, at most 128 characters.
        instance: Which of its processes; None: the host's name, which is the pod's.
        queue_size: Events that wait for the server; above it new ones are dropped. 1000, as in client-go.
        shutdown_timeout: Seconds that leaving may take to send what waits.
        clock: Its `wall` stands in the events, its `loop` times the series.

    Raises:
        ConfigError: A name that the server would not take.
    """

    def __init__(
        self,
        client: Client,
        *,
        controller: str,
        instance: str | None = None,
        queue_size: int = 1000,
        shutdown_timeout: float = 2.0,
        clock: Clock = SYSTEM,
    ) -> None:
        instance = socket.gethostname()[:_WORD] if instance is None else instance
        for option, name in (("controller", controller), ("instance", instance)):
            if not 0 < len(name) <= _WORD:
                raise ConfigError(f"EventRecorder({option}={name!r}): 1 to {_WORD} characters are needed")
        self._client = client
        self._controller = controller
        self._instance = instance
        self._queue_size = queue_size
        self._shutdown_timeout = shutdown_timeout
        self._clock = clock
        self._queue: deque[_Job] = deque()
        self._series = EventSeries()
        self._buckets = TokenBuckets()
        self._documents: dict[Hashable, dict[str, Any]] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._look = 0.0  # when series are looked at next, by the clock
        self._number = 0
        self._recorded = self._sent = self._folded = self._dropped = 0

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise RuntimeError("an EventRecorder is entered once; make another one")
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"kinformer events of {self._controller}")
        return self

    @shielded_from_scopes
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._closing = True
        self._wake.set()
        try:
            await asyncio.wait({self._task}, timeout=self._shutdown_timeout)
        finally:
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task})
            self._lost(len(self._queue), "the recorder was left")
            self._queue.clear()
        if not self._task.cancelled():
            self._task.result()

    def record(
        self,
        regarding: Any,
        reason: str,
        note: str = "",
        *,
        action: str | None = None,
        type: str = "Normal",  # noqa: A002 - the field's word
        related: Any = None,
    ) -> bool:
        """Record an event. Returns at once; True if it will be sent, now or as part of a series.

        Args:
            regarding: The object that it is about: a KubeObject, a dict or a model, with apiVersion and kind.
            reason: Why, as one word in CamelCase.
            note: For people; cut after 1024 bytes. What is no UTF-8 in it, as in names of files, becomes a `?`.
            action: What was done, as one word; None: the reason.
            type: `"Normal"` or `"Warning"`.
            related: Another object that has to do with it.

        Raises:
            ValueError: A reason, action or type that the server would not take.
            KeyFuncError: `regarding` is no object.
        """
        note = _utf8(note)[:_NOTE].decode(errors="ignore")
        reason, action = (_utf8(word).decode() for word in (reason, reason if action is None else action))
        for option, word in (("reason", reason), ("action", action)):
            if not 0 < len(word) <= _WORD:
                raise ValueError(f"record({option}={word!r}): 1 to {_WORD} characters are needed")
        if type not in ("Normal", "Warning"):
            raise ValueError(f"record(type={type!r}): 'Normal' or 'Warning'")
        about, other = _reference(regarding), None if related is None else _reference(related)
        self._recorded += 1
        now = self._clock.loop()
        identity = (about["kind"], about["namespace"], about["name"], about["uid"])
        key = (*identity, type, reason, action, None if other is None else (other["kind"], other["uid"], other["name"]))
        if (ended := self._series.ended(key, now)) is not None:
            self._queue.append(_Job(key, ended, self._documents[key]))
        occurrences, news = self._series.occurred(key, now)
        if not news:
            self._folded += 1
            return True
        if occurrences.count == 1 and not self._buckets.take(identity, now):
            self._series.forget(key, occurrences)
            return self._lost(1, f"too many events about {about['kind']} {about['name']}")
        if self._closing or len(self._queue) >= self._queue_size:
            self._series.forget(key, occurrences)
            return self._lost(1, "too many events wait for the server")
        if occurrences.count == 1:
            self._documents[key] = self._document(about, other, reason, action, type, note)
        self._queue.append(_Job(key, occurrences, self._documents[key]))
        self._wake.set()
        return True

    def statistics(self) -> EventRecorderStatistics:
        """The counts so far."""
        return EventRecorderStatistics(self._recorded, self._sent, self._folded, self._dropped)

    def _lost(self, count: int, why: str) -> bool:
        if count:
            self._dropped += count
            log.debug("%d events of %s dropped: %s", count, self._controller, why, reason="events_dropped")
        return False

    def _document(
        self, about: dict[str, str], other: dict[str, str] | None, reason: str, action: str, kind: str, note: str
    ) -> dict[str, Any]:
        self._number += 1
        # A name that no other process makes: the object's, the time, and a number of our own.
        suffix = f".{int(self._clock.wall() * 1e6):x}{self._number % 0xFFFF:04x}"
        name = about["name"][: 253 - len(suffix)].rstrip(".-")
        if not DNS_SUBDOMAIN.fullmatch(name):
            name = str(uuid.uuid4())  # RBAC's names may be "system:node"; an Event's may not
        document: dict[str, Any] = {
            "apiVersion": _EVENTS.api_version,
            "kind": "Event",
            "metadata": {
                "name": name + suffix,
                "namespace": about["namespace"] or "default",
            },
            "eventTime": self._time(),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason,
            "regarding": {field: value for field, value in about.items() if value},
            "note": note,
            "type": kind,
        }
        if other is not None:
            document["related"] = {field: value for field, value in other.items() if value}
        return document

    def _time(self, seconds: float | None = None) -> str:
        moment = datetime.fromtimestamp(self._clock.wall() if seconds is None else seconds, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    # --- the sender ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        self._look = self._clock.loop() + _LOOK
        while not self._closing:
            self._wake.clear()
            if not self._queue:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, self._look - self._clock.loop())):
                        await self._wake.wait()
            self._look_at_series()
            await self._send_queue()
        for key, known in list(self._series.unfinished()):
            self._queue.append(_Job(key, known, self._documents[key]))
        await self._send_queue()

    async def _send_queue(self) -> None:
        while self._queue:
            await self._deliver(self._queue[0])
            self._queue.popleft()  # only now: what is cut off by the end counts as dropped
            self._look_at_series()  # here too: under load there is always something to send

    def _look_at_series(self) -> None:
        now = self._clock.loop()
        if now < self._look:
            return
        self._look = now + _LOOK
        for key, known in self._series.due(now):
            self._queue.append(_Job(key, known, self._documents[key]))
        if len(self._documents) > len(self._series):
            waiting = {job.key for job in self._queue}
            self._documents = {
                key: document for key, document in self._documents.items() if key in waiting or key in self._series
            }

    async def _deliver(self, job: _Job) -> None:
        """Send it, or give it up; never raises what the network or the server did."""
        known = job.occurrences
        for attempt in range(_TRIES):
            if known.told == known.count:
                return  # an earlier job has said all there is to say
            try:
                await self._send(job, again=attempt > 0)
                self._sent += 1
                return
            except NotFoundError as error:
                if known.place is None:  # no such namespace
                    self._give_up(job, error)
                    return
                known.place = None  # the Event of the series is gone: a new one
                job = job._replace(document=self._renamed(job.document))
            except (ConnectError, ServerError, TooManyRequestsError) as error:
                if attempt == _TRIES - 1:
                    self._give_up(job, error)
                    return
                pause = _PAUSE * random.random() if attempt == 0 else _PAUSE
                await asyncio.sleep(max(pause, getattr(error, "retry_after", None) or 0.0))
            except (KinformerError, UnicodeError) as error:  # the latter: a name of an object that is no UTF-8
                self._give_up(job, error)
                return

    def _give_up(self, job: _Job, error: BaseException) -> None:
        self._series.forget(job.key, job.occurrences)
        self._dropped += 1
        about = job.document["regarding"]
        key = _utf8(f"{about.get('namespace', '')}/{about.get('name', '')}".lstrip("/")).decode()
        text = "the event %s about %s %s is lost: %s"
        log.warning(text, job.document["reason"], about.get("kind", ""), key, error, key=key, reason=error)

    def _renamed(self, document: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        name = f"{document['metadata']['name'][:248]}{self._number % 0xFFFF:04x}"
        return {**document, "metadata": {**document["metadata"], "name": name}}

    async def _send(self, job: _Job, *, again: bool) -> None:
        known, document = job.occurrences, job.document
        count, now = known.count, self._clock.loop()
        series = None
        if count > 1:
            wall = self._clock.wall() - (now - known.last)
            series = {"count": count, "lastObservedTime": self._time(wall)}
        if known.place is None:
            body = document if series is None else {**document, "series": series}
            namespace, name = document["metadata"]["namespace"], document["metadata"]["name"]
            try:
                await self._client.request("POST", _EVENTS.path(namespace), body=body)
            except AlreadyExistsError:
                if not again:
                    raise
                count = known.told or 1  # an earlier attempt arrived, its answer did not; its count may be lower
            known.place = (namespace, name)
        else:
            await self._client.request("PATCH", _EVENTS.path(*known.place), body={"series": series})
        known.told, known.told_at = count, now


def _utf8(text: str) -> bytes:
    # `str` of an error can hold half a surrogate pair, which neither JSON nor a log can.
    return text.encode(errors="replace")


def _reference(obj: Any) -> dict[str, str]:
    namespace, name = split_meta_namespace_key(key_of(obj))
    if isinstance(obj, Mapping) and not isinstance(obj, KubeObject):
        api_version, kind = obj.get("apiVersion"), obj.get("kind")
    else:
        api_version, kind = getattr(obj, "api_version", None), getattr(obj, "kind", None)
    if not kind:
        raise ValueError(f"an event about {obj!r}: its kind is needed")
    return {
        "apiVersion": str(api_version or ""),
        "kind": str(kind),
        "namespace": namespace,
        "name": name,
        "uid": uid_of(obj),
        "resourceVersion": resource_version_of(obj),
    }
