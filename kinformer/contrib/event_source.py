"""Server-sent events: sends the changes of a cache to a browser in one long response.

Each change is an event with an id. A browser that reconnects sends the last id that it has seen, and gets the changes
after it. If these are no longer kept, it gets a `RESET` event, which means to drop its state, and all objects again.
In such a snapshot only the last event has an id, because a reader cannot resume from the middle of it. (WHATWG HTML,
9.2 Server-sent events.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import perf_counter
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from kinformer import Collection, KinformerError, LabelSelector
from kinformer._lazy import needs_extra
from kinformer.contrib.event_log import Entry, EventLog, LoggedChange, LogSnapshot
from kinformer.contrib.shutdown import LiveResponse, Write

with needs_extra("fastapi", "starlette"):
    from starlette.types import Scope

__all__ = ["EventSourceResponse", "Sight", "folded", "sse_response"]

Render = Callable[[str, str, Any], bytes]
Matches = Callable[[Mapping[str, str]], bool]

_CHUNK = 64 * 1024  # bytes passed to the server at once, as much as asyncio's transports buffer
_FOLD_ABOVE = 64  # changes by which a reader may lag before it gets only the last state of each object

_SLICE = 0.001  # seconds of work before yielding to the event loop


class Sight(NamedTuple):
    """A change as sent to a reader: type, informer, object, and the number of the change."""

    kind: str
    source: str
    obj: Entry
    number: int


class EventSourceResponse(LiveResponse):
    """A response that continues until the browser disconnects, the informers stop, or the server ends.

    A browser costs the memory of one chunk and, during its snapshot, a list of references that is shared with all
    browsers that connected before the next change. This holds for slow browsers too: if one lags behind, changes of
    the same object are folded into the last one.

    Args:
        log: The changes to send.
        matches: Takes labels and returns True if the object is shown. An object that starts or stops matching is an
            add or a delete.
        render: Takes an event's type, the informer's name and the object, and returns the `data` to send. By default,
            the object's JSON as stored.
        wait_synced: Send no objects before the first lists are complete.
        pause: Seconds between two batches of changes, for pages that need not show each change within milliseconds.
        beat: Returns bytes to send every `interval` seconds. By default, a comment, but only if nothing else was sent.
        interval: Seconds. The default is 15, because proxies close connections that are silent for 30 or 60.
        patience: Seconds that a browser may take for a chunk before it is disconnected. It reconnects with its last
            id.
    """

    media_type = "text/event-stream"

    def __init__(
        self,
        log: EventLog,
        *,
        matches: Matches | None = None,
        render: Render | None = None,
        wait_synced: bool = True,
        pause: float = 0.0,
        beat: Callable[[], bytes] | None = None,
        interval: float = 15.0,
        patience: float = 60.0,
    ) -> None:
        super().__init__("event stream", patience)
        self._log = log
        self._matches = matches
        self._render = render or (lambda _type, _source, obj: obj.raw)
        self._wait_synced = wait_synced
        self._pause = pause
        self._beat = beat
        self._interval = interval
        self._written = 0.0  # the time of the last write

    async def write_content(self, scope: Scope, write: Write) -> None:
        """Send the objects and every change, until the log ends.

        :meta private:
        """
        now = asyncio.get_running_loop().time
        self._written = now()

        async def noted(chunk: bytes) -> None:
            await write(chunk)
            self._written = now()

        await self._run(_last_id(scope), noted)

    # --- the stream --------------------------------------------------------------------------------------

    async def _run(self, last_id: str | None, write: Write) -> None:
        log = self._log
        beating = 0.0  # the time of the next beat
        if self._wait_synced and not await self._synced(write):
            return
        place = None if last_id is None else await log.resume(last_id)
        resumed = place is not None
        if place is None and last_id is not None:
            await write(_event("RESET", None, b"{}"))
        number = await self._send_snapshot(write) if place is None else place
        while True:
            changes = log.since(number)
            if changes is None:  # the reader was too slow, and its next changes are no longer kept
                await write(_event("RESET", None, b"{}"))
                number = await self._send_snapshot(write)
                continue
            if changes:
                number = changes[-1].number
                await self._send(self._events(changes, resumed=resumed), write)
                resumed = False
                if self._pause:
                    await asyncio.sleep(self._pause)
            elif log.ended:
                return
            beating = await self._rest(number, beating, write)

    async def _rest(self, number: int, beating: float, write: Write) -> float:
        """Send a heartbeat if one is due, and wait for changes. Returns the time of the next heartbeat."""
        now = asyncio.get_running_loop().time
        if self._beat is None:
            beating = self._written + self._interval
        if now() >= beating:
            # The id covers changes that were not shown to the browser.
            await write(self._beat() if self._beat else f": still here\nid: {self._log.name_of(number)}\n\n".encode())
            beating = now() + self._interval
        await self._log.wait(number, beating - now())
        return beating

    async def _synced(self, write: Write) -> bool:
        """Wait for the first lists. Returns False if they will never complete."""
        waiting = asyncio.ensure_future(self._log.wait_synced())
        try:
            while not (await asyncio.wait({waiting}, timeout=self._interval))[0]:
                await write(b": waiting for the first list\n\n")
            waiting.result()
        except KinformerError:  # the informer has stopped or crashed, which is reported elsewhere
            return False
        finally:
            waiting.cancel()
        return True

    async def _send_snapshot(self, write: Write) -> int:
        number = self._log.last
        await self._send(self._snapshot_events(self._log.snapshot()), write)
        return number

    def _snapshot_events(self, snapshot: LogSnapshot) -> Iterator[bytes]:
        name = self._log.name_of(snapshot.number)
        shown: tuple[str, Entry] | None = None
        for source, obj in snapshot:
            if not self._shows(obj):
                yield b""  # checking labels that do not match takes time too
                continue
            if shown is not None:
                yield _event("ADDED", None, self._render("ADDED", *shown))
            shown = source, obj
        if shown is None:
            yield f"id: {name}\n\n".encode()  # not an event, but the browser stores the id
        else:
            yield _event("ADDED", name, self._render("ADDED", *shown))

    def _events(self, changes: Iterable[LoggedChange], *, resumed: bool) -> Iterator[bytes]:
        changes = list(changes)
        number = changes[-1].number
        whole = len(changes) <= _FOLD_ABOVE
        seen = [sight for change in changes if (sight := self._seen(change)) is not None]
        if not whole:
            seen = folded(seen, resumed=resumed)
        for place, (kind, source, obj, at) in enumerate(seen, 1):
            # Only the last of some folded changes has an id, because the others include changes before and after them.
            last = place == len(seen)
            name = self._log.name_of(number if last else at) if whole or last else None
            yield _event(kind, name, self._render(kind, source, obj))

    def _seen(self, change: LoggedChange) -> Sight | None:
        """Return a change as seen by this reader, or None if the reader does not see it."""
        was = change.old is not None and self._shows(change.old)
        now = not change.deleted and self._shows(change.new)
        if now:
            return Sight("UPDATED" if was else "ADDED", change.source, change.new, change.number)
        if not was:
            return None
        gone = change.new if change.deleted else change.old or change.new
        return Sight("DELETED", change.source, gone, change.number)

    def _shows(self, obj: Entry) -> bool:
        return self._matches is None or self._matches(obj.labels)

    async def _send(self, events: Iterator[bytes], write: Write) -> None:
        """Write events in chunks, rendered one by one, so that large snapshots do not block the loop or fill memory."""
        until = perf_counter() + _SLICE
        chunk: list[bytes] = []
        size = 0
        for event in events:
            chunk.append(event)
            size += len(event)
            if size >= _CHUNK:
                await write(b"".join(chunk))
                chunk, size = [], 0
            if perf_counter() >= until:
                await asyncio.sleep(0)
                until = perf_counter() + _SLICE
        if size:
            await write(b"".join(chunk))


def sse_response(
    informer: Collection[Any],
    label_selector: str | Mapping[str, str] | LabelSelector | None = None,
    *,
    heartbeat: float = 15.0,
) -> EventSourceResponse:
    """Send the objects of an informer, then every change, to a browser's `EventSource`.

    ``event:`` is ADDED, UPDATED or DELETED, and ``data:`` is the object's JSON as sent by the API server. All objects
    are first sent as ADDED. A browser that reconnects sends its last ``id:``, and gets the changes that it missed. If
    these are no longer kept, ``event: RESET`` means to drop its state, and all objects are sent again. Treat ADDED and
    UPDATED alike, as the current state: a browser that was disconnected may get an object twice, and the delete of an
    object that it does not have.

    Before the informer's first list, only comments are sent. The stream ends when the informer stops, and when uvicorn
    shuts down (see `close_event_streams` for other servers).

    Args:
        informer: An informer or a derived collection that has been entered on this event loop. A value that is not an
            object, or has another key, is sent as ``{"key": ..., "value": ...}``, with dataclasses and Structs as
            objects.
        label_selector: Show only matching objects. An object that starts or stops matching is an add or a delete.
        heartbeat: Seconds of silence after which a comment is sent, so that proxies keep the connection open and a
            dead one is detected.

    Raises:
        SelectorError: The selector is invalid.
    """
    selector = None if label_selector is None else LabelSelector.parse(label_selector)
    matches = None if selector is None else selector.matches
    return EventSourceResponse(_log_of(informer), matches=matches, interval=heartbeat)


# One log for each informer, shared by its readers. It lives from the first reader until the informer stops. If it
# ended with its last reader, that reader could not resume after a reconnect.
_logs: dict[Collection[Any], EventLog] = {}


def _log_of(informer: Collection[Any]) -> EventLog:
    log = _logs.get(informer)
    if log is None:
        log = EventLog({informer.name: informer}, on_end=lambda: _logs.pop(informer, None))
        log.start()
        _logs[informer] = log
    return log


def folded(seen: Iterable[Sight], *, resumed: bool) -> list[Sight]:
    """Fold changes to at most one for each object (identified by uid), in the order of the last change.

    Objects that were added and deleted again are left out unless the reader has `resumed`. It may have been
    disconnected within other folded changes that contained the object.
    """
    new: dict[tuple[str, str, str], bool] = {}
    last: dict[tuple[str, str, str], Sight] = {}
    for sight in seen:
        place = (sight.source, sight.obj.key, sight.obj.uid)
        new.setdefault(place, sight.kind == "ADDED")
        last.pop(place, None)
        last[place] = sight
    return [
        sight if sight.kind == "DELETED" else sight._replace(kind="ADDED" if new[place] else "UPDATED")
        for place, sight in last.items()
        if resumed or sight.kind != "DELETED" or not new[place]
    ]


def _event(kind: str, name: str | None, data: bytes) -> bytes:
    if b"\n" in data or b"\r" in data:  # JSON may contain line breaks, and a line break ends the field
        data = b"\ndata: ".join(data.splitlines())
    head = f"event: {kind}\nid: {name}\ndata: " if name is not None else f"event: {kind}\ndata: "
    return head.encode() + data + b"\n\n"


def _last_id(scope: Scope) -> str | None:
    """Return the last id that a browser has seen, from the header that it sends on reconnecting, or from the URL."""
    for name, value in scope["headers"]:
        if name == b"last-event-id":
            return str(value.decode("latin-1"))
    ids = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("last-event-id")
    return ids[0] if ids else None
