from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer import FieldSelector, LabelSelector
from kinformer.exceptions import SelectorError

WEB = {"app": "web", "tier": "front", "size": "5", "example.com/x": ""}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        ("  ", True),
        ("app", True),
        ("app=web", True),
        ("app==web", True),
        (" app = web , tier == front ", True),
        ("app!=web", False),
        ("app=web,tier=back", False),
        ("nothing!=web", True),
        ("nothing", False),
        ("!nothing", True),
        ("! app", False),
        ("app in (web,api)", True),
        ("app in(web)", True),
        ("app in (api)", False),
        ("app notin (web, api)", False),
        ("nothing notin (web)", True),
        ("nothing in (web)", False),
        ("example.com/x=", True),
        ("example.com/x", True),
        ("app=", False),
        ("app in (,web)", True),
        ("example.com/x in (,)", True),
        ("example.com/x in ()", True),
        ("app notin (),tier", True),
        ("app in ()", False),
        ("app=web,example.com/x=,tier", True),
        ("size>4", True),
        ("size > 5", False),
        ("size<6", True),
        ("size<5", False),
        ("app>1", False),
        ("nothing<1", False),
        ("in in (in,notin)", False),
        ("in!=notin", True),
        ("!in", True),
        ("notin", False),
    ],
)
def test_a_selector_chooses_as_the_api_server_does(text: str, chosen: bool) -> None:
    assert LabelSelector.parse(text).matches(WEB) is chosen


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("a=b,", 4),
        (",a=b", 0),
        ("a,,b", 2),
        ("=b", 0),
        ("a b", 2),
        ("a=b c", 4),
        ("a in b", 5),
        ("a in", 4),
        ("a in (b", 7),
        ("a in (b c)", 8),
        ("a=!b", 2),
        ("a=(b)", 2),
        ("a===b", 3),
        ("!a=b", 2),
        ("!!a", 1),
        ("a>b", 2),
        ("a<", 2),
        ("-a=b", 0),
        ("a=-b", 2),
        ("x/y/z=b", 0),
        ("UP.com/a=b", 0),
        ("/a=b", 0),
        ("a/=b", 0),
        ("a=" + "x" * 64, 2),
        ("x" * 64 + "=a", 0),
        ("a in (b, c d)", 11),
        ("a=b,c in (d,e$)", 12),
        ("a)", 1),
        ("a=ü", 2),
    ],
)
def test_a_bad_selector_says_where(text: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        LabelSelector.parse(text)
    error = caught.value
    assert error.position == position
    assert error.selector == text
    assert f"at position {position}: {text[:position]}>>>{text[position:]}" in str(error)
    assert "\n" not in str(error)


def test_a_dict_asks_for_equality() -> None:
    selector = LabelSelector.parse({"tier": "front", "app": "web"})
    assert selector.matches(WEB)
    assert not selector.matches({"app": "web"})
    assert selector == LabelSelector.parse("app=web,tier=front")
    assert LabelSelector.parse({}).matches({})
    for bad in ({"-a": "b"}, {"a": "b c"}, {"a": 1}, {1: "a"}, 7):
        with pytest.raises(SelectorError):
            LabelSelector.parse(bad)  # type: ignore[arg-type]


def test_a_selector_from_an_object_chooses_as_its_text_does() -> None:
    selector = LabelSelector.from_object(
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "In", "values": ["front", "back"]},
                {"key": "stage", "operator": "NotIn", "values": ["test"]},
                {"key": "team", "operator": "Exists"},
                {"key": "canary", "operator": "DoesNotExist"},
            ],
        }
    )
    assert str(selector) == "!canary,app=web,stage notin (test),team,tier in (back,front)"
    assert selector.matches({"app": "web", "tier": "back", "team": "a"})
    assert not selector.matches({"app": "web", "tier": "back", "team": "a", "canary": ""})
    assert not selector.matches({"app": "web", "tier": "back", "team": "a", "stage": "test"})
    assert LabelSelector.from_object({}).matches({"any": "thing"})


def test_a_selector_from_an_object_with_an_unknown_operator_names_it() -> None:
    with pytest.raises(SelectorError, match="Gt"):
        LabelSelector.from_object({"matchExpressions": [{"key": "cpu", "operator": "Gt", "values": ["1"]}]})


def test_nothing_asks_for_nothing() -> None:
    for empty in (None, "", {}):
        selector = LabelSelector.parse(empty)
        assert selector.matches(WEB)
        assert not selector
        assert str(selector) == ""
    assert LabelSelector.parse("a")
    assert LabelSelector.parse(selector) is selector


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (" b == x ,a", "a,b=x"),
        ("a in (x)", "a=x"),
        ("a notin (x)", "a!=x"),
        ("a in (z,y, z)", "a in (y,z)"),
        ("! a", "!a"),
        ("a > 05", "a>05"),
        ("a,a,a", "a"),
        ("a notin (,x)", "a notin (,x)"),
    ],
)
def test_selectors_of_one_meaning_have_one_text(text: str, canonical: str) -> None:
    selector = LabelSelector.parse(text)
    assert str(selector) == canonical
    assert selector == LabelSelector.parse(canonical)
    assert hash(selector) == hash(LabelSelector.parse(canonical))
    assert str(LabelSelector.parse(str(selector))) == canonical


KEYS = st.sampled_from(["a", "b", "in", "notin", "x.io/a"])
VALUES = st.sampled_from(["", "a", "b", "7", "in"])
TERMS = st.tuples(
    KEYS, st.sampled_from(["=", "==", "!=", " in ", " notin ", "", "!"]), st.lists(VALUES, min_size=1, max_size=3)
)
SPACES = st.sampled_from(["", " ", "\t", "\n "])


def naive(term: tuple[str, str, list[str]], labels: dict[str, str]) -> bool:
    key, operator, values = term
    operator = operator.strip()
    if operator in ("=", "=="):
        return key in labels and labels[key] == values[0]
    if operator == "!=":
        return key not in labels or labels[key] != values[0]
    if operator == "in":
        return key in labels and labels[key] in values
    if operator == "notin":
        return key not in labels or labels[key] not in values
    return (key in labels) != (operator == "!")


@given(st.lists(TERMS, max_size=4), SPACES, st.dictionaries(KEYS, VALUES, max_size=4))
def test_selectors_agree_with_a_naive_reading(
    terms: list[tuple[str, str, list[str]]], space: str, labels: dict[str, str]
) -> None:
    texts = []
    for key, operator, values in terms:
        if operator in (" in ", " notin "):
            texts.append(f"{key}{operator}({space}{f'{space},{space}'.join(values) if values != [''] else ','})")
        elif operator == "!":
            texts.append(f"!{space}{key}")
        else:
            texts.append(f"{key}{space}{operator}{space}{values[0] if operator else ''}")
    selector = LabelSelector.parse(f"{space},{space}".join(texts))
    assert selector.matches(labels) is all(naive(term, labels) for term in terms)
    assert LabelSelector.parse(str(selector)) == selector


def read(text: str) -> LabelSelector | int:
    try:
        return LabelSelector.parse(text)
    except SelectorError as error:
        return error.position


@given(st.text(alphabet="ab=!<>(), in-", max_size=15))
def test_any_text_is_a_selector_or_an_error_with_a_position(text: str) -> None:
    found = read(text)
    if isinstance(found, int):
        assert 0 <= found <= len(text)
    else:
        assert LabelSelector.parse(str(found)) == found


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        ("", True),
        ("metadata.name=web-1", True),
        ("metadata.name==web-1,status.phase!=Failed", True),
        ("metadata.name!=web-1", False),
        ("spec.nodeName=", True),
        ("spec.nodeName!=", False),
        (r"note=a\,b\=c\\d", True),
        (",metadata.name=web-1,", True),
    ],
)
def test_a_field_selector_chooses_by_fields(text: str, chosen: bool) -> None:
    fields = {"metadata.name": "web-1", "status.phase": "Running", "note": r"a,b=c\d"}
    selector = FieldSelector.parse(text)
    assert selector.matches(fields) is chosen
    assert selector.matches(fields.get) is chosen
    assert FieldSelector.parse(str(selector)) == selector
    assert hash(FieldSelector.parse(str(selector))) == hash(selector)
    assert bool(selector) is bool(text)


@pytest.mark.parametrize(
    ("text", "position"), [("a", 0), ("a=b,c", 4), (r"a=\x", 2), ("a=b\\", 3), ("a=b=c", 3), (r"a=b\,c=d", 6)]
)
def test_a_bad_field_selector_says_where(text: str, position: int) -> None:
    with pytest.raises(SelectorError) as caught:
        FieldSelector.parse(text)
    assert caught.value.position == position


@given(st.dictionaries(st.sampled_from(["a.b", "c"]), st.text(alphabet="ab,=\\!", max_size=6)))
def test_every_value_survives_its_escaping(fields: dict[str, str]) -> None:
    selector = FieldSelector(tuple((name, "=", value) for name, value in fields.items()))
    assert FieldSelector.parse(str(selector)) == selector
    assert selector.matches(fields)
