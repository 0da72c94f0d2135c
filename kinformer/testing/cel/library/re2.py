r"""Regular expressions in RE2's syntax, which patterns of schemas and expressions have, as Python's.

The two differ in where flags may be and what they apply to, in what `$`, `\s` and `\z` match, and in their errors. See
Go's regexp/syntax. Of the classes of Unicode, categories are known and scripts are not.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from functools import cache, lru_cache

__all__ = ["PatternError", "compiled_pattern"]

_SPACES = r"\t\n\f\r "
_NO_SPACES = r"\x00-\x08\x0b\x0e-\x1f!-\U0010ffff"
_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_PERL = {"d": "0-9", "s": _SPACES, "S": _NO_SPACES, "w": "0-9A-Za-z_"}
_PERL["D"] = r"\x00-/:-\U0010ffff"
_PERL["W"] = r"\x00-/:-@\[-^`{-\U0010ffff"
_EDGES = {"A": r"(?:\A)", "z": r"(?:\Z)", "b": r"(?a:\b)", "B": r"(?:(?a:\B)|\A\Z)"}
_CONTROLS = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")
_HEX = re.compile(r"x(?:\{([0-9a-fA-F]+)\}|([0-9a-fA-F]{2}))")
_CATEGORY = re.compile(r"[pP](\^?[A-Za-z]|\{\^?\w+\})")
_REPEAT = re.compile(r"\{(\d+)(,(\d*))?\}")
_NAME = re.compile(r"\(\?P?<[0-9A-Za-z_]+>")
_NAMELESS = re.compile(r"\(\?P?<[^>]*>?")
_FLAGS = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])")
_MOST_REPEATS = 1000


class PatternError(ValueError):
    """A regular expression that RE2 refuses, in the words of Go."""

    def __init__(self, problem: str, text: str) -> None:
        super().__init__(f"error parsing regexp: {problem}: `{text}`")


@lru_cache(maxsize=1024)
def compiled_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression of RE2. Raises `PatternError`."""
    translated = _Translator(text).run()
    try:
        return re.compile(translated)
    except (re.error, OverflowError) as error:
        raise PatternError(str(error), text) from None


class _Group:
    """A group that is open: the flags before it, and how many groups its own flags have opened within it.

    `folds` is True if letters match in either case at this place of the output. The translator changes it and `scopes`.
    """

    __slots__ = ("before", "folded_before", "folds", "scopes")

    def __init__(self, before: frozenset[str], *, folds: bool) -> None:
        self.before = before
        self.folded_before = self.folds = folds
        self.scopes = 0


class _Translator:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._out: list[str] = []
        self._flags: frozenset[str] = frozenset()  # those that apply at this place
        self._groups: list[_Group] = [_Group(self._flags, folds=False)]  # the first is the whole expression
        self._repeatable = False  # True if a repetition may come next

    def run(self) -> str:
        """Return the expression in Python's syntax."""
        while self._at < len(self._text):
            char = self._text[self._at]
            if char == "\\":
                self._escape()
            elif char == "[":
                self._emit(self._class())
            elif char == "(":
                self._open()
            elif char == ")":
                self._close()
            elif char == "|":
                self._alternate()
            elif char in "*+?" or (char == "{" and self._counts()):
                self._repeat()
            else:
                self._plain(char)
        if len(self._groups) > 1:
            raise PatternError("missing closing )", self._text)
        self._end_scopes(self._groups[0])
        return "".join(self._out)

    def _emit(self, text: str) -> None:
        self._fold()
        self._out.append(text)
        self._repeatable = True

    def _plain(self, char: str) -> None:
        self._at += 1
        if char == ".":
            self._emit("(?s:.)" if "s" in self._flags else ".")
        elif char == "^":
            self._emit("(?m:^)" if "m" in self._flags else r"(?:\A)")
        elif char == "$":
            self._emit("(?m:$)" if "m" in self._flags else r"(?:\Z)")
        else:
            self._emit(re.escape(char))

    # -- groups -------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        if not self._text.startswith("(?", self._at):
            self._begin("(", 1)
            return
        named = _NAME.match(self._text, self._at)
        if named:
            self._begin("(", len(named[0]))
            return
        nameless = _NAMELESS.match(self._text, self._at)
        if nameless:
            raise PatternError("invalid named capture", nameless[0])
        match = _FLAGS.match(self._text, self._at)
        if not match:
            length = len(self._text[self._at + 2 :]) - len(self._text[self._at + 2 :].lstrip("imsU-"))
            shown = self._text[self._at : self._at + 3 + length]
            raise PatternError("invalid or unsupported Perl syntax", shown)
        flags = (self._flags | set(match[1])) - set(match[2] or "")
        if match[3] == ":":
            self._begin("(?:", len(match[0]))
        else:
            self._at += len(match[0])
        self._flags = flags

    def _begin(self, opening: str, length: int) -> None:
        self._fold()
        self._groups.append(_Group(self._flags, folds=self._groups[-1].folds))
        self._out.append(opening)
        self._at += length
        self._repeatable = False

    def _fold(self) -> None:
        """Let the flag `i` apply to the rest of the group. Python knows only flags of a whole group."""
        group = self._groups[-1]
        folds = "i" in self._flags
        if folds != group.folds:
            self._out.append("(?i:" if folds else "(?-i:")
            group.scopes += 1
            group.folds = folds

    def _end_scopes(self, group: _Group) -> None:
        self._out.append(")" * group.scopes)
        group.scopes = 0
        group.folds = group.folded_before

    def _close(self) -> None:
        if len(self._groups) == 1:
            raise PatternError("unexpected )", self._text)
        group = self._groups.pop()
        self._end_scopes(group)
        self._flags = group.before
        self._at += 1
        self._out.append(")")
        self._repeatable = True

    def _alternate(self) -> None:
        """Begin another alternative of the group."""
        self._end_scopes(self._groups[-1])
        self._out.append("|")
        self._at += 1
        self._repeatable = False

    # -- repetitions --------------------------------------------------------------------------------------------------

    def _counts(self) -> bool:
        return _REPEAT.match(self._text, self._at) is not None

    def _repeat(self) -> None:
        start = self._at
        operator, lazy = self._operator()
        if not self._repeatable:
            raise PatternError("missing argument to repetition operator", self._text[start : self._at])
        after = self._text[self._at : self._at + 1]
        if (after and after in "*+?") or (after == "{" and self._counts()):
            self._operator()
            raise PatternError("invalid nested repetition operator", self._text[start : self._at])
        self._out.append(operator + ("?" if lazy != ("U" in self._flags) else ""))
        self._repeatable = False

    def _operator(self) -> tuple[str, bool]:
        """Take a repetition. Returns it, and True if it is lazy."""
        match = _REPEAT.match(self._text, self._at)
        operator = match[0] if match else self._text[self._at]
        self._at += len(operator)
        if match:
            least, most = int(match[1]), int(match[3]) if match[3] else 0
            if max(least, most) > _MOST_REPEATS or (match[3] and most < least):
                raise PatternError("invalid repeat count", operator)
        lazy = self._text.startswith("?", self._at)
        self._at += lazy
        return operator, lazy

    # -- escapes and classes ------------------------------------------------------------------------------------------

    def _escape(self) -> None:
        letter = self._text[self._at + 1 : self._at + 2]
        if letter in _EDGES and letter:
            self._at += 2
            self._emit(_EDGES[letter])
        elif letter == "Q":
            literal, _, _ = self._text[self._at + 2 :].partition(r"\E")
            self._at = min(len(self._text), self._at + 4 + len(literal))
            for char in literal:
                self._emit(re.escape(char))
        else:
            ranges = self._named_class()
            if ranges is None:
                self._emit(re.escape(self._character()))
            else:
                self._emit(f"(?-i:[{ranges}])" if letter in _PERL else f"[{ranges}]")

    def _named_class(self) -> str | None:
        r"""Take `\d` or `\pL`, and return its ranges. Returns None for other escapes."""
        letter = self._text[self._at + 1 : self._at + 2]
        if letter and letter in _PERL:
            self._at += 2
            return _PERL[letter]
        match = _CATEGORY.match(self._text, self._at + 1)
        if not match:
            return None
        name = match[1].strip("{}")
        ranges = _category(name.removeprefix("^"), inverted=name.startswith("^") != (letter == "P"))
        if not ranges:
            raise PatternError("invalid character class range", f"\\{match[0]}")
        self._at += 1 + len(match[0])
        return ranges

    def _character(self) -> str:
        """Take an escaped character, and return it."""
        start = self._at
        letter = self._text[start + 1 : start + 2]
        if not letter:
            raise PatternError("trailing backslash at end of expression", "")
        number = _OCTAL.match(self._text, start + 1)
        code = _HEX.match(self._text, start + 1)
        self._at += 2
        if number:
            self._at = number.end()
            return chr(int(number[0], 8))
        if code and int(code[1] or code[2], 16) <= sys.maxunicode:
            self._at = code.end()
            return chr(int(code[1] or code[2], 16))
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter.isascii() and letter.isalnum():
            raise PatternError("invalid escape sequence", f"\\{letter}")
        return letter

    def _class(self) -> str:
        start = self._at
        self._at += 1
        inverted = self._text.startswith("^", self._at)
        self._at += inverted
        parts: list[str] = []
        while self._at < len(self._text):
            if self._text[self._at] == "]" and parts:
                self._at += 1
                return f"[{'^' if inverted else ''}{''.join(parts)}]"
            parts.append(self._posix_class() or self._range(start))
        raise PatternError("missing closing ]", self._text[start:])

    def _posix_class(self) -> str | None:
        if self._text.startswith("\\", self._at):
            return self._named_class()
        end = self._text.find(":]", self._at)
        if not self._text.startswith("[:", self._at) or end < 0:
            return None
        whole = self._text[self._at : end + 2]
        name = whole[2:-2]
        ranges = _POSIX.get(name.removeprefix("^"))
        if ranges is None:
            raise PatternError("invalid character class range", whole)
        self._at = end + 2
        return _inverted(ranges) if name.startswith("^") else ranges

    def _range(self, start: int) -> str:
        begun = self._at
        low = high = self._class_character(start)
        if self._text.startswith("-", self._at) and not self._text.startswith("-]", self._at):
            self._at += 1
            high = self._class_character(start)
            if high < low:
                raise PatternError("invalid character class range", self._text[begun : self._at])
        return f"{_code(low)}-{_code(high)}"

    def _class_character(self, start: int) -> str:
        if self._at >= len(self._text):
            raise PatternError("missing closing ]", self._text[start:])
        if self._text[self._at] == "\\":
            return self._character()
        self._at += 1
        return self._text[self._at - 1]


def _code(char: str) -> str:
    return f"\\U{ord(char):08x}"


def _inverted(ranges: str) -> str:
    """Return the ranges of all other characters."""
    taken = re.compile(f"[{ranges}]")
    return _as_ranges([char for char in map(chr, range(128)) if not taken.match(char)]) + r"\x80-\U0010ffff"


def _as_ranges(chars: list[str]) -> str:
    return "".join(f"{_code(char)}-{_code(char)}" for char in chars)


@cache
def _category(name: str, *, inverted: bool) -> str:
    """Return the ranges of a category of Unicode such as `L` or `Lu`, or "" if there is none of that name."""
    ranges: list[list[int]] = []
    exists = False
    for number in range(sys.maxunicode + 1):
        within = name == "Any" or unicodedata.category(chr(number)).startswith(name)
        exists = exists or within
        if within != inverted:
            if ranges and ranges[-1][1] == number - 1:
                ranges[-1][1] = number
            else:
                ranges.append([number, number])
    return "".join(f"{_code(chr(low))}-{_code(chr(high))}" for low, high in ranges) if exists else ""
