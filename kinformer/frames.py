"""Frames: the bytes of a watch become lines."""

from __future__ import annotations

from kinformer.exceptions import DecodeError

__all__ = ["MAX_EVENT_BYTES", "LineFramer"]

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Bytes; what client-go takes at most for one event (apimachinery, pkg/runtime/serializer/streaming)."""


class LineFramer:
    r"""Cuts a stream of chunks into lines.

    A line ends with `\n` alone; a `\r` before it is dropped. Nothing else separates: U+0085 and U+2028 may stand
    inside a JSON string. Empty lines are skipped. Each byte is looked at once and joined at most once, however the
    chunks fall.

    Args:
        max_event_bytes: Bytes that one line may have. 16 MiB, as in client-go; etcd itself takes 1.5 MiB by default.
    """

    __slots__ = ("_error", "_max", "_parts", "_size")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._parts: list[bytes] = []  # of a line whose end has not come; none of them holds a newline
        self._size = 0
        self._error: DecodeError | None = None

    @property
    def pending(self) -> int:
        """Bytes held of a line whose end has not come. At the end of a stream they are a fragment to be dropped."""
        return self._size

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[bytes]:
        """The lines that are complete with this chunk, in order, without their ends.

        Raises:
            DecodeError: a line is longer than the cap. The lines before it are returned first; the error comes with
                the next call, and with each one after that.
        """
        self._raise_unless([])
        data = chunk if isinstance(chunk, bytes) else bytes(chunk)
        lines: list[bytes] = []
        start = 0
        # A loop of find is a memchr; split and splitlines look at byte after byte, and cost a tenth of a watch.
        end = data.find(b"\n")
        if end >= 0 and self._parts:
            self._parts.append(data[:end])
            line = b"".join(self._parts)
            self._parts.clear()
            self._size = 0
            self._take(line, lines)
            start = end + 1
            end = data.find(b"\n", start)
        find, most, take = data.find, self._max, lines.append
        while end >= 0:
            line = data[start:end]
            # The rare line is looked at twice.
            if end - start <= most and line and line[-1] != 0x0D and self._error is None:
                take(line)
            else:
                self._take(line, lines)
            start = end + 1
            end = find(b"\n", start)
        if start < len(data):
            self._parts.append(data[start:] if start else data)
            self._size += len(data) - start
            self._check(self._size)
        self._raise_unless(lines)
        return lines

    def _raise_unless(self, lines: list[bytes]) -> None:
        if self._error is not None and not lines:
            raise self._error

    def _take(self, line: bytes, lines: list[bytes]) -> None:
        if line.endswith(b"\r"):
            line = line[:-1]
        if line and self._check(len(line)) and self._error is None:
            lines.append(line)

    def _check(self, size: int) -> bool:
        if size <= self._max:
            return True
        self._parts.clear()
        self._size = 0
        self._error = DecodeError(f"an event is longer than max_event_bytes={self._max}")
        return False
