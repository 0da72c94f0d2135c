"""Splits the source of an expression into tokens."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from kinformer.testing.cel.values import UINT_MAX, UInt

__all__ = ["Issues", "Token", "tokenize"]

_SPACE = re.compile(r"(?:[ \t\r\n\f]+|//[^\n]*)+")
_NUMBER = re.compile(
    r"0x(?P<hex>[0-9a-fA-F]+)|(?P<float>\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)|\d+"
)
_IDENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED_FIELD = re.compile(r"`[A-Za-z0-9_.\-/ ]+`")
_OPERATOR = re.compile(r"==|!=|<=|>=|&&|\|\||[<>+\-*/%!?:.,()\[\]{}]")
_STRING = re.compile(r"(?P<prefix>[rR][bB]?|[bB][rR]?|)(?P<quote>\"\"\"|'''|\"|')")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ESCAPES.update({char: char for char in "\\'\"`?"})
_HALF = "=&|"  # first characters of two-character tokens


class Issues:
    """The errors of an expression with their positions, worded as in cel-go.

    The lexer, the parser and the checker add to `errors`.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self.errors: list[tuple[int, str]] = []

    def add(self, at: int, message: str) -> None:
        """Add an error at an offset in the source."""
        self.errors.append((at, message))

    def __bool__(self) -> bool:
        return bool(self.errors)

    def __str__(self) -> str:
        return "\n".join(self._shown(at, message) for at, message in sorted(self.errors, key=lambda issue: issue[0]))

    def _shown(self, at: int, message: str) -> str:
        start = self._text.rfind("\n", 0, at) + 1
        end = self._text.find("\n", at)
        line = self._text[start : end if end >= 0 else len(self._text)].replace("\t", " ")
        number = self._text.count("\n", 0, start) + 1
        marks = "".join("\uff0e" if len(char.encode()) > 1 else "." for char in line[: at - start])
        marks += "." * (at - start - len(marks))
        mark = "\uff3e" if at - start < len(line) and len(line[at - start].encode()) > 1 else "^"
        return f"ERROR: <input>:{number}:{at - start + 1}: {message}\n | {line}\n | {marks}{mark}"


class Token(NamedTuple):
    """A token. `kind` is op, ident, field (in backquotes), literal or end."""

    kind: str
    text: str
    at: int
    value: Any = None


def tokenize(text: str, issues: Issues) -> list[Token]:
    """Return the tokens of an expression. Anything else is reported as an issue and skipped."""
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        space = _SPACE.match(text, at)
        if space:
            at = space.end()
            continue
        token, at = _next(text, at, issues)
        if token is not None:
            tokens.append(token)
    tokens.append(Token("end", "<EOF>", len(text)))
    return tokens


def _next(text: str, at: int, issues: Issues) -> tuple[Token | None, int]:
    quoted = _STRING.match(text, at)
    if quoted:
        return _string(text, at, quoted, issues)
    match = _NUMBER.match(text, at)
    if match:
        return _number(text, at, match, issues)
    for pattern, kind in ((_IDENT, "ident"), (_QUOTED_FIELD, "field"), (_OPERATOR, "op")):
        match = pattern.match(text, at)
        if match:
            return Token(kind, match.group(), at), match.end()
    end = at + (2 if text[at] in _HALF else 1)
    issues.add(at, f"Syntax error: token recognition error at: '{text[at:end]}'")
    return None, end


def _number(text: str, at: int, match: re.Match[str], issues: Issues) -> tuple[Token | None, int]:
    end, shown = match.end(), match.group()
    if match["float"]:
        return Token("literal", shown, at, float(shown)), end
    value = int(match["hex"], 16) if match["hex"] else int(shown)
    if text[end : end + 1] in ("u", "U"):
        if value > UINT_MAX:
            issues.add(at, "invalid uint literal")
        return Token("literal", text[at : end + 1], at, UInt(value)), end + 1
    return Token("literal", shown, at, value), end


def _string(text: str, at: int, match: re.Match[str], issues: Issues) -> tuple[Token | None, int]:
    raw, binary, quote = "r" in match["prefix"].lower(), "b" in match["prefix"].lower(), match["quote"]
    position, parts = match.end(), []
    while not text.startswith(quote, position):
        if position >= len(text) or (len(quote) == 1 and text[position] == "\n"):
            issues.add(at, f"Syntax error: token recognition error at: '{text[at : position + 1]}'")
            return None, min(position + 1, len(text))
        if text[position] == "\\" and position + 1 < len(text):
            if raw:
                parts.append(text[position : position + 2])
                position += 2
                continue
            part, length = _escape(text, position, binary=binary)
            if not length:
                issues.add(at, f"Syntax error: token recognition error at: '{text[at : position + 2]}'")
                return None, position + 2
            parts.append(part)
            position += length
            continue
        parts.append(text[position].encode().decode("latin-1") if binary else text[position])
        position += 1
    end = position + len(quote)
    value = "".join(parts)
    return Token("literal", text[at:end], at, value.encode("latin-1") if binary else value), end


def _escape(text: str, at: int, *, binary: bool) -> tuple[str, int]:
    """Return the character of an escape sequence and the sequence's length, or 0 if it is invalid."""
    mark = text[at + 1]
    if mark in _ESCAPES:
        return _ESCAPES[mark], 2
    for marks, digits, base in (("xX", 2, 16), ("u", 4, 16), ("U", 8, 16)):
        if mark in marks:
            shown = text[at + 2 : at + 2 + digits]
            valid = len(shown) == digits and all(digit in "0123456789abcdefABCDEF" for digit in shown)
            if not valid or (binary and digits > 2) or int(shown, base) > 0x10FFFF:
                return "", 0
            return chr(int(shown, base)), 2 + digits
    shown = text[at + 1 : at + 4]
    if re.fullmatch(r"[0-3][0-7]{2}", shown):
        return chr(int(shown, 8)), 4
    return "", 0
