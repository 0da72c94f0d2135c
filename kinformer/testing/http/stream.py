"""Sends a watch as lines of a chunked body, and applies faults to them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kinformer.objects.paths.printing import go_json
from kinformer.serving.status import expired
from kinformer.serving.watcher import Line, Watcher
from kinformer.testing.api.request import RequestInfo
from kinformer.testing.codec.protobuf_encoder import PROTOBUF_STREAM, encode_lines
from kinformer.testing.faults import FaultHandle, Faults
from kinformer.testing.http.responses import JSON, ResponseWriter

__all__ = ["WatchStream"]

_STRUCK_BETWEEN_LINES = frozenset({"silent_close", "expired", "reset", "stall", "rewind"})  # strike between lines


class WatchStream:
    """One open watch."""

    def __init__(
        self,
        response: ResponseWriter,
        watcher: Watcher[bytes],
        faults: Faults,
        info: RequestInfo,
        *,
        floor: Callable[[], int],
        rewind: Callable[[int], None],
        protobuf: bool = False,
        compress: bool = False,
    ) -> None:
        self._response = response
        self._watcher = watcher
        self._faults = faults
        self._info = info
        self._floor = floor
        self._rewind = rewind
        self._protobuf = protobuf
        self._compress = compress
        self._sent = 0  # ADDED, MODIFIED and DELETED lines
        self._ended = False

    async def run(self) -> None:
        """Send until the watch ends."""
        watcher = self._watcher
        content_type = PROTOBUF_STREAM if self._protobuf else JSON
        await self._response.start_stream(compress=self._compress, content_type=content_type)
        self._faults.listeners[watcher.wake] = None
        try:
            await watcher.open()
            await self._strike_between_lines()
            while not self._ended:
                batch = await watcher.next_batch()
                if batch is None:
                    break
                await self._send(batch)
            await self._response.finish()
        finally:
            self._faults.listeners.pop(watcher.wake, None)
            watcher.close()

    async def _send(self, batch: list[Line[bytes]]) -> None:
        if self._protobuf:
            batch = [
                Line(encode_lines(line.data), event=line.event, end_of_initial=line.end_of_initial) for line in batch
            ]
        if not self._faults.for_request(self._info):
            await self._write(b"".join([line.data for line in batch]))
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

    async def _write(self, data: bytes) -> None:
        self._watcher.set_blocked(True)
        try:
            await self._response.write(data)
        finally:
            self._watcher.set_blocked(False)

    def _due_faults(self) -> list[FaultHandle]:
        return [one for one in self._faults.for_request(self._info) if self._sent >= (one.after_events or 0)]

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
                await self._response.close()
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
                await self._response.cut_or_stall(handle.fault)

    async def _send_error(self, status: bytes) -> None:
        line = b'{"type":"ERROR","object":%s}\n' % status
        await self._write(encode_lines(line) if self._protobuf else line)
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
                await self._response.close()
        return data
