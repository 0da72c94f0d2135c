"""Label and field selectors as the server parses them, with the server's error messages.

A port of apimachinery/pkg/labels/selector.go and apimachinery/pkg/fields/selector.go. It is deliberately independent
of `kinformer.objects.selectors`, because a test double that shares the parser under test shares its bugs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kinformer.apiserver.selecting.names import label_value, parse_number, qualified_name
from kinformer.apiserver.status import bad_request, quoted

__all__ = ["parse_fields", "parse_labels"]

Requirement = Callable[[Mapping[str, str]], bool]

_SPECIAL = "=!(),><"
_TOKENS = {")", ",", "!", "==", "=", ">", "in", "<", "!=", "notin", "("}
_END = ""
_TERM = re.compile(r"(?:\\.|[^\\,]|\\$)+", re.DOTALL)  # a term of a field selector
_OPERATORS = "in, notin, =, ==, !=, gt, lt"


class _SyntaxError(Exception):
    pass


def _lex(text: str) -> list[str]:
    tokens: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        if char in " \t\r\n":
            position += 1
        elif char in _SPECIAL:
            length = 2 if text[position : position + 2] in _TOKENS else 1
            tokens.append(text[position : position + length])
            position += length
        else:
            end = position
            while end < len(text) and text[end] not in _SPECIAL and text[end] not in " \t\r\n":
                end += 1
            tokens.append(text[position:end])
            position = end
    return [*tokens, _END]


def _is_word(token: str) -> bool:
    return token != _END and token[0] not in _SPECIAL


class _LabelParser:
    def __init__(self, text: str) -> None:
        self._tokens = _lex(text.partition("\0")[0])  # the server's lexer ends at a NUL
        self._position = 0

    def _peek(self) -> str:
        return self._tokens[self._position]

    def _take(self) -> str:
        token = self._tokens[self._position]
        if token != _END:
            self._position += 1
        return token

    def parse(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        while True:
            token = self._peek()
            if token == _END:
                return requirements
            if not (_is_word(token) or token == "!"):
                raise _SyntaxError(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                requirements.append(self._requirement())
            except _SyntaxError as error:
                raise _SyntaxError(f"unable to parse requirement: {error}") from None
            after = self._take()
            if after == _END:
                return requirements
            if after != ",":
                raise _SyntaxError(f"found '{after}', expected: ',' or 'end of string'")
            following = self._peek()
            if not (_is_word(following) or following == "!"):
                raise _SyntaxError(f"found '{following}', expected: identifier after ','")

    def _requirement(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._take()
        key = self._take()
        if not _is_word(key):
            raise _SyntaxError(f"found '{key}', expected: identifier")
        if wrong := qualified_name(key):
            raise _SyntaxError(f"<nil>: Invalid value: {quoted(key)}: {'; '.join(wrong)}")
        if negated:
            return lambda labels: key not in labels
        if self._peek() in (_END, ","):
            return lambda labels: key in labels
        operator = self._take()
        if operator in ("in", "notin"):
            values = self._values()
        elif operator in ("=", "==", "!=", ">", "<"):
            values = {self._value()}
        else:
            raise _SyntaxError(f"found '{operator}', expected: {_OPERATORS}")
        compare = _comparison(key, operator, *values) if operator in (">", "<") else None
        for index, value in enumerate(sorted(values)):
            if errors := label_value(value):
                raise _SyntaxError(f"values[{index}][{key}]: Invalid value: {quoted(value)}: {'; '.join(errors)}")
        if compare is not None:
            return compare
        if operator in ("notin", "!="):
            return lambda labels: labels.get(key) not in values
        return lambda labels: labels.get(key) in values

    def _value(self) -> str:
        if self._peek() in (_END, ","):
            return ""
        token = self._take()
        if not _is_word(token):
            raise _SyntaxError(f"found '{token}', expected: identifier")
        return token

    def _values(self) -> set[str]:
        opening = self._take()
        if opening != "(":
            raise _SyntaxError(f"found '{opening}' expected: '('")
        values: set[str] = set()
        may_follow = True  # a value may follow. An empty one counts, as upstream
        while True:
            token = self._take()
            if token == ")":
                if may_follow:
                    values.add("")
                return values
            if token == ",":
                if may_follow:
                    values.add("")
                may_follow = True
            elif _is_word(token) and may_follow:
                values.add(token)
                may_follow = False
            else:
                after = "',' or ')'" if not may_follow else "',', ')' or identifier"
                raise _SyntaxError(f"found '{token}', expected: {after}")


def _comparison(key: str, operator: str, number: str) -> Requirement:
    try:
        bound = parse_number(number)
    except ValueError:
        message = "for 'Gt', 'Lt' operators, the value must be an integer"
        raise _SyntaxError(f"values[0]: Invalid value: {quoted(number)}: {message}") from None

    def compare(labels: Mapping[str, str]) -> bool:
        try:
            value = parse_number(labels.get(key, ""))
        except ValueError:
            return False
        return value > bound if operator == ">" else value < bound

    return compare


def parse_labels(text: str) -> Requirement | None:
    """Return a predicate over labels, or None if everything matches. Raises a 400 `StatusError` if parsing fails."""
    try:
        requirements = _LabelParser(text).parse()
    except _SyntaxError as error:
        raise bad_request(str(error)) from None
    if not requirements:
        return None
    if len(requirements) == 1:
        return requirements[0]
    return lambda labels: all(requirement(labels) for requirement in requirements)


def parse_fields(text: str) -> list[tuple[str, str, bool]]:
    """Parse a field selector into (field, value, wanted) terms. `wanted` is False for `!=`. Raises a 400 if invalid."""
    terms = []
    for term in _TERM.findall(text):
        parts = re.match(r"(.*?)(!=|==?)(.*)", term, re.DOTALL)
        if parts is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        terms.append((parts[1], _unescaped(parts[3]), parts[2] != "!="))
    return terms


def _unescaped(value: str) -> str:
    for special in re.finditer(r"\\(.?)|=", value, re.DOTALL):
        if special[0] == "=":
            raise bad_request("invalid field selector: unescaped character in value: 61")
        if special[1] not in ("\\", ",", "="):
            raise bad_request(f"invalid field selector: invalid escape sequence: {special[0]}")
    return re.sub(r"\\(.)", r"\1", value)
