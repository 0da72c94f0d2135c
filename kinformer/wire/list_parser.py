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
from kinformer.wire.json_scan import BracketWalker
from kinformer.wire.list_header import Head, ListHeader, ListMeta, Rest, decode_head, decode_rest, decode_status

__all__ = ["MAX_LIST_BYTES", "ListSplitter"]

T = TypeVar("T")

# The same as for a watch event, because both contain one object. It is client-go's maximum.
MAX_ITEM_BYTES = 16 * 1024 * 1024

# The maximum size of a list. An API server aborts a request after 60 s, and sends less than 16 GiB in that time. So a
# longer body is endless.
MAX_LIST_BYTES = 16 * 1024 * 1024 * 1024

# The parts before and after the items (kind, apiVersion, list metadata), in practice about a kilobyte.
_MAX_HEADER_BYTES = 1024 * 1024
# After this many cuts that gave no JSON, or if this many bytes are buffered without a cut, an item is walked bracket
# by bracket, which is 10 times slower than cutting but always correct. After this many such items, all others are
# walked too.
_MAX_WRONG_CUTS = 16
_MAX_UNCUT_BYTES = 512 * 1024
_MAX_HARD_ITEMS = 8
# Nested "items" keys to try before giving up on the list's own. Each try parses everything before it again.
_MAX_NOT_ITEMS = 64
_WHITESPACE = b" \t\r\n"

_ITEMS_KEY = re.compile(rb'"items"[ \t\r\n]*+(:[ \t\r\n]*+)?')
_NEXT_ITEM = re.compile(
    rb"""[ \t\r\n]*+,[ \t\r\n]*+(?=\{)(\{[ \t\r\n]*+"(?:[^"\\]|\\.)*+"[ \t\r\n]*+:|\{[ \t\r\n]*+[^" \t\r\n])""",
    re.DOTALL,
)
_MAX_NEXT_ITEM_BYTES = 4096  # an item with a longer first key is walked
_SPACE = re.compile(rb"[ \t\r\n]*+")


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
        raise DecodeError(f"malformed item: {error}: {item[:80]!r}") from error
    return item


def _none(*_: object) -> int:
    return 0


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
        self._head = b""
        self._rest: Rest | None = None
        self._separator = b""  # empty: walk by brackets
        self._wrong_cuts = 0
        self._brackets: BracketWalker | None = None
        self._gap = 0
        self._passed = 0  # bytes of each item to skip in the search for its end, because recent items were longer
        self._hard_items = 0
        self._not_items = 0
        self._too_deep = False  # for a decoder. A walk by brackets has no limit
        self._after_item = False
        self.api_version = ""
        self.kind = ""

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
        found: list[T] = []
        if self._rest is not None:
            if self._buffer.strip(_WHITESPACE):
                raise DecodeError(f"bytes after the end of a list: {bytes(self._buffer[:80])!r}")
            self._buffer.clear()
        if self._state is _State.HEAD:
            self._find_items()
        while self._state is _State.ITEMS:
            # Each returns True if the other must continue.
            if not (self._cut(found) if self._separator else self._walk(found)):
                break
        if self._state is _State.TAIL and len(self._buffer) > _MAX_HEADER_BYTES:
            raise DecodeError(f"more than {_MAX_HEADER_BYTES} bytes after the items of a list")
        return found

    def close(self) -> ListHeader:
        """Return the header of the list. Call it at the end of the body.

        Raises:
            DecodeError: The body is truncated or not a list. The message describes it.
        """
        if self._state is _State.HEAD:
            raise self._no_list()
        if self._state is _State.ITEMS:
            raise self._no_end()
        head = self._decode_head(self._head + b"}" if self._rest else self._head + bytes(self._buffer))
        rest = self._rest or Rest()
        meta = rest.metadata or head.metadata or ListMeta()
        kind = rest.kind or head.kind or ""
        # A custom resource may give its list any name (CustomResourceDefinition, spec.names.listKind).
        if kind and not kind.endswith("List") and (meta.name or not meta.resource_version):
            raise DecodeError(f"expected a list, got a {kind}")
        return ListHeader(
            kind,
            rest.api_version or head.api_version or "",
            meta.resource_version or "",
            meta.continue_token or "",
            meta.remaining_item_count,
            meta.shard_info.selector if meta.shard_info else None,
        )

    def _decode_head(self, data: bytes) -> Head:
        try:
            data.decode()
            return decode_head(data)
        except MALFORMED as error:
            raise DecodeError(f"the list is truncated or malformed after {self._fed} bytes: {error}") from error

    def _no_end(self) -> DecodeError:
        problem = "truncated"
        if self._separator:
            try:
                decode_rest(b'{"items":[' + self._buffer)
            except MALFORMED as error:
                problem = f"truncated or malformed ({error})"
        return DecodeError(f"the list is {problem}: it ended after {self._fed} bytes, {self._state.value}")

    def _no_list(self) -> DecodeError:
        body = bytes(self._buffer)
        try:
            head = decode_head(body)
        except MALFORMED as error:
            return DecodeError(f"the list is truncated: it ended after {self._fed} bytes ({error}): {body[:200]!r}")
        if head.kind == "Status":
            try:
                status = decode_status(body)
            except msgspec.ValidationError:
                return DecodeError(f"expected a list, got a Status: {body[:200]!r}")
            return DecodeError(f"expected a list, got a Status: {status.code} {status.message}".rstrip())
        return DecodeError(f"expected a list, got a {head.kind or 'document'} without items: {body[:200]!r}")

    def _find_items(self) -> None:
        data = self._buffer
        start = cast("re.Match[bytes]", _SPACE.match(data)).end()
        if start < len(data) and data[start] != 0x7B:
            raise DecodeError(f"the body is not a JSON list: {bytes(data[:200])!r}")
        while (match := _ITEMS_KEY.search(data, self._search)) is not None:
            if match.end() == len(data):
                self._search = match.start()
                return
            self._search = match.end()
            if match[1] is None:
                continue  # "items" is a value, not a key
            # It is the list's own key exactly if the bytes before it and a value form a complete document. A nested
            # key would leave brackets open, and one inside a string a quote.
            head = bytes(data[: match.start()]) + b'"items":null'
            try:
                known = decode_head(head + b"}")
            except MALFORMED as error:
                self._not_items += 1
                if self._not_items > _MAX_NOT_ITEMS:
                    raise DecodeError(f"no items of a list after {_MAX_NOT_ITEMS} nested keys of that name") from error
                continue
            self._begin_items(head, known, match.end())
            return
        self._search = max(0, len(data) - len(b'"items"') + 1)
        if len(data) > _MAX_HEADER_BYTES:
            raise DecodeError(f"no items within the first {_MAX_HEADER_BYTES} bytes: {bytes(data[:200])!r}")

    def _begin_items(self, head: bytes, known: Head, position: int) -> None:
        kind = known.kind or ""
        self.kind = kind.removesuffix("List") if kind.endswith("List") else ""
        self.api_version = known.api_version or ""
        self._head = head
        byte = self._buffer[position]
        if byte == 0x5B:
            self._state = _State.ITEMS
            position += 1
        elif byte == 0x6E:
            # null: `close` strictly decodes everything, including the rest.
            self._state = _State.TAIL
            self._head = head.removesuffix(b"null")
        else:
            raise DecodeError(f"the items of a list are not an array: {bytes(self._buffer[:200])!r}")
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
        decoded = self._decode(item, self.api_version, self.kind)
        self._wrong_cuts = 0
        if decoded is not None:
            found.append(decoded)

    def _cut(self, found: list[T]) -> bool:
        """Take items at separators. Returns True if the current item must be walked."""
        data, separator = self._buffer, self._separator
        start, ends = 0, self._ends(max(self._search, self._passed))
        at, whole = 0, bytes(data) if ends else b""
        gap = self._gap - 1
        while at < len(ends):
            if not self._wrong_cuts and len(data) <= self._max:
                at += self._decode_many(whole, start, ends[at:], gap, self.api_version, self.kind, found)
                start = ends[at - 1] + gap if at else start
                if at == len(ends):
                    break
            end = ends[at]
            at += 1
            try:
                self._take(whole[start:end], found)
            except DecodeError:
                if self._passed:  # there may be two items, with the end of the first in the skipped part
                    self._passed = 0
                    at, ends = 0, self._ends(start)
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
            self._passed = 0 if self._wrong_cuts else min(map(sub, ends[1:], ends)) * 3 // 4
        if self._wrong_cuts >= _MAX_WRONG_CUTS:
            self._walk_from_here()
            return True
        self._search = max(0, len(data) - len(separator) + 1)
        self._try_end(found)
        # The search for the end must stay linear in the length of the body, however it is split into chunks.
        too_costly = self._tried > 4 * self._fed + _MAX_HEADER_BYTES
        too_long = len(data) > min(_MAX_UNCUT_BYTES, self._max)
        if self._state is _State.ITEMS and (too_long or too_costly or self._too_deep):
            self._walk_from_here()
            return True
        return False

    def _ends(self, start: int) -> list[int]:
        """Return the offsets at which items end, from `start` on, assuming that no item contains a separator.

        The search is the most expensive part of cutting, so it skips as many bytes as every recent item had.
        """
        find, separator, gap = self._buffer.find, self._separator, self._gap + self._passed
        ends: list[int] = []
        at = find(separator, start)
        while at >= 0:
            ends.append(at + 1)
            at = find(separator, at + gap)
        return ends

    def _walk_from_here(self) -> None:
        self._separator = b""
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
        for raw in rest.items:
            self._take(bytes(raw), found)
        rest.items = []
        self._rest = rest
        self._state = _State.TAIL
        data.clear()

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
        position = cast("re.Match[bytes]", _SPACE.match(data)).end()
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
            position = cast("re.Match[bytes]", _SPACE.match(data, 1)).end()
            if position == len(data):
                del data[1:]
            if len(data) < _MAX_NEXT_ITEM_BYTES:
                return False
            if data[position] != 0x7B:
                raise self._malformed()
            self._drop(position)
            return True
        if match[1].endswith(b":") and self._hard_items < _MAX_HARD_ITEMS:
            self._separator = b"}" + match[0]
            self._gap = 1 + match.start(1)  # from the end of one item to the beginning of the next
        self._drop(match.start(1))
        return True

    def _malformed(self) -> DecodeError:
        return DecodeError(f"malformed list, {self._state.value}: {bytes(self._buffer[:80])!r}")
