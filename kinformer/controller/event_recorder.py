"""Kubernetes Events: a controller's messages about an object (`kubectl describe`, `kubectl events`)."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import uuid
from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple, NotRequired, Self, TypedDict

from kinformer._runtime.backoff import RETRY_AFTER_CAP
from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer._runtime.clock import SYSTEM, Clock
from kinformer._runtime.logs import cluster_of, get_logger
from kinformer.client.client import Client
from kinformer.controller.event_series import EventSeries, Occurrences, TokenBuckets
from kinformer.controller.references import ObjectReference
from kinformer.exceptions import (
    AlreadyExistsError,
    ConfigError,
    ConnectError,
    KinformerError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
)
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.selectors import DNS_SUBDOMAIN
from kinformer.objects.types import ApiObject
from kinformer.objects.units import micro_time

__all__ = ["EventRecorder", "EventRecorderStatistics"]

log = get_logger("kinformer.events")

_EVENTS = GroupVersionResource("events.k8s.io", "v1", "events")
_ATTEMPTS = 12  # client-go, tools/events/event_broadcaster.go
_PAUSE = 10.0  # seconds between attempts. The first pause is random, to spread the load on a restarted server
_SERIES_CHECK = 60.0  # seconds between two checks for ended series
_MAX_NOTE = 1024  # bytes (pkg/apis/core/validation/events.go)
_MAX_WORD = 128  # characters (the same file)


@dataclass(frozen=True, slots=True)
class EventRecorderStatistics:
    """The counts of a recorder so far.

    Attributes:
        recorded: Valid calls of `record`.
        sent: Requests that the server accepted.
        folded: Calls that became part of a series, without a request of their own.
        dropped: Lost events: too many about one object, a full queue, or not accepted by the server.
    """

    recorded: int
    sent: int
    folded: int
    dropped: int


class _EventDocument(TypedDict):
    """An Event in JSON (api/events/v1/types.go)."""

    apiVersion: str
    kind: str
    metadata: dict[str, str]  # name and namespace
    eventTime: str
    reportingController: str
    reportingInstance: str
    action: str
    reason: str
    regarding: dict[str, str]
    note: str
    type: str
    related: NotRequired[dict[str, str]]


class _Job(NamedTuple):
    key: Hashable
    occurrences: Occurrences
    document: _EventDocument


class EventRecorder:
    """Records Events about objects, and never blocks the caller.

    ::

        async with EventRecorder(client, controller="foo-operator.example.com") as events:
            events.record(foo, "Scaled", f"to {replicas} replicas")
            events.record(foo, "NoSuchImage", str(error), type="Warning")

    Events are for people. They may be merged or lost, so nothing may depend on one. A repeat (equal except for its
    note) within 6 minutes of the last becomes part of a series: the server receives the second one, then an update
    every half hour and at the end. For each object, 25 different events are sent at once, then one every 5 minutes. If
    the server does not answer, an event is sent 12 times in about 2 minutes. (client-go, tools/events and tools/record)

    Args:
        client: An entered client.
        controller: The name of the reporter, with a domain, at most 128 characters.
        instance: The name of this process. By default, the host name, which is the pod's name.
        queue_size: The maximum number of events waiting for the server. A full queue drops new ones. 1000 by default,
            as in client-go.
        shutdown_timeout: Seconds for sending the waiting events on exit. 2 by default.
        clock: Its `wall` is written into the events, and its `loop` times the series.

    Raises:
        ConfigError: A name is empty or longer than 128 characters.
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
        instance = socket.gethostname()[:_MAX_WORD] if instance is None else instance
        for option, name in (("controller", controller), ("instance", instance)):
            if not 0 < len(name) <= _MAX_WORD:
                raise ConfigError(f"EventRecorder: invalid {option}={name!r}: expected 1 to {_MAX_WORD} characters")
        self._client = client
        self._controller = controller
        self._instance = instance
        self._queue_size = queue_size
        self._shutdown_timeout = shutdown_timeout
        self._clock = clock
        self._queue: deque[_Job] = deque()
        self._series = EventSeries()
        self._buckets = TokenBuckets()
        self._documents: dict[Hashable, _EventDocument] = {}
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False
        self._next_series_check = 0.0
        self._number = 0
        self._counts: Counter[str] = Counter()

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise RuntimeError("an EventRecorder can be entered only once; create a new one")
        self._task = asyncio.get_running_loop().create_task(
            self._send_until_closed(), name=f"kinformer events of {self._controller}"
        )
        return self

    @shielded_from_scopes
    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._closing = True
        self._wake.set()
        try:
            await asyncio.wait({self._task}, timeout=self._shutdown_timeout)
        finally:
            if not self._task.done():
                self._task.cancel()
                await asyncio.wait({self._task})
            self._drop(len(self._queue), "the recorder was exited")
            self._queue.clear()
        if not self._task.cancelled():
            self._task.result()

    def record(
        self,
        regarding: ApiObject,
        reason: str,
        note: str = "",
        *,
        action: str | None = None,
        type: str = "Normal",  # noqa: A002 - the name of the field
        related: ApiObject | None = None,
    ) -> bool:
        """Record an event, without blocking. Returns True if it will be sent, now or as part of a series.

        Args:
            regarding: The object of the event: a KubeObject, a dict or a model, with apiVersion and kind.
            reason: The reason, as one word in CamelCase.
            note: The message for people, cut after 1024 bytes. Invalid UTF-8, as in file names, becomes a `?`.
            action: The action taken, as one word. By default, the reason.
            type: `"Normal"` or `"Warning"`.
            related: Another object involved in the event.

        Raises:
            ValueError: The server would not accept a reason, action or type, or an object has no kind.
            KeyFuncError: `regarding` or `related` is not an object.
        """
        note = _utf8(note)[:_MAX_NOTE].decode(errors="ignore")
        reason, action = (_utf8(word).decode() for word in (reason, reason if action is None else action))
        for option, word in (("reason", reason), ("action", action)):
            if not 0 < len(word) <= _MAX_WORD:
                raise ValueError(f"record: invalid {option}={word!r}: expected 1 to {_MAX_WORD} characters")
        if type not in ("Normal", "Warning"):
            raise ValueError(f"record: invalid type={type!r}: expected 'Normal' or 'Warning'")
        about, other = _reference_to(regarding), None if related is None else _reference_to(related)
        self._counts["recorded"] += 1
        now = self._clock.loop()
        identity = (about.kind, about.namespace, about.name, about.uid)
        key = (*identity, type, reason, action, None if other is None else (other.kind, other.uid, other.name))
        if (ended := self._series.ended(key, now)) is not None:
            self._queue.append(_Job(key, ended, self._documents[key]))
        occurrences, is_news = self._series.occurred(key, now)
        if not is_news:
            self._counts["folded"] += 1
            return True
        if occurrences.count == 1 and not self._buckets.take(identity, now):
            self._series.forget(key, occurrences)
            return self._drop(1, f"too many events about {about.kind} {about.name}")
        if self._closing or len(self._queue) >= self._queue_size:
            self._series.forget(key, occurrences)
            return self._drop(1, "too many events are waiting for the server")
        if occurrences.count == 1:
            self._documents[key] = self._new_document(about, other, reason, action, type, note)
        self._queue.append(_Job(key, occurrences, self._documents[key]))
        self._wake.set()
        return True

    def statistics(self) -> EventRecorderStatistics:
        """Return the counts so far."""
        counts = self._counts
        return EventRecorderStatistics(counts["recorded"], counts["sent"], counts["folded"], counts["dropped"])

    def _drop(self, count: int, why: str) -> bool:
        """Count lost events, and return False."""
        if count:
            self._counts["dropped"] += count
            log.debug("%d events of %s were dropped: %s", count, self._controller, why, reason="events_dropped")
        return False

    def _new_document(
        self, about: ObjectReference, other: ObjectReference | None, reason: str, action: str, kind: str, note: str
    ) -> _EventDocument:
        self._number += 1
        # A unique name: the object's name, the time, and a counter.
        suffix = f".{int(self._clock.wall() * 1e6):x}{self._number % 0xFFFF:04x}"
        name = about.name[: 253 - len(suffix)].rstrip(".-")
        if not DNS_SUBDOMAIN.fullmatch(name):
            name = str(uuid.uuid4())  # a name in RBAC may be "system:node", but not an Event's
        document: _EventDocument = {
            "apiVersion": _EVENTS.api_version,
            "kind": "Event",
            "metadata": {"name": name + suffix, "namespace": about.namespace or "default"},
            "eventTime": micro_time(self._clock.wall()),
            "reportingController": self._controller,
            "reportingInstance": self._instance,
            "action": action,
            "reason": reason,
            "regarding": about.as_json(),
            "note": note,
            "type": kind,
        }
        if other is not None:
            document["related"] = other.as_json()
        return document

    # --- sending ---------------------------------------------------------------------------------------------

    async def _send_until_closed(self) -> None:
        self._next_series_check = self._clock.loop() + _SERIES_CHECK
        while not self._closing:
            self._wake.clear()
            if not self._queue:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.0, self._next_series_check - self._clock.loop())):
                        await self._wake.wait()
            self._queue_due_series()
            await self._send_queue()
        for key, occurrences in list(self._series.unfinished()):
            self._queue.append(_Job(key, occurrences, self._documents[key]))
        await self._send_queue()

    async def _send_queue(self) -> None:
        while self._queue:
            await self._deliver(self._queue[0])
            self._queue.popleft()  # only now, so that an event interrupted by the exit counts as dropped
            self._queue_due_series()  # here too, because under load the queue is never empty

    def _queue_due_series(self) -> None:
        now = self._clock.loop()
        if now < self._next_series_check:
            return
        self._next_series_check = now + _SERIES_CHECK
        for key, occurrences in self._series.due(now):
            self._queue.append(_Job(key, occurrences, self._documents[key]))
        if len(self._documents) > len(self._series):
            waiting = {job.key for job in self._queue}
            self._documents = {
                key: document for key, document in self._documents.items() if key in waiting or key in self._series
            }

    async def _deliver(self, job: _Job) -> None:
        """Send an event, or give it up. Never raises an error of the network or the server."""
        occurrences = job.occurrences
        for attempt in range(_ATTEMPTS):
            if occurrences.sent_count == occurrences.count:
                return  # an earlier job has sent this count
            try:
                await self._send(job, is_retry=attempt > 0)
                self._counts["sent"] += 1
                return
            except NotFoundError as error:
                if occurrences.place is None:  # the namespace does not exist
                    self._give_up(job, error)
                    return
                occurrences.place = None  # the series' Event is gone, so create a new one
                job = job._replace(document=self._renamed(job.document))
            except (ConnectError, ServerError, TooManyRequestsError) as error:
                if attempt == _ATTEMPTS - 1:
                    self._give_up(job, error)
                    return
                pause = _PAUSE * random.random() if attempt == 0 else _PAUSE
                await asyncio.sleep(max(pause, min(getattr(error, "retry_after", None) or 0.0, RETRY_AFTER_CAP)))
            except (KinformerError, UnicodeError) as error:  # UnicodeError: an object's name is not UTF-8
                self._give_up(job, error)
                return

    def _give_up(self, job: _Job, error: BaseException) -> None:
        self._series.forget(job.key, job.occurrences)
        self._counts["dropped"] += 1
        about = job.document["regarding"]
        key = _utf8(f"{about.get('namespace', '')}/{about.get('name', '')}".lstrip("/")).decode()
        message = "event %s about %s %s was dropped: %s"
        what, cluster = (job.document["reason"], about.get("kind", ""), key), cluster_of(self._client)
        log.warning(message, *what, error, key=key, reason=error, cluster=cluster)

    def _renamed(self, document: _EventDocument) -> _EventDocument:
        self._number += 1
        name = f"{document['metadata']['name'][:248]}{self._number % 0xFFFF:04x}"
        return {**document, "metadata": {**document["metadata"], "name": name}}

    async def _send(self, job: _Job, *, is_retry: bool) -> None:
        occurrences, document = job.occurrences, job.document
        count, now = occurrences.count, self._clock.loop()
        series: dict[str, object] | None = None
        if count > 1:
            wall = self._clock.wall() - (now - occurrences.last)
            series = {"count": count, "lastObservedTime": micro_time(wall)}
        if occurrences.place is None:
            body = document if series is None else {**document, "series": series}
            namespace, name = document["metadata"]["namespace"], document["metadata"]["name"]
            try:
                await self._client.request("POST", _EVENTS.path(namespace), body=body, retries=0)
            except AlreadyExistsError:
                if not is_retry:
                    raise
                # An earlier attempt arrived, but its response was lost. Its count may have been lower.
                count = occurrences.sent_count or 1
            occurrences.place = (namespace, name)
        else:
            await self._client.request("PATCH", _EVENTS.path(*occurrences.place), body={"series": series}, retries=0)
        occurrences.sent_count, occurrences.sent_at = count, now


def _utf8(text: str) -> bytes:
    # `str` of an error can contain half a surrogate pair, which JSON and logs cannot.
    return text.encode(errors="replace")


def _reference_to(obj: ApiObject) -> ObjectReference:
    reference = ObjectReference.to(obj)
    if not reference.kind:
        raise ValueError(f"record: invalid object {obj!r}: expected one with a kind")
    return reference
