"""Named formats: those of schemas, and those of expressions: `format.dns1123Label().validate(text)`."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Callable, Container, Mapping, Sequence
from datetime import date
from email import errors, policy
from typing import Any

from kinformer.apiserver.selecting.names import dns_label, dns_label_1035, dns_subdomain, label_value, qualified_name
from kinformer.testing.cel.functions import Library
from kinformer.testing.cel.library.network import URL
from kinformer.testing.cel.library.re2 import compiled_pattern
from kinformer.testing.cel.library.times import parse_duration
from kinformer.testing.cel.values import CELError, Opaque, OptionalValue

__all__ = ["add_formats", "has_format", "is_known_format"]

# -- of schemas (kube-openapi, pkg/validation/strfmt; apiextensions-apiserver/pkg/apiserver/validation/formats.go) --

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_AMOUNT = re.compile(r"([0-9]+)\s*([A-Za-zµ]+)")
_UNITS = ("ns", "us", "µs", "ms", "s", "m", "h", "hr", "d", "w", "wk")
# Beginnings of longer names, such as "seconds".
_LONG_UNITS = ("nano", "micro", "milli", "sec", "min", "hour", "day", "week")
_CARD = re.compile(
    r"4[0-9]{12}([0-9]{3})?|5[1-5][0-9]{14}|6(011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}|3(0[0-5]|[68][0-9])[0-9]{11}"
    r"|(2131|1800|35[0-9]{3})[0-9]{11}"
)
_COLOUR = r"\s*(0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])\s*"
# Defects of addresses that Go accepts.
_HARMLESS = (errors.NonASCIILocalPartDefect, errors.ObsoleteHeaderDefect)


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return "%" not in text


def _without_zeros(text: str) -> str:
    """Remove the leading zeros of numbers, which Go took in addresses before 1.17."""
    return re.sub(r"\b0+(?=[0-9])", "", text)


def _is_network(text: str) -> bool:
    address, slash, bits = _without_zeros(text).partition("/")
    most = 128 if ":" in address else 32
    return bool(slash) and _is_address(address) and bits.isdecimal() and bits.isascii() and int(bits) <= most


def _is_hostname(text: str) -> bool:
    labels = text.encode().split(b".")
    return (
        _HOSTNAME.search(text) is not None and len(text.encode()) <= 255 and all(len(label) <= 63 for label in labels)
    )


def _is_email(text: str) -> bool:
    try:
        header = policy.default.header_factory("from", text)
    except (IndexError, ValueError):  # the parser itself fails at "a@" and at a line break
        return False
    return len(header.addresses) == 1 and all(isinstance(defect, _HARMLESS) for defect in header.defects)


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    try:
        return match is not None and bool(date(int(match[1]) or 2000, int(match[2]), int(match[3])))
    except ValueError:
        return False


def _is_moment(text: str) -> bool:
    day, _, rest = text.lower().partition("t")
    return _is_date(day) and _TIME.fullmatch(rest.partition("t")[0]) is not None


def _is_duration(text: str) -> bool:
    try:
        parse_duration(text)
    except CELError:
        amounts = _AMOUNT.findall(text)
        units = [unit.lower() for _, unit in amounts]
        return all(int(count) < 1 << 63 for count, _ in amounts) and any(
            unit in _UNITS or unit.startswith(_LONG_UNITS) for unit in units
        )
    return True


def _is_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    doubled = (int(digit) * (1 + place % 2) for place, digit in enumerate(reversed(digits)))
    return _CARD.fullmatch(digits) is not None and sum(sum(divmod(number, 10)) for number in doubled) % 10 == 0


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    # [1] is a number with a wrong check digit.
    numbers = (
        [10 if digit == "X" else int(digit) for digit in digits] if re.fullmatch("[0-9]{9}[0-9X]", digits) else [1]
    )
    return sum(place * number for place, number in enumerate(numbers, 1)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    numbers = map(int, digits) if re.fullmatch("[0-9]{13}", digits) else [1]
    return sum(number * (1 + place % 2 * 2) for place, number in enumerate(numbers)) % 10 == 0


def _uuid(version: str, variant: str) -> Callable[[str], bool]:
    x = "[0-9a-fA-F]"
    return _matches(f"{x}{{8}}-?{x}{{4}}-?{version}{x}{{3}}-?{variant}{x}{{3}}-?{x}{{12}}")


_BYTE = "[0-9a-fA-F]{2}"
_HARDWARE = re.compile(
    rf"(?:{_BYTE})+|{_BYTE}(?P<mark>[:-]){_BYTE}(?:(?P=mark){_BYTE})+|(?:{_BYTE}{_BYTE}\.)+{_BYTE}{_BYTE}"
)


def _is_hardware(text: str) -> bool:
    return _HARDWARE.fullmatch(text) is not None and len(re.sub("[:.-]", "", text)) in (12, 16, 40)


_HOSTNAME = compiled_pattern(
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}([a-zA-Z\p{L}]){2,63})$"
)
_SCHEMA_FORMATS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "uri": lambda text: not _uri(text),
    "email": _is_email,
    "hostname": _is_hostname,
    "ipv4": lambda text: "." in text and _is_address(_without_zeros(text)),
    "ipv6": lambda text: ":" in text and _is_address(text),
    "cidr": _is_network,
    "mac": _is_hardware,
    "uuid": _uuid("[0-9a-fA-F]", "[0-9a-fA-F]"),
    "uuid3": _uuid("3", "[0-9a-fA-F]"),
    "uuid4": _uuid("4", "[89abAB]"),
    "uuid5": _uuid("5", "[89abAB]"),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_card,
    "ssn": _matches(r"(?=.{11}$)[0-9]{3}[- ]?[0-9]{2}[- ]?[0-9]{4}"),
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(rf"rgb\({_COLOUR},{_COLOUR},{_COLOUR}\)"),
    "byte": _matches("([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),
    "password": lambda text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_moment,
    "k8sshortname": lambda text: not dns_label(text),
    "k8slongname": _matches(r"(?=.{1,253}$)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"),
}

_FORMATS_OF: Mapping[str, Container[str]] = {  # by the type of a schema
    "": _SCHEMA_FORMATS,
    "string": _SCHEMA_FORMATS,
    "integer": ("int32", "int64"),
    "number": ("float", "double"),
}


def is_known_format(schema: Mapping[str, Any]) -> bool:
    """Return True if a schema has no format, or one that its type has. Others are ignored."""
    name = schema.get("format", "")
    return not name or name.replace("-", "") in _FORMATS_OF.get(schema.get("type", ""), ())


def has_format(schema: Mapping[str, Any], text: str) -> bool:
    """Return True if a text has the format of a schema. Without a format for texts, any text does."""
    check = _SCHEMA_FORMATS.get(schema.get("format", "").replace("-", ""))
    return check is None or schema.get("type", "string") != "string" or check(text)


# -- of expressions ---------------------------------------------------------------------------------------------------


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
        URL(text)
    except ValueError as error:
        return [f"parse {json.dumps(text, ensure_ascii=False)}: {error}"]
    return []


def _of_schema(name: str, error: str) -> Callable[[str], list[str]]:
    return lambda text: [] if _SCHEMA_FORMATS[name](text) else [error]


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
    "uuid": _of_schema("uuid", "does not match the UUID format"),
    "byte": _of_schema("byte", "invalid base64"),
    "date": _of_schema("date", "invalid date"),
    "datetime": _of_schema("datetime", "invalid datetime"),
}


def _named(name: str) -> OptionalValue:
    return OptionalValue(Format(name, _FORMATS[name])) if name in _FORMATS else OptionalValue.none()


def _constant(name: str) -> Callable[[], Format]:
    return lambda: Format(name, _FORMATS[name])


def _validate(named: Format, text: str) -> OptionalValue:
    errors = named.validate(text)
    return OptionalValue(list(errors)) if errors else OptionalValue.none()


def add_formats(library: Library) -> None:
    """Add the named formats."""
    name = Format.cel_type
    library.add("format.named", f"(string) -> optional({name})", run=_named)
    for format_name in _FORMATS:
        library.add(f"format.{format_name}", f"() -> {name}", run=_constant(format_name))
    library.add("validate", f"{name}.(string) -> optional(list(string))", run=_validate)
