"""The formats of schemas: which texts and numbers they take, and the texts that are URLs in expressions."""

from __future__ import annotations

from typing import Any

from tests.conformance.site import Site
from tests.conformance.test_expressions import Kind
from tests.conformance.test_regular_expressions import quoted

_UUID = "0123abcd-89AB-{}cde-{}f01-23456789abcd"
TEXTS: dict[str, list[str]] = {
    "ipv4": ["1.2.3.4", "01.002.3.4", "::ffff:1.2.3.4", "1.2.3", "1.2.3.256", "1.2.3.4/8", " 1.2.3.4", "::1", "a.b"],
    "ipv6": ["::1", "2001:DB8::1", "::ffff:1.2.3.4", "fe80::1%eth0", "1.2.3.4", "1::2::3", ":::", "::1 ", ""],
    "cidr": [
        *("10.0.0.0/8", "10.0.0.5/08", "010.0.0.0/8", "::/0", "::ffff:1.2.3.4/96", "10.0.0.0/33", "10.0.0.0"),
        *("::1/129",),
    ],
    "mac": [
        *("01:23:45:67:89:ab", "01-23-45-67-89-AB", "0123.4567.89ab", "01:23:45:67:89:ab:cd:ef", "01:23:45:67:89"),
        *("0123.4567.89ab.cdef", "01:23-45:67:89:ab", "0123456789ab", "g1:23:45:67:89:ab"),
        *[":".join(["00"] * count) for count in (7, 8, 19, 20, 21)],
    ],
    "hostname": [
        *("a", "a.example", "a.example.", "A-b.c-d.io", "-a.io", "a-.io", "1a.io", "a_b.io", "é.io", "a..b", ""),
        *("a" * 63 + ".io", "a" * 64 + ".io", "a" * 64, ".".join(["ab"] * 84), ".".join(["ab"] * 86), "a.b", "a.1"),
        *("☃.io", "a b", "a-b", "a--b", "localhost", "10.0.0.1", "+", "a$b"),
    ],
    "email": [
        *("a@b", "a@b.io", "A <a@b.io>", "<a@b.io>", "a", "@b", "a@", "a b@c.io", '"a b"@c.io', "a@b@c", "a@b c"),
        *("a@b.io (comment)", "é@b.io", "a..b@c.io", ".a@b.io", "a@[1.2.3.4]", "A B <a@b.io>", '"A, B" <a@b>'),
        *("a@b, c@d", "A. B <a@b>", "group: a@b;", " a@b ", "a@-b", "a@b.", "a\n@b"),
    ],
    "uri": [
        *("http://a", "/rel", "rel", "", "*", "a:", ":a", "1a:b", "mailto:a@b", "http://a b", "http://a/b c"),
        *("/%zz", "http://a/%zz", "/%41", "http://a%41/", "http://a%e9/", "http://[::1]:80/", "http://[::1"),
        *("http://[1.2.3.4]/", "http://[fe80::1%25en0]/", "http://a:b/", "http://a:80:90/", "x://a:80:90/"),
        *("x:%zz", "/a?%zz", "//a b/c", "http://u:p@a/", "http://u p@a/", "http://u%zz@a/", "http://a/\t"),
        *("#%blah$#@", "/a#%zz", "http://a?b c", "http:///", "http://a<b/", "http://a^b/", 'http://a"b/'),
        *("http://é/", "http://:80/", "http://@a/", "http://a:/", "a+b.c-d:e"),
    ],
    "uuid": [
        *[_UUID.format(version, variant) for version in "12345" for variant in "8c"],
        *(_UUID.format(4, 9).replace("-", ""), f"x{_UUID.format(1, 1)}", "0123", f"{_UUID.format(1, 1)}\n"),
    ],
    "byte": ["", "YQ==", "YWI=", "YWJj", "YQ", "YQ=", "Y-_=", "Y+/=", "YQ== ", "YQ==\n", "Y Q=", "===="],
    "date": [
        *("2024-02-29", "2023-02-29", "2024-1-01", "24-01-01", "2024-01-01T00:00:00Z", "0000-01-01", "2024-13-01"),
        *("", "2024-01-00", "20240101", "2024-W01-1"),
    ],
    "date-time": [
        *("2024-01-01T00:00:00Z", "2024-01-01t00:00:00z", "2024-01-01T00:00:00.123456789123Z"),
        *("2024-01-01T24:00:00Z", "2024-01-01T00:00:00+01:00", "2024-01-01T00:00:00+0100"),
        *("2024-01-01T00:00:00+99:99", "2024-01-01 00:00:00Z", "2024-01-01T00:00:00", "2024-01-01T00:00:60Z"),
        *("2024-01-01T00:00Z", "2024-01-01T00:00:00,5Z", "2024-01-01", "2024-02-30T00:00:00Z"),
        *("2024-01-01T00:00:00.Z", "2024-01-01T00:00:00ZT", "20240101T000000Z", "0000-01-01T00:00:00Z"),
    ],
    "datetime": ["2024-01-01T00:00:00Z", "2024-01-01"],
    "duration": [
        *("1s", "1.5h", "-1m", "+1m", "1h2m3.5s", "P1D", "1d", "2 weeks", "1 day 2 hours", "22 ns", "1", "0", ""),
        *("s", "1x", "x1s", "1µs", "1us", "1.s", ".5s", "1e3s", "1 min 2", "99999999999999999999s", "1 foo 2 s"),
        *("-0", "1s 2x"),
    ],
    "k8s-short-name": ["a", "a-b", "-a", "A", "a.b", "1", "a" * 63, "a" * 64, ""],
    "k8s-long-name": ["a", "a.b", "a-b.c", "A", "a..b", ".a", "a" * 64, "a" * 253, "a" * 254, "a.-b", ""],
    "k8s-shortname": ["A"],
    "isbn": ["0321751043", "978-0321751041", "0-321-75104-3", "0321751044", "080442957X", "x"],
    "isbn10": ["0321751043", "978-0321751041", "0 321 75104 3", "080442957x"],
    "isbn13": ["978-0321751041", "978 0 321 75104 1", "9780321751042", "0321751043"],
    "creditcard": [
        *("4111111111111111", "4111-1111-1111-1111", "4111111111111112", "378282246310005", "a"),
        *("41111x11111111111",),
    ],
    "ssn": ["123-45-6789", "123 45 6789", "123456789", "123-456789", "12-345-6789", ""],
    "hexcolor": ["#fff", "FFF", "#12345", "#123456", "#ggg", ""],
    "rgbcolor": [
        *("rgb(1,2,3)", "rgb( 1 , 22 , 255 )", "rgb(1,2,256)", "rgb(1,2)", "RGB(1,2,3)", "rgb(01,2,3)"),
        *("rgb(199,1,1)",),
    ],
    "bsonobjectid": ["507f1f77bcf86cd799439011", "507F1F77BCF86CD799439011", "507f1f77bcf86cd79943901", "x" * 24],
    "password": ["", "x"],
    "unheard-of": ["", "x"],
    "int32": ["x"],
}
TEXTS |= {f"uuid{version}": TEXTS["uuid"] for version in (3, 4, 5)}
NUMBERS: dict[str, tuple[dict[str, Any], list[Any]]] = {
    "i": ({"type": "integer"}, [1, 1.0, 1.5, 2**31, 2**63 - 1, 2**63, -(2**63), 1e30]),
    "i32": ({"type": "integer", "format": "int32"}, [2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 1.0]),
    "i64": ({"type": "integer", "format": "int64"}, [2**63 - 1, 2**63, 1e18]),
    "iodd": ({"type": "integer", "format": "int16"}, [2**31, 1e30]),
    "n": ({"type": "number"}, [1, 1.5, 1e300]),
    "nf": ({"type": "number", "format": "float"}, [1.5, 3.4e38, 3.5e38, -3.5e38, 2**40]),
    "nd": ({"type": "number", "format": "double"}, [1e300]),
    "ni": ({"type": "number", "format": "int32"}, [2**40, 0.5]),
    "any": ({"x-kubernetes-int-or-string": True, "format": "int32"}, [2**40, "x"]),
    "branch": ({"type": "integer", "anyOf": [{"format": "int32"}, {"minimum": 2**50}]}, [2**40]),
}
BRANCHES: dict[str, list[dict[str, Any]]] = {
    "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}],
    "oneOf": [{"format": "ipv4"}, {"format": "ipv6"}, {"pattern": "^x"}],
    "allOf": [{"format": "hostname"}, {"format": "k8s-short-name"}],
}


async def test_texts_are_held_against_the_format_of_their_schema(site: Site) -> None:
    kind = Kind(site)
    names = {name: f"f{number}" for number, name in enumerate(TEXTS)}
    schema = {names[name]: {"type": "array", "items": {"type": "string", "format": name}} for name in TEXTS}
    await kind.defined(schema={"type": "object", "properties": schema})
    for name, texts in TEXTS.items():
        await site.post(f"{kind.things}?dryRun=All", kind.thing({names[name]: texts}))


async def test_numbers_are_held_against_the_format_of_their_schema(site: Site) -> None:
    kind = Kind(site)
    schema = {name: schema for name, (schema, _) in NUMBERS.items()}
    await kind.defined(schema={"type": "object", "properties": schema})
    for name, (_, values) in NUMBERS.items():
        for value in values:
            await site.post(f"{kind.things}?dryRun=All", kind.thing({name: value}))


async def test_formats_count_in_combined_schemas(site: Site) -> None:
    kind = Kind(site)
    schema = {name: {"type": "string", name: parts} for name, parts in BRANCHES.items()}
    schema["not"] = {"type": "string", "not": {"format": "ipv4"}}
    await kind.defined(schema={"type": "object", "properties": schema})
    for name in schema:
        for text in ("1.2.3.4", "::1", "a.example", "x", "::ffff:1.2.3.4"):
            await site.post(f"{kind.things}?dryRun=All", kind.thing({name: text}))


async def test_expressions_know_the_same_formats(site: Site) -> None:
    kind, rules = Kind(site), []
    for name in ("uri", "uuid", "byte", "date", "datetime"):
        texts = TEXTS["date-time" if name == "datetime" else name]
        shown = (f"format.{name}().validate({quoted(text)}).orValue(['good'])[0]" for text in texts)
        rules.append({"rule": "false", "messageExpression": " + '; ' + ".join(shown)})
    shown = (f"(isURL({quoted(text)}) ? 'yes' : 'no')" for text in TEXTS["uri"])
    rules.append({"rule": "false", "messageExpression": " + ' ' + ".join(shown)})
    await kind.defined(*rules, schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    await site.post(kind.things, kind.thing({"n": 1}))
    await kind.defined(
        {"rule": "url(self.s).getScheme() != ''"}, schema={"type": "object", "properties": {"s": {"type": "string"}}}
    )
    for text in ("#%blah$#@", "http://a b", "http://a/%zz", "http://a"):
        await site.post(f"{kind.things}?dryRun=All", kind.thing({"s": text}))
