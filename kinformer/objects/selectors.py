"""Selectors: kubectl's syntax for choosing objects by labels and by fields.

Syntax and semantics are the same as in apimachinery (pkg/labels/selector.go, pkg/fields/selector.go), which the API
server uses.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple, NoReturn

from kinformer.exceptions import SelectorError

__all__ = ["DNS_SUBDOMAIN", "FieldSelector", "LabelRequirement", "LabelSelector"]

_TOKEN = re.compile(r"(?P<space>[ \t\r\n]+)|(?P<symbol>==|!=|[=!<>(),])|(?P<word>[^ \t\r\n=!<>(),]+)")
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_END = "the end"
_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}


class _Token(NamedTuple):
    kind: str  # "word", "end", or the symbol itself
    text: str
    position: int


@dataclass(frozen=True, slots=True)
class LabelRequirement:
    """A condition on a label. `operator` is one of `=`, `!=`, `in`, `notin`, `exists`, `!`, `>`, `<`.

    `values` is sorted and has no duplicates. An object without the label also matches `!=` and `notin`. `>` and `<`
    compare integers, and a label that is not an integer does not match.
    """

    key: str
    operator: str
    values: tuple[str, ...] = ()
    _set: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_set", frozenset(self.values))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if an object with these labels meets the condition."""
        value = labels.get(self.key)
        match self.operator:
            case "=" | "in":
                return value in self._set
            case "!=" | "notin":
                return value not in self._set
            case "exists":
                return value is not None
            case "!":
                return value is None
        number = _integer(value)
        if number is None:
            return False
        bound = int(self.values[0])
        return number > bound if self.operator == ">" else number < bound

    def __str__(self) -> str:
        match self.operator:
            case "exists":
                return self.key
            case "!":
                return f"!{self.key}"
            case "in" | "notin":
                return f"{self.key} {self.operator} ({','.join(self.values)})"
        return f"{self.key}{self.operator}{self.values[0]}"


def _integer(text: str | None) -> int | None:
    # Like strconv.ParseInt(text, 10, 64): ASCII digits within 64 bits.
    if text is None or len(text) > 64 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def _requirement(key: str, operator: str, values: set[str]) -> LabelRequirement:
    # Normalized, so that equivalent selectors are equal.
    if len(values) == 1 and operator in ("in", "notin"):
        operator = "=" if operator == "in" else "!="
    return LabelRequirement(key, operator, tuple(sorted(values)))


class LabelSelector:
    """A set of conditions on labels, which must all be met. Created by `parse`.

    `str()` is canonical. Selectors that differ only in spacing, order, `==` or a set of one value have the same
    string, and are equal. The empty selector matches everything.

    Attributes:
        requirements: The conditions, in canonical order.
    """

    __slots__ = ("_text", "requirements")

    def __init__(self, requirements: tuple[LabelRequirement, ...] = ()) -> None:
        unique = {str(requirement): requirement for requirement in requirements}
        self.requirements = tuple(unique[term] for term in sorted(unique))
        self._text = ",".join(sorted(unique))

    @classmethod
    def parse(cls, selector: str | Mapping[str, str] | LabelSelector | None) -> LabelSelector:
        """Parse `"app=web,tier in (front, back),!canary"`, or a dict of labels that must be equal.

        Accepts kubectl's full syntax: `=`, `==`, `!=`, `in`, `notin`, `>`, `<`, `key`, `!key`, joined by commas. None
        and "" match everything.

        Raises:
            SelectorError: The selector is invalid, or a key or value is not valid for a label. `position` is the
                offset of the error.
        """
        if isinstance(selector, LabelSelector):
            return selector
        if not selector:
            return cls()
        if isinstance(selector, str):
            return cls(_LabelParser(selector).parse())
        if not isinstance(selector, Mapping):
            raise SelectorError(f"a label selector must be a string or a dict of strings, got {selector!r}")
        requirements = []
        for key, value in selector.items():
            term = f"{key}={value}"
            for problem in (_key_problem(key), _value_problem(value)):
                if problem:
                    raise SelectorError(f"label selector {term!r}: {problem}", selector=term)
            requirements.append(LabelRequirement(key, "=", (value,)))
        return cls(tuple(requirements))

    @classmethod
    def from_object(cls, selector: Mapping[str, Any]) -> LabelSelector:
        """Build a selector from its form in an object, `{"matchLabels": ..., "matchExpressions": ...}`.

        Like LabelSelectorAsSelector (apimachinery, pkg/apis/meta/v1/helpers.go), except that the empty selector
        matches everything, and that keys and values are not validated again, because the server has accepted them.

        Raises:
            SelectorError: An expression has an operator other than In, NotIn, Exists and DoesNotExist.
        """
        requirements = [
            LabelRequirement(key, "=", (value,)) for key, value in (selector.get("matchLabels") or {}).items()
        ]
        for expression in selector.get("matchExpressions") or ():
            operator = _OPERATORS.get(expression.get("operator", ""))
            if operator is None:
                raise SelectorError(f"a label selector has no operator {expression.get('operator')!r}")
            values = tuple(sorted(set(expression.get("values") or ())))
            requirements.append(LabelRequirement(expression.get("key", ""), operator, values))
        return cls(tuple(requirements))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return True if an object with these labels meets all conditions."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __bool__(self) -> bool:
        """True if there is at least one condition."""
        return bool(self.requirements)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelSelector) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"LabelSelector.parse({self._text!r})"


def _key_problem(key: object) -> str:
    if not isinstance(key, str):
        return f"the key {key!r} is not a string"
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not DNS_SUBDOMAIN.fullmatch(prefix)):
        return f"the prefix of the key {key!r} must be a DNS subdomain of at most 253 characters"
    if len(name) > 63 or not _NAME.fullmatch(name):
        return (
            f"the name in the key {key!r} must be 1 to 63 of the characters A-Z a-z 0-9 - _ ., "
            "with a letter or digit at both ends"
        )
    return ""


def _value_problem(value: object) -> str:
    if not isinstance(value, str):
        return f"the value {value!r} is not a string"
    if value and (len(value) > 63 or not _NAME.fullmatch(value)):
        return (
            f"the value {value!r} must be at most 63 of the characters A-Z a-z 0-9 - _ ., "
            "with a letter or digit at both ends"
        )
    return ""


class _LabelParser:
    # See Parser in apimachinery, pkg/labels/selector.go. `in` and `notin` are operators only after a key.
    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [
            _Token("word" if match["word"] else match.group(), match.group(), match.start())
            for match in _TOKEN.finditer(text)
            if not match["space"]
        ]
        self._tokens.append(_Token("end", _END, len(text)))
        self._next = 0

    def parse(self) -> tuple[LabelRequirement, ...]:
        requirements: list[LabelRequirement] = []
        if self._peek().kind == "end":
            return ()
        while True:
            requirements.append(self._read_requirement())
            token = self._take()
            if token.kind == "end":
                return tuple(requirements)
            if token.kind != ",":
                self._fail(token, "',' or the end")

    def _read_requirement(self) -> LabelRequirement:
        negated = self._peek().kind == "!"
        if negated:
            self._take()
        key = self._take()
        if key.kind != "word":
            self._fail(key, "a label key" if negated else "a label key or '!'")
        self._check(key, _key_problem(key.text))
        if negated:
            return LabelRequirement(key.text, "!")
        if self._peek().kind in ("end", ","):
            return LabelRequirement(key.text, "exists")
        operator = self._take()
        if operator.kind == "word" and operator.text in ("in", "notin"):
            return _requirement(key.text, operator.text, self._read_set(operator))
        if operator.kind not in ("=", "==", "!=", ">", "<"):
            self._fail(operator, "one of = == != in notin > < , or the end")
        name = "=" if operator.kind == "==" else operator.kind
        value = self._read_value()
        if name in ("<", ">") and _integer(value.text) is None:
            self._fail(value, "an integer")
        return LabelRequirement(key.text, name, (value.text,))

    def _read_value(self) -> _Token:
        token = self._peek()
        if token.kind in ("end", ","):
            return _Token("word", "", token.position)
        self._take()
        if token.kind != "word":
            self._fail(token, "a value")
        self._check(token, _value_problem(token.text))
        return token

    def _read_set(self, operator: _Token) -> set[str]:
        opening = self._take()
        if opening.kind != "(":
            self._fail(opening, f"'(' after {operator.text!r}")
        values: set[str] = set()
        while True:
            # Two consecutive commas, or empty brackets, mean the empty value.
            if self._peek().kind in (",", ")"):
                values.add("")
            else:
                token = self._take()
                if token.kind != "word":
                    self._fail(token, "a value, ',' or ')'")
                self._check(token, _value_problem(token.text))
                values.add(token.text)
            token = self._take()
            if token.kind == ")":
                return values
            if token.kind != ",":
                self._fail(token, "',' or ')'")

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _check(self, token: _Token, problem: str) -> None:
        if problem:
            self._raise(problem, token.position)

    def _fail(self, token: _Token, expected: str) -> NoReturn:
        shown = token.text if token.kind == "end" else repr(token.text)
        self._raise(f"found {shown}, expected {expected}", token.position)

    def _raise(self, problem: str, position: int) -> NoReturn:
        raise _error("label", self._text, problem, position)


def _error(kind: str, text: str, problem: str, position: int) -> SelectorError:
    # The position is marked within one line, because a caret on a second line would be lost in a log.
    marked = f"{text[:position]}>>>{text[position:]}"
    return SelectorError(
        f"{kind} selector {text!r}: {problem} at position {position}: {marked}", selector=text, position=position
    )


_FIELD_TERM = re.compile(r"(?P<field>.*?)(?P<operator>!=|==|=)", re.DOTALL)


class FieldSelector:
    r"""A set of conditions on fields, which must all be met. Created by `parse`.

    The server decides which fields can be selected: `metadata.name` and `metadata.namespace` for every resource, and
    more for some.

    Attributes:
        requirements: (field, operator, value) with the operators `=` and `!=`, sorted.
    """

    __slots__ = ("requirements",)

    def __init__(self, requirements: tuple[tuple[str, str, str], ...] = ()) -> None:
        self.requirements = tuple(sorted(set(requirements)))

    @classmethod
    def parse(cls, selector: str | FieldSelector | None) -> FieldSelector:
        r"""Parse `"metadata.name=web-1,status.phase!=Running"`.

        In a value, `\\`, `\,` and `\=` escape the character after the backslash. None and "" match everything.

        Raises:
            SelectorError: The selector is invalid. `position` is the offset of the error.
        """
        if isinstance(selector, FieldSelector):
            return selector
        requirements = []
        text = selector or ""
        for start, end in _terms(text):
            match = _FIELD_TERM.match(text, start, end)
            if match is None:
                raise _error("field", text, "found no operator, expected one of = == !=", start)
            operator = "!=" if match["operator"] == "!=" else "="
            requirements.append((match["field"], operator, _unescape(text, match.end(), end)))
        return cls(tuple(requirements))

    def matches(self, getter: Callable[[str], str | None] | Mapping[str, str]) -> bool:
        """Return True if the fields returned by `getter` meet the conditions. An absent field is ""."""
        get = getter.get if isinstance(getter, Mapping) else getter
        return all(((get(name) or "") == value) == (operator == "=") for name, operator, value in self.requirements)

    def __bool__(self) -> bool:
        """True if there is at least one condition."""
        return bool(self.requirements)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FieldSelector) and self.requirements == other.requirements

    def __hash__(self) -> int:
        return hash(self.requirements)

    def __str__(self) -> str:
        return ",".join(name + operator + _escape(value) for name, operator, value in self.requirements)

    def __repr__(self) -> str:
        return f"FieldSelector.parse({str(self)!r})"


def _escape(value: str) -> str:
    return re.sub(r"([,=\\])", r"\\\1", value)


def _terms(text: str) -> list[tuple[int, int]]:
    # The spans between unescaped commas. Empty spans are skipped.
    bounds = [-1]
    position = 0
    while position < len(text):
        if text[position] == "\\":
            position += 1
        elif text[position] == ",":
            bounds.append(position)
        position += 1
    bounds.append(len(text))
    return [(start + 1, end) for start, end in pairwise(bounds) if end > start + 1]


def _unescape(text: str, start: int, end: int) -> str:
    value: list[str] = []
    position = start
    while position < end:
        character = text[position]
        if character == "\\":
            following = text[position + 1 : min(position + 2, end)]
            if following not in ("\\", ",", "=") or not following:
                raise _error("field", text, f"found the escape '\\{following}', expected one of \\\\ \\, \\=", position)
            value.append(following)
            position += 2
            continue
        if character == "=":
            raise _error("field", text, "found '=' in a value, expected it to be escaped as \\=", position)
        value.append(character)
        position += 1
    return "".join(value)
