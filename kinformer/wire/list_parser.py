"""The list parser: splits the body of a LIST into items while it arrives, without buffering all of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from operator import sub
from typing import Generic, TypeVar, cast

import msgspec

from kinformer._runtime.json_depth import refuse_deep
from kinformer.exceptions import MALFORMED, DecodeError
from kinformer.objects.excerpts import excerpt_of
from kinformer.wire.json_scan import BracketWalker
from kinformer.wire.list_header import MAX_HEADER_BYTES, Envelope, ListHeader, after_space, decode_rest, no_list

__all__ = ["MAX_LIST_BYTES", "ListSplitter"]

T = TypeVar("T")

# The same as for a watch event, because both contain one object. It is client-go's maximum.
MAX_ITEM_BYTES = 16 * 1024 * 1024

# The maximum size of a list. An API server aborts a request after 60 s, and sends less than 16 GiB in that time. So a
# longer body is endless.
MAX_LIST_BYTES = 16 * 1024 * 1024 * 1024

# After this many cuts that gave no JSON, or if this many bytes are buffered without a cut, an item is walked bracket
# by bracket, which is 10 times slower than cutting but always correct. After this many such items, all others are
# walked too.
_MAX_WRONG_CUTS = 16
_MAX_UNCUT_BYTES = 512 * 1024
_MAX_HARD_ITEMS = 8
_WHITESPACE = b" \t\r\n"

_NEXT_ITEM = re.compile(
    rb"""[ \t\r\n]*+,[ \t\r\n]*+(?=\{)(\{[ \t\r\n]*+"(?:[^"\\]|\\.)*+"[ \t\r\n]*+:|\{[ \t\r\n]*+[^" \t\r\n])""",
    re.DOTALL,
)
_MAX_NEXT_ITEM_BYTES = 4096  # an item with a longer first key is walked


class _Skip(msgspec.Struct):
    # Has no fields, so decoding only checks that the bytes are one JSON object.
    pass


_skip = msgspec.json.Decoder(_Skip).decode


class _State(Enum):
    HEAD = "before the items"
    ITEMS = "within the items"
    TAIL = "after the items"


def _check_object(item: bytes, api_version: str, kind: str) -> bytes:
    try:
        _skip(item)
        item.decode()  # msgspec does not check that the parts it skips are UTF-8
    except MALFORMED as error:
        raise DecodeError(f"malformed item: {error}: {excerpt_of(item)}") from error
    return item


def _none(*_: object) -> int:
    return 0


class _Separator:
    """The bytes at which items are cut: the end of an item, and the beginning of the next one up to its first key.

    Attributes:
        text: The bytes.
        gap: The number of bytes up to the beginning of the next item.
        passed: Bytes of each item to skip in the search for its end, because recent items were longer.
    """

    __slots__ = ("gap", "passed", "text")

    def __init__(self, text: bytes, gap: int) -> None:
        self.text = text
        self.gap = gap
        self.passed = 0

    def ends(self, data: bytearray, start: int) -> list[int]:
        """Return the offsets at which items end, from `start` on, assuming that no item contains a separator.

        The search is the most expensive part of cutting, so it skips as many bytes as every recent item had.
        """
        find, text, step = data.find, self.text, self.gap + self.passed
        ends: list[int] = []
        at = find(text, start)
        while at >= 0:
            ends.append(at + 1)
            at = find(text, at + step)
        return ends


class ListSplitter(Generic[T]):
    """Splits the body of a LIST into items, in order, while the body arrives.

    The keys of the list may be in any order, chunks may be split anywhere, the JSON may be indented, and `items` may
    be null. At most one item and one chunk of the body are buffered.

    The first item is walked by its brackets. The bytes between it and the first key of the next one, such as
    `},{"metadata":`, are then the separator at which the others are cut. The separator may also occur inside an item,
    but then the cut is not valid JSON, `decode` rejects it and the search continues. So a wrong cut is impossible, and
    a correct one costs a `find`.

    Args:
        decode: Creates the results of `feed` from the bytes of an item. Called with (bytes, apiVersion, kind), where
            the list's values apply if they precede the items, and are "" otherwise. It must raise DecodeError unless
            the bytes are exactly one JSON object. If it returns None, the item is left out. Without it, `feed` returns
            the bytes of the items.
        decode_many: Decodes similar items of a chunk in one call, and returns their number. `decode` gets the next
            item. Called with (chunk, offset of the first item, offset at which each ends, bytes between two,
            apiVersion, kind, list to append to). It must accept no item that `decode` would reject.
        max_item_bytes: The maximum length of one item in bytes.
        max_list_bytes: The maximum length of the list in bytes.

    Feed it chunks of at most a few hundred KB, because the items completed by a chunk are decoded without a pause.
    """

    def __init__(
        self,
        decode: Callable[[bytes, str, str], T | None] | None = None,
        *,
        decode_many: Callable[[bytes, int, list[int], int, str, str, list[T]], int] | None = None,
        max_item_bytes: int = MAX_ITEM_BYTES,
        max_list_bytes: int = MAX_LIST_BYTES,
    ) -> None:
        self._decode = decode or cast("Callable[[bytes, str, str], T]", _check_object)
        self._decode_many = decode_many or _none
        self._max = max_item_bytes
        self._max_list = max_list_bytes
        self._state = _State.HEAD
        self._buffer = bytearray()
        self._search = 0  # the buffer has been searched up to here
        self._fed = 0
        self._tried = 0  # bytes parsed so far to detect the end
        self._envelope = Envelope()
        self._separator: _Separator | None = None  # None: walk by brackets
        self._wrong_cuts = 0
        self._brackets: BracketWalker | None = None
        self._hard_items = 0
        self._too_deep = False  # for a decoder. A walk by brackets has no limit
        self._after_item = False

    @property
    def kind(self) -> str:
        """The kind of the items if it precedes them in the list, else ""."""
        return self._envelope.kind

    @property
    def pending(self) -> int:
        """The number of buffered bytes."""
        return len(self._buffer)

    def feed(self, chunk: bytes | bytearray | memoryview) -> list[T]:
        """Return the items that this chunk completes, in order.

        Raises:
            DecodeError: The body is not a list, or malformed, or longer than `max_list_bytes`, or an item is longer
                than `max_item_bytes`.
        """
        self._buffer += chunk
        self._fed += len(chunk)
        if self._fed > self._max_list:
            raise DecodeError(f"a list is longer than max_list_bytes={self._max_list}")
        items: list[T] = []
        if self._envelope.after is not None:
            if self._buffer.strip(_WHITESPACE):
                raise DecodeError(f"bytes after the end of a list: {excerpt_of(bytes(self._buffer))}")
            self._buffer.clear()
        if self._state is _State.HEAD:
            self._find_items()
        while self._state is _State.ITEMS:
            # Each returns True if the other must continue.
            separator = self._separator
            if not (self._walk(items) if separator is None else self._cut(separator, items)):
                break
        if self._state is _State.TAIL and len(self._buffer) > MAX_HEADER_BYTES:
            raise DecodeError(f"more than {MAX_HEADER_BYTES} bytes after the items of a list")
        return items

    def close(self) -> ListHeader:
        """Return the header of the list. Call it at the end of the body.

        Raises:
            DecodeError: The body is truncated or not a list. The message describes it.
        """
        if self._state is _State.HEAD:
            raise no_list(bytes(self._buffer), self._fed)
        if self._state is _State.ITEMS:
            raise self._no_end()
        return self._envelope.header(bytes(self._buffer), self._fed)

    def _no_end(self) -> DecodeError:
        problem = "truncated"
        if self._separator:
            try:
                decode_rest(b'{"items":[' + self._buffer)
            except MALFORMED as error:
                problem = f"truncated or malformed ({error})"
        return DecodeError(f"the list is {problem}: it ended after {self._fed} bytes, {self._state.value}")

    def _find_items(self) -> None:
        position = self._envelope.find_items(self._buffer)
        if position < 0:
            return
        byte = self._buffer[position]
        if byte == 0x5B:
            self._state = _State.ITEMS
            position += 1
        elif byte == 0x6E:
            self._state = _State.TAIL
            self._envelope.has_null_items()
        else:
            raise DecodeError(f"the items of a list are not an array: {excerpt_of(bytes(self._buffer), 200)}")
        self._drop(position)

    def _drop(self, count: int) -> None:
        del self._buffer[:count]
        self._search = 0

    def _slice(self, start: int, end: int) -> bytes:
        with memoryview(self._buffer) as view:
            return bytes(view[start:end])

    def _take(self, item: bytes, found: list[T]) -> None:
        if len(item) > self._max:
            raise DecodeError(f"an item is longer than max_item_bytes={self._max}")
        decoded = self._decode(item, self._envelope.api_version, self._envelope.kind)
        self._wrong_cuts = 0
        if decoded is not None:
            found.append(decoded)

    def _cut(self, separator: _Separator, found: list[T]) -> bool:
        """Take items at separators. Returns True if the current item must be walked."""
        data, envelope = self._buffer, self._envelope
        start, ends = 0, separator.ends(data, max(self._search, separator.passed))
        at, whole = 0, bytes(data) if ends else b""
        gap = separator.gap - 1
        while at < len(ends):
            if not self._wrong_cuts and len(data) <= self._max:
                at += self._decode_many(whole, start, ends[at:], gap, envelope.api_version, envelope.kind, found)
                start = ends[at - 1] + gap if at else start
                if at == len(ends):
                    break
            end = ends[at]
            at += 1
            try:
                self._take(whole[start:end], found)
            except DecodeError:
                if separator.passed:  # perhaps two items, with the end of the first in the skipped part
                    separator.passed = 0
                    at, ends = 0, separator.ends(data, start)
                    continue
                if end - start > self._max:
                    raise
                self._wrong_cuts += 1
                if self._wrong_cuts >= _MAX_WRONG_CUTS:
                    break
            else:
                start = end + gap
        del data[:start]
        if self._wrong_cuts or len(ends) > 1:
            separator.passed = 0 if self._wrong_cuts else min(map(sub, ends[1:], ends)) * 3 // 4
        if self._wrong_cuts >= _MAX_WRONG_CUTS:
            self._walk_from_here()
            return True
        self._search = max(0, len(data) - len(separator.text) + 1)
        self._try_end(found)
        # The search for the end must stay linear in the length of the body, however it is split into chunks.
        too_costly = self._tried > 4 * self._fed + MAX_HEADER_BYTES
        too_long = len(data) > min(_MAX_UNCUT_BYTES, self._max)
        if self._state is _State.ITEMS and (too_long or too_costly or self._too_deep):
            self._walk_from_here()
            return True
        return False

    def _walk_from_here(self) -> None:
        self._separator = None
        self._wrong_cuts = 0
        self._hard_items += 1
        self._search = 0
        self._too_deep = False
        self._brackets = BracketWalker()

    def _try_end(self, found: list[T]) -> None:
        """Take the rest of the list if the body ends with this chunk."""
        data = self._buffer
        last = len(data) - 1
        while last > 0 and data[last] in _WHITESPACE:
            last -= 1
        if data[last] != 0x7D:
            return
        self._tried += len(data)
        try:
            # A prefix of a JSON object is never a complete object, so this succeeds only at the end.
            rest = decode_rest(b'{"items":[' + data)
            refuse_deep(data)
            data.decode()
        except RecursionError:
            self._too_deep = True
            return
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        end = 0
        for raw in rest.items:
            item = bytes(raw)
            start = after_space(data, end)
            if end and data[start] == 0x2C:
                start = after_space(data, start + 1)
            if not data.startswith(item, start):
                raise self._twice()
            self._take(item, found)
            end = start + len(item)
        end = after_space(data, end)
        if data[end] != 0x5D:
            raise self._twice()
        self._state = _State.TAIL
        self._envelope.after = bytes(data[end + 1 :])
        data.clear()

    def _twice(self) -> DecodeError:
        # The decoded items are those of the last key.
        return DecodeError("the list has the key 'items' twice")

    def _walk(self, found: list[T]) -> bool:
        """Take items by their brackets. Returns True if the next ones may be cut at separators."""
        data = self._buffer
        while self._brackets is not None or self._begin_item():
            if self._separator:
                return True
            brackets = self._brackets = self._brackets or BracketWalker()
            end = brackets.find_end(data)
            if end < 0:
                if len(data) > self._max:
                    raise DecodeError(f"an item is longer than max_item_bytes={self._max}")
                return False
            self._brackets = None
            self._take(self._slice(0, end), found)
            self._drop(end)
            self._after_item = True
        return False

    def _begin_item(self) -> bool:
        """Drop the bytes before an item. Returns False if there is no item, or if more data is needed."""
        data = self._buffer
        position = after_space(data)
        if position:  # immediately, or endless space would be scanned again with each chunk
            self._drop(position)
            position = 0
        if not data:
            return False
        if data[position] == 0x5D:
            self._state = _State.TAIL
            self._drop(position + 1)
            return False
        if not self._after_item:
            if data[position] != 0x7B:
                raise self._malformed()
            self._drop(position)
            return True
        if data[position] != 0x2C:
            raise self._malformed()
        match = _NEXT_ITEM.match(data)
        if match is None:
            position = after_space(data, 1)
            if position == len(data):
                del data[1:]
            if len(data) < _MAX_NEXT_ITEM_BYTES:
                return False
            if data[position] != 0x7B:
                raise self._malformed()
            self._drop(position)
            return True
        if match[1].endswith(b":") and self._hard_items < _MAX_HARD_ITEMS:
            self._separator = _Separator(b"}" + match[0], 1 + match.start(1))
        self._drop(match.start(1))
        return True

    def _malformed(self) -> DecodeError:
        return DecodeError(f"malformed list, {self._state.value}: {excerpt_of(bytes(self._buffer))}")
