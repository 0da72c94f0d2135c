"""Line framing: cuts the bytes of a watch into lines."""

from __future__ import annotations

from collections.abc import Iterator

from kinformer.exceptions import DecodeError

__all__ = ["MAX_EVENT_BYTES", "LineFramer", "Lines"]

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Bytes; the maximum of client-go for one event (apimachinery, pkg/runtime/serializer/streaming)."""


class Lines:
    r"""The complete lines of one chunk, to be read once and in order.

    They are not cut out: a decoder that reads them in place saves a copy of each. A line may be empty, or end with a
    `\r`, which iteration removes.

    Attributes:
        data: The chunk.
        start: The offset at which the next line begins.
        ends: The offset at which each line ends.
        read: The number of lines that have been read.
        is_ascii: True if the chunk is ASCII, so that no line needs a check for UTF-8.
    """

    __slots__ = ("data", "ends", "is_ascii", "read", "start")

    def __init__(self, data: bytes, start: int = 0) -> None:
        self.data = data
        self.start = start
        self.is_ascii = data.isascii()
        self.ends: list[int] = []
        self.read = 0

    def __len__(self) -> int:
        return len(self.ends) - self.read

    def __iter__(self) -> Iterator[bytes]:
        while self:
            if line := self.take():
                yield line

    def take(self) -> bytes:
        """Return the next line, perhaps an empty one."""
        start, end = self.start, self.ends[self.read]
        self.read += 1
        self.start = end + 1
        return self.data[start:end].removesuffix(b"\r")


class LineFramer:
    r"""Cuts a stream of chunks into lines.

    A line ends with `\n`; a `\r` before it is dropped. No other character separates lines: U+0085 and U+2028 may occur
    inside a JSON string. Empty lines are skipped. Each byte is scanned once and joined at most once, however the chunks
    are cut.

    Args:
        max_event_bytes: The maximum length of a line in bytes. 16 MiB, as in client-go; etcd accepts 1.5 MiB by
            default.
    """

    __slots__ = ("_error", "_max", "_parts", "_size")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._parts: list[bytes] = []  # of a line whose end has not arrived; none of them has a newline
        self._size = 0
        self._error: DecodeError | None = None

    @property
    def pending(self) -> int:
        """The bytes held of a line whose end has not arrived: at the end of a stream, a fragment to be dropped."""
        return self._size

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[Lines]:
        """Return the lines that this chunk completes, in order: one that began in earlier chunks, and the others.

        Raises:
            DecodeError: A line is longer than `max_event_bytes`. The lines before it are returned first; the error is
                raised by the next call, and by each one after that.
        """
        self._raise_unless([])
        data = chunk if isinstance(chunk, bytes) else bytes(chunk)
        found: list[Lines] = []
        start = 0
        # A loop of find is a memchr; split and splitlines test byte after byte, and cost a tenth of a watch.
        end = data.find(b"\n")
        if end >= 0 and self._parts:
            found += self._joined(data[:end])
            start = end + 1
            end = data.find(b"\n", start)
        if end >= 0 and self._error is None:
            lines = Lines(data, start)
            find, most, take = data.find, self._max, lines.ends.append
            while end >= 0:
                # Rarely a line is measured twice.
                if end - start > most and not self._check(len(data[start:end].removesuffix(b"\r"))):
                    break
                take(end)
                start = end + 1
                end = find(b"\n", start)
            found.append(lines)
        if start < len(data) and self._error is None:
            self._parts.append(data[start:] if start else data)
            self._size += len(data) - start
            self._check(self._size)
        self._raise_unless(found)
        return found

    def _raise_unless(self, found: list[Lines]) -> None:
        if self._error is not None and not any(found):
            raise self._error

    def _joined(self, end: bytes) -> list[Lines]:
        """Complete the line that was held, by its end."""
        self._parts.append(end)
        lines = Lines(b"".join(self._parts))
        self._parts.clear()
        self._size = 0
        if not self._check(len(lines.data.removesuffix(b"\r"))):
            return []
        lines.ends.append(len(lines.data))
        return [lines]

    def _check(self, size: int) -> bool:
        if size <= self._max:
            return True
        self._parts.clear()
        self._size = 0
        self._error = DecodeError(f"a watch event is longer than max_event_bytes={self._max}")
        return False
