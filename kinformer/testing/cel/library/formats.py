"""Named formats: `format.dns1123Label().validate(text)`, `format.named('uuid')`."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any

from kinformer.apiserver.selecting.names import dns_label, dns_label_1035, dns_subdomain, label_value, qualified_name
from kinformer.testing.cel.functions import Library
from kinformer.testing.cel.library.network import url
from kinformer.testing.cel.library.times import parse_timestamp
from kinformer.testing.cel.values import CELError, Opaque, OptionalValue

__all__ = ["add_formats"]

_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


class Format(Opaque):
    """A named format."""

    __slots__ = ("name", "validate")
    cel_type = "kubernetes.NamedFormat"

    def __init__(self, name: str, validate: Callable[[str], Sequence[str]]) -> None:
        self.name = name
        self.validate = validate

    def equals(self, other: Any) -> bool:
        return bool(self.name == other.name)


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Wrap a check for a name prefix, which may end with a hyphen."""
    return lambda text: check(text[:-1] + "a" if len(text) > 1 and text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    try:
        url(text)
    except CELError as error:
        return [str(error).partition("string: ")[2]]
    return []


def _date(text: str) -> list[str]:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["invalid date"]
    return [] if len(text) == 10 else ["invalid date"]


def _moment(text: str) -> list[str]:
    try:
        parse_timestamp(text)
    except CELError:
        return ["invalid datetime"]
    return []


def _bytes(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


_FORMATS: dict[str, Callable[[str], Sequence[str]]] = {
    "dns1123Label": dns_label,
    "dns1123Subdomain": dns_subdomain,
    "dns1035Label": dns_label_1035,
    "qualifiedName": qualified_name,
    "dns1123LabelPrefix": _prefix(dns_label),
    "dns1123SubdomainPrefix": _prefix(dns_subdomain),
    "dns1035LabelPrefix": _prefix(dns_label_1035),
    "labelValue": label_value,
    "uri": _uri,
    "uuid": lambda text: [] if _UUID.fullmatch(text) else ["does not match the UUID format"],
    "byte": _bytes,
    "date": _date,
    "datetime": _moment,
}


def _named(name: str) -> OptionalValue:
    return OptionalValue(Format(name, _FORMATS[name])) if name in _FORMATS else OptionalValue.none()


def _constant(name: str) -> Callable[[], Format]:
    return lambda: Format(name, _FORMATS[name])


def _validate(one: Format, text: str) -> OptionalValue:
    errors = one.validate(text)
    return OptionalValue(list(errors)) if errors else OptionalValue.none()


def add_formats(library: Library) -> None:
    """Add the named formats."""
    name = Format.cel_type
    library.add("format.named", f"(string) -> optional({name})", run=_named)
    for one in _FORMATS:
        library.add(f"format.{one}", f"() -> {name}", run=_constant(one))
    library.add("validate", f"{name}.(string) -> optional(list(string))", run=_validate)
