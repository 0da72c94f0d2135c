"""The director of one history: counts the points that replicas reach, and applies the faults there."""

from __future__ import annotations

import asyncio
import zlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kinformer.apiserver.status import conflict, failure
from kinformer.exceptions import APIError
from kinformer.testing.explore.faults import BY_NAME
from kinformer.testing.explore.patches.marks import CHECKED, ELECTION, FENCES
from kinformer.testing.explore.replica import Replica
from kinformer.testing.explore.rules.sent import SENT, ProcessReads, SentRequest
from kinformer.testing.explore.schedule import Point, Schedule, Strike
from kinformer.testing.explore.server import ACTOR, ExploredServer
from kinformer.testing.explore.trace import Trace
from kinformer.testing.http.call import HTTPCall

__all__ = ["PLACE_HEADER", "Director"]

PLACE_HEADER = "X-Explored-Place"
_SPREAD = 0.001  # seconds over which simultaneous requests arrive
_SILENCE = 120.0  # seconds without a response, longer than any client waits
_BEHIND = 3  # revisions by which the cache lags when a killed replica restarts
_ACTING = 0.005  # seconds in which a replica can act on an event before it is killed
_FOREIGN = "kinformer.dev/another-client"


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""
    resourceVersion: str = ""  # noqa: N815 - its name on the wire


class _Object(msgspec.Struct):
    metadata: _Meta


class _Event(msgspec.Struct):
    type: str
    object: _Object


_decode_event = msgspec.json.Decoder(_Event).decode
_EVENTS = ("ADDED", "MODIFIED", "DELETED")


class Director:
    """Serves the requests of one history.

    The history sets `server` once, and adds each replica before it starts. `struck` and `jumped` grow as faults strike.

    Args:
        schedule: The faults.
        trace: The trace that records the events.
        now: The virtual time.
        disturbed: Called with the time until which a fault lasts.
        delete_definition: Deletes the definition of a resource, and creates it again after a number of seconds.
        delete_namespace: Deletes a namespace, and creates it again after a number of seconds.
    """

    def __init__(
        self,
        schedule: Schedule,
        trace: Trace,
        now: Callable[[], float],
        disturbed: Callable[[float], None],
        delete_definition: Callable[[str, float], None],
        delete_namespace: Callable[[str, float], None],
    ) -> None:
        self._seed = schedule.seed
        self._trace = trace
        self._now = now
        self._disturbed = disturbed
        self._delete_definition = delete_definition
        self._delete_namespace = delete_namespace
        self._foreign = 0
        self._strikes: dict[Point, list[Strike]] = {}
        for strike in schedule.strikes:
            self._strikes.setdefault(strike.at, []).append(strike)
        self.replicas: dict[str, Replica] = {}  # by name
        self.server: ExploredServer | None = None
        self.struck: Counter[Point] = Counter()
        self.jumped = 0.0  # seconds by which clocks have jumped

    def _come_to(self, replica: Replica, verb: str, resource: str) -> list[Strike]:
        """Count that a replica reaches a point, and return the faults that strike there."""
        number = replica.counts[verb, resource]
        replica.counts[verb, resource] = number + 1
        if not replica.faulty:
            return []
        return self._strikes.pop(Point(replica.index, verb, resource, number), [])

    def _jitter(self, replica: Replica, verb: str, resource: str) -> float:
        """Return the delay of a request. With it, the seed decides in which order simultaneous requests arrive."""
        number = replica.counts[verb, resource]
        return zlib.crc32(f"{self._seed} {replica.name} {verb} {resource} {number}".encode()) / 2**32 * _SPREAD

    def _strike(self, strike: Strike, replica: Replica, where: str) -> None:
        """Note that a fault strikes, and until when it lasts."""
        self.struck[strike.at] += 1
        fault = BY_NAME[strike.fault]
        variant = f" ({strike.variant})" if strike.variant else ""
        lasting = f", {strike.seconds:g} s" if strike.seconds else ""
        self._trace.add(
            self._now(), replica.name, "fault", f"** {fault.name}{variant} at {where}: {fault.text}{lasting}"
        )
        if strike.fault == "ClockJump":  # over at once, but a program that goes by that clock may be late by so much
            self.jumped += strike.seconds
            self._disturbed(self._now())
        else:
            self._disturbed(self._now() + strike.seconds)

    # -- requests -------------------------------------------------------------------------------------------------

    async def serve(self, call: HTTPCall, handle: Callable[[], Awaitable[None]]) -> None:
        """Answer a request."""
        transport = call.request.transport
        owner = "" if transport is None else transport.get_extra_info("process", "")
        replica = self.replicas.get(owner.partition("#")[0])
        if replica is None or not call.info.plural:
            await handle()
            return
        ACTOR.set(replica.name)
        sent = self._sent(replica, owner, call)
        SENT.set(sent)
        info = call.info
        await asyncio.sleep(self._jitter(replica, info.verb, info.resource))
        strikes = self._come_to(replica, info.verb, info.resource)
        if _takes_cached(call):
            strikes = [*strikes, *self._come_to(replica, "cached", info.resource)]
        where = _target(call)
        call.response.before_head = self._note_status(replica, call, where)
        if replica.behind:
            self._fall_behind(replica, call, replica.behind, 5.0)
        if info.verb == "watch":
            call.response.before_data = self._watch_lines(replica, sent, call)
        for strike in strikes:
            await self._strike_request(strike, replica, call, where)
        call.response.before_head = self._note_read(sent, call)
        await handle()

    def _sent(self, replica: Replica, owner: str, call: HTTPCall) -> SentRequest:
        headers = call.request.headers
        return SentRequest(
            replica.name,
            owner,
            call.info,
            self._now(),
            replica.reads if owner == replica.owner else ProcessReads(),
            is_checked=CHECKED in headers,
            is_apply=call.content_type.startswith("application/apply-patch"),
            fences=tuple(name for name in headers.get(FENCES, "").split(",") if name),
            is_election=ELECTION in headers,
        )

    def _note_read(self, sent: SentRequest, call: HTTPCall) -> Callable[[int], Awaitable[None]]:
        """Note what a response tells the program, unless it is lost."""
        before, info = call.response.before_head, call.info
        assert self.server is not None, "there is a server when requests come"
        storage = self.server.storage

        async def note(status: int) -> None:
            revision = storage.revision
            if before is not None:
                await before(status)
            if status >= 300 or info.verb == "watch":
                return
            if info.verb == "list":
                sent.reads.note_kind(info.resource, revision - call.behind)
            elif info.name:
                key = (_base(call), _key(call))
                (sent.reads.note_object if info.verb == "get" else sent.reads.note_answer)(key, revision)

        return note

    def _note_status(self, replica: Replica, call: HTTPCall, where: str) -> Callable[[int], Awaitable[None]]:
        async def note(status: int) -> None:
            self._trace_request(replica, call, f"{where}: {status}")

        return note

    def _trace_request(self, replica: Replica, call: HTTPCall, text: str) -> None:
        place = call.request.headers.get(PLACE_HEADER, "")
        self._trace.add(self._now(), replica.name, "request", text, _objects(call), place)

    async def _strike_request(self, strike: Strike, replica: Replica, call: HTTPCall, where: str) -> None:
        fault, variant, seconds = strike.fault, strike.variant, strike.seconds
        self._strike(strike, replica, where)
        if fault == "LostAnswer":  # and the events that would show the write to the replica are delayed
            replica.late_until[_base(call)] = self._now() + seconds
            call.response.before_head = self._lose_answer(strike, replica, call, where)
        elif fault == "Stale":
            self._fall_behind(replica, call, int(variant), seconds)
        elif fault in ("Restart", "Pause", "Stop", "ClockJump"):
            await self._strike_replica(strike, replica, call, where)
        elif fault in ("Slow", "LostRequest"):
            await self._hold(strike, call)
        elif fault == "Refused":
            details = {"retryAfterSeconds": 1} if variant == "429" else None
            raise failure(int(variant), "refused by a fault", details=details)
        elif fault == "Conflict":
            raise conflict(call.info.group, call.info.plural, call.info.name, "the object has been modified")
        else:
            self._change_world(fault, call, seconds)

    async def _strike_replica(self, strike: Strike, replica: Replica, call: HTTPCall, where: str) -> None:
        fault, variant, seconds = strike.fault, strike.variant, strike.seconds
        if fault == "Pause":
            replica.pause(seconds)
        elif fault == "Stop":
            replica.stop(seconds)
        elif fault == "ClockJump":
            replica.jump(seconds if variant == "+" else -seconds)
        elif variant == "after":
            call.response.before_head = self._lose_answer(strike, replica, call, where)
        else:
            await self._kill(strike, replica, call)

    async def _kill(self, strike: Strike, replica: Replica, call: HTTPCall) -> None:
        replica.behind = _BEHIND if strike.variant == "stale" else 0
        replica.kill(strike.seconds)
        await call.response.close()

    async def _be_silent(self) -> None:
        self._disturbed(self._now() + _SILENCE)  # a program that waits for the response is not at rest
        await asyncio.sleep(_SILENCE)

    async def _hold(self, strike: Strike, call: HTTPCall) -> None:
        if strike.fault == "LostRequest":
            if strike.variant == "silence":
                await self._be_silent()
            await call.response.close()
        elif strike.variant == "before":
            await asyncio.sleep(strike.seconds)
        else:
            note = call.response.before_head

            async def slowly(status: int) -> None:
                await asyncio.sleep(strike.seconds)
                if note is not None:
                    await note(status)

            call.response.before_head = slowly

    def _lose_answer(
        self, strike: Strike, replica: Replica, call: HTTPCall, where: str
    ) -> Callable[[int], Awaitable[None]]:
        async def lose(status: int) -> None:
            self._trace_request(replica, call, f"{where}: {status}, but there is no answer")
            if strike.fault == "Restart":
                replica.kill(strike.seconds)
            elif strike.variant == "504":
                raise failure(504, "the server was unable to return a response in the time allotted")
            elif strike.variant == "silence":
                await self._be_silent()
            await call.response.close()

        return lose

    def _fall_behind(self, replica: Replica, call: HTTPCall, revisions: int, seconds: float) -> None:
        """Answer a read that accepts cached data from an older state, and delay the events that would follow."""
        if _takes_cached(call):
            call.behind = revisions
            replica.late_until[call.info.resource] = self._now() + seconds
            self._disturbed(self._now() + seconds)

    def _change_world(self, fault: str, call: HTTPCall, seconds: float) -> None:
        """Change the cluster as another client would."""
        server, info = self.server, call.info
        assert server is not None, "there is a server when requests come"
        token = ACTOR.set("another client")
        try:
            base = _base(call)
            if fault == "ForeignChange":
                obj = server.get(base, info.namespace, info.name)
                if obj is not None:
                    self._foreign += 1
                    obj["metadata"].setdefault("annotations", {})[_FOREIGN] = str(self._foreign)
                    server.update(obj)
            elif fault == "NamespaceDeleted" and info.namespace:
                self._delete_namespace(info.namespace, seconds)
            elif fault == "DefinitionDeleted":
                self._delete_definition(base, seconds)
        except APIError as error:
            self._trace.add(self._now(), "another client", "write", f"could not: {error}")
        finally:
            ACTOR.reset(token)

    # -- events ---------------------------------------------------------------------------------------------------

    def _watch_lines(self, replica: Replica, sent: SentRequest, call: HTTPCall) -> Callable[[bytes], Awaitable[bytes]]:
        """Return the function that each chunk of a watch passes through. It delays events, and applies faults."""
        resource = call.info.resource
        stream = call.response

        async def pace(data: bytes) -> bytes:
            ready: list[bytes] = []
            for line in data.splitlines(keepends=True):
                try:
                    event = _decode_event(line)
                except msgspec.MsgspecError:
                    ready.append(line)  # an ERROR event has a Status, without these fields
                    continue
                metadata = event.object.metadata
                version = metadata.resourceVersion
                if event.type in _EVENTS:
                    strikes = self._come_to(replica, "event", resource)
                    held = replica.late_until.get(resource, 0.0) - self._now()
                    if ready and (strikes or held > 0):
                        await stream.write_now(b"".join(ready))
                        ready.clear()
                    if held > 0 and not call.behind:
                        await asyncio.sleep(held)
                    key = f"{metadata.namespace}/{metadata.name}" if metadata.namespace else metadata.name
                    for strike in strikes:
                        await self._strike_event(strike, replica, call, f"{event.type} {resource} {key}", line)
                    message = f"receives {event.type} {resource} {key} at {version}"
                    self._trace.add(self._now(), replica.name, "event", message, (f"{resource} {key}",))
                elif call.behind:
                    call.behind = 0  # the initial state has been sent, and later events are delayed
                if version.isdigit():
                    sent.reads.note_kind(resource, int(version))
                ready.append(line)
            return b"".join(ready)

        return pace

    async def _strike_event(self, strike: Strike, replica: Replica, call: HTTPCall, where: str, line: bytes) -> None:
        fault, variant = strike.fault, strike.variant
        self._strike(strike, replica, where)
        if fault == "LateEvents":
            await asyncio.sleep(strike.seconds)
        elif fault == "Pause":
            replica.pause(strike.seconds)
        elif fault == "Restart":
            if variant == "after":
                await call.response.write_now(line)
                await asyncio.sleep(_ACTING)
            await self._kill(strike, replica, call)
        elif fault == "CutWatch":
            if variant == "line":
                await call.response.write_now(line[: len(line) // 2])
            elif variant == "410":
                gone: dict[str, Any] = failure(410, "too old resource version").body  # type: ignore[assignment]
                await call.response.write_now(b'{"type":"ERROR","object":%s}\n' % msgspec.json.encode(gone))
            await call.response.close()
        elif fault == "Folded":
            assert self.server is not None, "there is a server when events go"
            await asyncio.sleep(strike.seconds)
            await self.server.compact()
            await call.response.close()


def _takes_cached(call: HTTPCall) -> bool:
    """Return True for a read that accepts cached data."""
    return call.info.verb in ("list", "watch") and call.params.get("resourceVersion") == "0"


def _target(call: HTTPCall) -> str:
    info = call.info
    name = "/".join(part for part in (info.namespace if info.plural != "namespaces" else "", info.name) if part)
    version = call.params.get("resourceVersion")
    since = f" from {version}" if version is not None and info.verb in ("list", "watch") else ""
    return f"{info.verb} {info.resource}{f' {name}' if name else ''}{since}"


def _base(call: HTTPCall) -> str:
    """Return the resource of a request, without a subresource."""
    return f"{call.info.api_version}/{call.info.plural}"


def _objects(call: HTTPCall) -> tuple[str, ...]:
    info = call.info
    if not info.name:
        return (info.resource,)
    return (f"{_base(call)} {_key(call)}",)


def _key(call: HTTPCall) -> str:
    info = call.info
    return f"{info.namespace}/{info.name}" if info.namespace and info.plural != "namespaces" else info.name
