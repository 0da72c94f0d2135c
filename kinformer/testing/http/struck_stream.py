"""Watches with faults: events that are lost, doubled or garbled, and streams that end early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kinformer.apiserver.line_queue import Line, Watcher
from kinformer.apiserver.status import expired
from kinformer.apiserver.stream import WatchResponse
from kinformer.objects.paths.printing import go_json
from kinformer.testing.api.request import RequestInfo
from kinformer.testing.faults import FaultHandle, Faults
from kinformer.testing.http.struck_response import StruckResponse

__all__ = ["StruckStream"]

# Kinds of faults that strike between two lines, and not at a line.
_STRUCK_BETWEEN_LINES = frozenset({"silent_close", "expired", "reset", "stall", "rewind"})


class StruckStream(WatchResponse):
    """One open watch, with the faults that strike it."""

    def __init__(
        self,
        response: StruckResponse,
        watcher: Watcher[bytes],
        faults: Faults,
        info: RequestInfo,
        *,
        floor: Callable[[], int],
        rewind: Callable[[int], None],
        media: str,
        compress: bool,
    ) -> None:
        super().__init__(response, watcher, media=media, compress=compress)
        self._struck = response
        self._faults = faults
        self._info = info
        self._floor = floor
        self._rewind = rewind
        self._sent = 0  # ADDED, MODIFIED and DELETED lines so far

    async def run(self) -> None:
        """Send lines until the watch ends."""
        self._faults.listeners[self._watcher.wake] = None
        try:
            await self._strike_between_lines()
            await super().run()
        finally:
            self._faults.listeners.pop(self._watcher.wake, None)

    async def _send(self, batch: list[Line[bytes]]) -> None:
        if not self._faults.for_request(self._info):
            await super()._send(batch)
            self._sent += sum(1 for line in batch if line.event)
            return
        await self._strike_between_lines()
        for line in batch:
            if self._ended:
                return
            for data in await self._struck_line(line):
                await self._write(data)
            if line.event:
                self._sent += 1
            await self._strike_between_lines()

    def _due_faults(self) -> list[FaultHandle]:
        return [handle for handle in self._faults.for_request(self._info) if self._sent >= (handle.after_events or 0)]

    async def _strike_between_lines(self) -> None:
        for handle in self._due_faults():
            kind = handle.fault.kind
            late_status = kind == "status" and handle.after_events is not None
            if self._ended or not (kind in _STRUCK_BETWEEN_LINES or late_status) or not handle.strike():
                continue
            if kind == "silent_close":
                self._ended = True
            elif kind == "rewind":
                self._rewind(handle.fault.revisions)
                await self._struck.close()
            elif kind == "expired":
                floor = self._floor()
                message = f"too old resource version: {max(0, floor - 1)} ({floor})"
                await self._send_error(go_json(expired(message).body))
            elif late_status:
                error = handle.fault.error
                assert error is not None
                body = {"status": "Failure", "message": error.body, "code": error.code}
                await self._send_error(go_json(body if isinstance(error.body, str) else error.body))
            else:
                await self._struck.cut_or_stall(handle.fault)

    async def _send_error(self, status: bytes) -> None:
        await self._write(b'{"type":"ERROR","object":%s}\n' % status)
        self._ended = True

    async def _struck_line(self, line: Line[bytes]) -> list[bytes]:
        """Return the byte strings to send for a line, after faults."""
        data = [line.data]
        for handle in self._due_faults():
            kind = handle.fault.kind
            if kind == "no_initial_events_end":
                if line.end_of_initial and handle.strike():
                    return []
            elif not line.event or (kind == "delay" and handle.after_events is None):
                continue
            elif kind == "drop_event" and handle.strike():
                return []
            elif kind == "duplicate_event" and handle.strike():
                data = data * 2
            elif kind == "garble" and handle.strike():
                middle = len(line.data) // 2
                data = [line.data[:middle].replace(b'"', b"}") + b"\xff" + line.data[middle:]]
            elif kind == "delay" and handle.strike():
                await asyncio.sleep(handle.fault.seconds)
            elif kind == "close_mid_line" and handle.strike():
                await self._write(line.data[: len(line.data) // 2])
                await self._struck.close()
        return data
