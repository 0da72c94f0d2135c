"""Regular expressions, in the patterns of schemas and in expressions: RE2's syntax is not Python's."""

from __future__ import annotations

from typing import Any

from tests.conformance.site import Site
from tests.conformance.test_expressions import Kind

PATTERNS: dict[str, list[str]] = {
    # flags apply from their place to the end of their group
    r"^(?i)\.?[a-z_][a-z_0-9]*(\.[a-z_][a-z_0-9]*)*$": ["Some.Service", "some.service\n", "1"],
    r"(?i)abc": ["xABCx", "abd"],
    r"a(?i)b|c": ["aB", "Ab", "C", "a"],
    r"(a(?i)b)c": ["aBc", "aBC"],
    r"(?i:a)b": ["Ab", "AB"],
    r"(?i)a(?-i)b": ["Ab", "aB"],
    r"^(?s)a.b$": ["a\nb", "a\nb\n"],
    r"^(?m)b$": ["a\nb\nc", "ab"],
    # the end of a text is not before its last line break
    r"^[a-z]+$": ["abc", "abc\n"],
    r"\Aabc\z": ["abc", "abc\n"],
    # classes are of ASCII
    r"^\d+$": ["12", "١٢"],
    r"^\w+$": ["a_1", "é"],
    r"^\s$": [" ", "\v", "\u00a0"],
    r"^\S$": ["a", "é", "\v", " "],
    r"^\D\W$": ["a-", "1-", "é "],
    r"\bé": ["aé", "a é"],
    r"(?i)^k$": ["K", "\u212a"],
    r"^[[:alpha:]][[:^digit:]]+[^[:space:]]$": ["abc", "a1c", "ab "],
    r"^[[:punct:]]+[[:xdigit:]]$": ["!~F", "!~G"],
    r"^\p{Lu}\pL\P{N}$": ["Éé-", "éÉ-", "Éé1"],
    # texts
    r"^\Qa.b*\E+$": ["a.b**", "axb"],
    r"^\x41\x{1F600}\101$": ["A😀A", "A"],
    r"^a{,2}$": ["aa", "a{,2}"],
    r"^[]a]+$": ["]a", "b"],
    r"^[a\]-]+$": ["a]-", "b"],
    r"^[a&&b\-c[]+$": ["a&b-[", "d"],
    r"^(?P<one>a)(?<two>b)$": ["ab", "b"],
}
REFUSED = [
    r"a(?=b)",
    r"(?<!a)b",
    r"(a)\1",
    r"(?>a)",
    r"a++",
    r"a**",
    r"*a",
    r"a{1001}",
    r"a{2,1}",
    r"[b-a]",
    r"[[:letter:]]",
    r"\p{Letters}",
    r"\Z",
    r"\q",
    "[a",
    "(a",
    "a)",
    "a\\",
    r"(?x)a",
]


def quoted(text: str) -> str:
    return '"' + "".join(f"\\U{ord(char):08x}" for char in text) + '"'


def fields(**patterns: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "string", "pattern": one} for name, one in patterns.items()},
    }


async def test_expressions_match_as_re2_does(site: Site) -> None:
    kind, rules = Kind(site), []
    for pattern, texts in PATTERNS.items():
        found = [f"({quoted(text)}.matches({quoted(pattern)}) ? 'yes' : 'no')" for text in texts]
        found.append(f"{quoted(texts[0])}.find({quoted(pattern)}).trim()")
        rules.append({"rule": "false", "messageExpression": " + ' ' + ".join(found)})
    await kind.defined(*rules, schema={"type": "object", "properties": {"n": {"type": "integer"}}})
    await site.post(kind.things, kind.thing({"n": 1}))


async def test_expressions_refuse_what_re2_refuses(site: Site) -> None:
    kind = Kind(site)
    schema = {"type": "object", "properties": {"s": {"type": "string", "maxLength": 20}}}
    for pattern in REFUSED:
        await kind.refused({"rule": f"'a'.matches({quoted(pattern)})"}, schema=schema)
    await kind.defined(*({"rule": f"'a'.matches({quoted(one)} + self.s)"} for one in REFUSED), schema=schema)
    await site.post(kind.things, kind.thing({"s": ""}))


async def test_patterns_of_a_schema_match_as_re2_does(site: Site) -> None:
    kind = Kind(site)
    names = {pattern: f"p{number}" for number, pattern in enumerate(PATTERNS)}
    await kind.defined({"rule": "true"}, schema=fields(**{name: pattern for pattern, name in names.items()}))
    for pattern, texts in PATTERNS.items():
        for text in texts:
            await site.post(f"{kind.things}?dryRun=All", kind.thing({names[pattern]: text}))


async def test_a_definition_is_refused_with_a_pattern_that_re2_refuses(site: Site) -> None:
    kind = Kind(site)
    for pattern in REFUSED:
        await kind.refused(schema=fields(text=pattern))
    await kind.refused(schema=fields(text="a(?=b)", end=r"\Z"))
    parts = [{"pattern": "["}, {"pattern": "("}]
    await kind.refused(schema={"type": "object", "properties": {"s": {"type": "string", "anyOf": parts}}})
    await kind.refused(schema={"type": "object", "properties": {"s": {"type": "string", "allOf": parts}}})
    await kind.refused(schema={"type": "object", "properties": {"s": {"type": "string", "oneOf": parts}}})
    await kind.refused(schema={"type": "object", "properties": {"s": {"type": "string", "not": parts[0]}}})
