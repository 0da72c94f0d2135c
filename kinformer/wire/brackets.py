"""Brackets: where a JSON value ends, found without decoding it."""

from __future__ import annotations

import re
from typing import cast

__all__ = ["BracketWalker"]

_UP_TO_BRACKET = re.compile(rb'[^"{}\[\]]*+(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"[^"{}\[\]]*+)*+', re.DOTALL)
_REST_OF_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)


class BracketWalker:
    """Walks over one JSON object or array by its brackets, while it arrives in any number of chunks.

    Looks at each byte once, and takes JSON to be well formed: what it finds is to be decoded strictly.
    """

    __slots__ = ("depth", "in_string", "position")

    def __init__(self) -> None:
        self.position = 0
        self.depth = 0
        self.in_string = False

    def find_end(self, data: bytearray) -> int:
        """The offset behind the end of what begins at offset 0, or -1 when more data is needed.

        `data` is what was given the last time, with more behind it.
        """
        position = self.position
        while True:
            if self.in_string:
                position = cast("re.Match[bytes]", _REST_OF_STRING.match(data, position)).end()
                if position == len(data) or data[position] != 0x22:  # a backslash whose character has not come
                    self.position = position
                    return -1
                position += 1
                self.in_string = False
            position = cast("re.Match[bytes]", _UP_TO_BRACKET.match(data, position)).end()
            if position == len(data):
                self.position = position
                return -1
            byte = data[position]
            position += 1
            if byte == 0x22:
                self.in_string = True
            elif byte in b"{[":
                self.depth += 1
            else:
                self.depth -= 1
                if self.depth == 0:
                    return position
