"""Frames: the bytes of a watch become lines."""

from __future__ import annotations

from collections.abc import Iterator

from kinformer.exceptions import DecodeError

__all__ = ["MAX_EVENT_BYTES", "LineFramer", "Lines"]

MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Bytes; what client-go takes at most for one event (apimachinery, pkg/runtime/serializer/streaming)."""


class Lines:
    r"""Complete lines that arrived in one piece, to be read once and from the front.

    They are not cut out: a decoder that reads them where they stand saves a copy of each. A line may be empty, or end
    with a `\r`, which iterating leaves out.

    Attributes:
        data: The piece.
        start: Where the next line begins.
        ends: Where each line ends.
        read: How many have been read.
        is_ascii: Nothing in the piece needs to be looked at to be UTF-8.
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
        """The next line; perhaps an empty one."""
        start, end = self.start, self.ends[self.read]
        self.read += 1
        self.start = end + 1
        return self.data[start:end].removesuffix(b"\r")


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

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[Lines]:
        """The lines that are complete with this chunk, in order: one whose beginning came before, and the others.

        Raises:
            DecodeError: a line is longer than the cap. The lines before it are returned first; the error comes with
                the next call, and with each one after that.
        """
        self._raise_unless([])
        data = chunk if isinstance(chunk, bytes) else bytes(chunk)
        found: list[Lines] = []
        start = 0
        # A loop of find is a memchr; split and splitlines look at byte after byte, and cost a tenth of a watch.
        end = data.find(b"\n")
        if end >= 0 and self._parts:
            found += self._joined(data[:end])
            start = end + 1
            end = data.find(b"\n", start)
        if end >= 0 and self._error is None:
            lines = Lines(data, start)
            find, most, take = data.find, self._max, lines.ends.append
            while end >= 0:
                # The rare line is looked at twice.
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
        """The line that was held, and ends so."""
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
        self._error = DecodeError(f"an event is longer than max_event_bytes={self._max}")
        return False
