"""YAML from outside is read within limits, and what is wrong with it is a ConfigError with its place.

Internals: the reader itself, since its callers show a part of what it refuses.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kinformer import ConfigError
from kinformer._runtime.yaml_reader import read_yaml, read_yaml_documents


def nested(levels: int, width: int, line: str) -> str:
    """Lines that refer to the line before several times each, so that each has `width` times as many values."""
    lines = ["a0: &a0 {k: v}"]
    for level in range(1, levels):
        lines.append(f"a{level}: &a{level} {line.format(', '.join([f'*a{level - 1}'] * width))}")
    return "\n".join(lines)


REFUSED = {
    "a number without digits": ('a: 1\nb: !!int ""', "line 2, column 4: not YAML: a value is not of its type"),
    "a number of underscores": ("a: !!int _", "line 1, column 4: not YAML: a value is not of its type"),
    "no bool": ('a: !!bool "x"', "line 1, column 4: not YAML: a value is not of its type"),
    "no float": ('a: !!float ""', "line 1, column 4: not YAML: a value is not of its type"),
    "a number that JSON has not": ("a: -.inf", "line 1, column 4: not YAML: a value is not of its type"),
    "a set": ("a: !!set {b, c}", "line 1, column 4: not YAML: a value has a tag"),
    "an object of Python": ("a: !!python/object/apply:os.system [true]", "a value has a tag"),
    "aliases": (nested(9, 9, "[{}]"), "more than 200000 values"),
    "merges": (nested(9, 8, "{{<<: [{}]}}"), "more than 200000 values"),
    "an alias of itself": ("a: &a [*a]", "line 1, column 4: not YAML: an alias contains itself"),
    "deep brackets": ("[" * 5000, "not YAML"),
    "a deep list": ("- " * 5000, "nested more than 100 levels deep"),
    "digits": ("a: " + "9" * 100_000, "line 1, column 4: not YAML: a number is too long"),
    "digits in hexadecimal": ("a: 0x" + "9f" * 50_000, "a number is too long"),
    "a key that is a list": ("? [1]\n: 2", "line 1, column 3: not YAML"),
    "two documents": ("a: 1\n---\nb: 2", "expected one document, got 2"),
    "no YAML": ("a: [", "not YAML: did not find expected node content"),
    "a NUL": ("a: \0", "not YAML: ReaderError"),
    "no text": (b"\xff\xfe\xfa", "not YAML"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_document_that_would_fail_or_grow_is_refused_with_its_place(what: str) -> None:
    text, message = REFUSED[what]
    with pytest.raises(ConfigError) as caught:
        read_yaml(text, "the file")
    assert str(caught.value).startswith("the file: ")
    assert message in str(caught.value)


def test_the_values_are_those_of_json() -> None:
    text = "a: 2001-12-14\nb: &b {c: [1, 2.5, true, null, x]}\nd: *b\ne: {<<: *b, f: 'y'}\n"
    inner = {"c": [1, 2.5, True, None, "x"]}
    assert read_yaml(text, "x") == {"a": "2001-12-14", "b": inner, "d": inner, "e": {**inner, "f": "y"}}
    assert read_yaml("", "x") is None
    assert list(read_yaml_documents("a: 1\n---\n---\nb: 2", "x")) == [{"a": 1}, None, {"b": 2}]


def test_nothing_of_the_content_is_in_an_error() -> None:
    for text in ("a: *hidden", "a: !hidden x", "hidden: [", '"hidden', "a: &hidden [*hidden]", "? {hidden: 1}\n: 2"):
        with pytest.raises(ConfigError) as caught:
            read_yaml(text, "x")
        assert "hidden" not in str(caught.value)
        assert caught.value.__cause__ is None


PIECES = ["!!int ", "!!float ", "!!bool ", "!!null ", "!!seq ", "!!map ", "&a ", "*a", "<<: ", "[", "]", "{", "}", ": "]
PIECES += [
    ", ",
    "- ",
    "? ",
    "\n",
    "\n  ",
    "x",
    "1",
    '""',
    "'",
    '"',
    "|",
    ">",
    "#",
    "%",
    "@",
    "\t",
    "---\n",
    "...\n",
    "~",
]


@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_any_text_is_a_value_or_a_config_error(text: str) -> None:
    try:
        value = read_yaml(text, "x")
    except ConfigError:
        return
    assert same(value, yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))


def same(one: Any, other: Any) -> bool:
    return bool(one == other)  # also 1 and 1.0


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_config_error(text: bytes) -> None:
    try:
        read_yaml(text, "x")
    except ConfigError as error:
        assert str(error).startswith("x: ")  # noqa: PT017 - most examples raise nothing
