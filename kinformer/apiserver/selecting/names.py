"""The syntax of names, labels and their keys, with apimachinery's messages (pkg/util/validation), and of numbers."""

from __future__ import annotations

import re
from functools import lru_cache

from kinformer.apiserver.status import quoted

__all__ = [
    "dns_label",
    "dns_label_1035",
    "dns_subdomain",
    "label_value",
    "parse_number",
    "path_segment",
    "qualified_name",
]

_SIGNED, _UNSIGNED = re.compile(r"([+-]?)0*([0-9]*)"), re.compile(r"()0*([0-9]*)")

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_PLAIN = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")  # nearly all names match this one
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035_TEXT = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character,"
    " and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is"
    " '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")
_NAME_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
    " (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def _checked(text: str, pattern: re.Pattern[str], message: str, longest: int, unit: str = "bytes") -> list[str]:
    wrong = [] if pattern.fullmatch(text) else [message]
    if len(text) > longest or (not text.isascii() and len(text.encode()) > longest):
        wrong.insert(0, f"must be no more than {longest} {unit}")
    return wrong


def dns_label(text: str) -> list[str]:
    """Return the errors of an RFC 1123 label, or `[]` if it is valid. The other checks return the same."""
    wrong = _checked(text, _LABEL, _LABEL_TEXT, 63, "characters")
    # If the name is a valid subdomain, its only fault is the dots.
    return ["must not contain dots" if rule is _LABEL_TEXT and _SUBDOMAIN.fullmatch(text) else rule for rule in wrong]


def dns_label_1035(text: str) -> list[str]:
    """Check a label that starts with a letter, such as the name of a service."""
    return _checked(text, _LABEL_1035, _LABEL_1035_TEXT, 63, "characters")


def dns_subdomain(text: str) -> list[str]:
    """Check an RFC 1123 subdomain, the name of most objects."""
    if _PLAIN.fullmatch(text):
        return []
    return _checked(text, _SUBDOMAIN, _SUBDOMAIN_TEXT, 253, "characters")


def label_value(text: str) -> list[str]:
    """Check the value of a label."""
    return _checked(text, _VALUE, _VALUE_TEXT, 63)


def path_segment(text: str) -> list[str]:
    """Check the name of an RBAC object, which can be any segment of a path."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{char}'" for char in "/%" if char in text]


@lru_cache(4096)  # there are few label keys, and objects repeat them
def qualified_name(text: str) -> tuple[str, ...]:
    """Check the key of a label or an annotation: a name with an optional domain prefix."""
    prefix, slash, name = text.rpartition("/")
    if slash and "/" in prefix:
        return (
            f"a valid label key {_NAME_TEXT} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
        )
    wrong = []
    if slash:
        if not prefix:
            wrong.append("prefix part must be non-empty")
        else:
            wrong += [f"prefix part {error}" for error in dns_subdomain(prefix)]
    if not name:
        return (*wrong, "name part must be non-empty", f"name part {_NAME_TEXT}")
    return (*wrong, *(f"name part {error}" for error in _checked(name, _NAME, _NAME_TEXT, 63)))


def parse_number(text: str, *, signed: bool = True) -> int:
    """Parse a number of 64 bits. Raises ValueError with Go's message."""
    parts = (_SIGNED if signed else _UNSIGNED).fullmatch(text)
    if parts is None or not text.lstrip("+-"):
        reason = "invalid syntax"
    else:
        number = int(parts[1] + (parts[2][:21] or "0"))
        if -(1 << 63) <= number < 1 << 63 or (not signed and number < 1 << 64):
            return number
        reason = "value out of range"
    raise ValueError(f"strconv.Parse{'Int' if signed else 'Uint'}: parsing {quoted(text)}: {reason}")
