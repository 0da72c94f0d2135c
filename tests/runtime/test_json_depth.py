"""The limit of how deeply the JSON may be nested that a decoder is given: the same for each thread and platform.

Internals: the check itself, for any bytes.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer import KubeObject
from kinformer._runtime.json_depth import LEVELS, bounded, refuse_deep
from kinformer.exceptions import DecodeError


def nested(levels: int) -> bytes:
    """JSON of so many levels, of both kinds of brackets."""
    return b'[{"a":' * (levels // 2) + b"[]" * (levels % 2) + b"1" * (1 - levels % 2) + b"}]" * (levels // 2)


def test_one_level_less_than_the_limit_passes() -> None:
    refuse_deep(nested(LEVELS - 1))
    with pytest.raises(RecursionError, match="10000 levels"):
        refuse_deep(nested(LEVELS))


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview])
def test_any_kind_of_bytes_is_looked_at(make: Any) -> None:
    with pytest.raises(RecursionError):
        refuse_deep(make(nested(LEVELS)))


def test_brackets_in_texts_and_beside_one_another_are_no_levels() -> None:
    refuse_deep(json.dumps({"a": "[" * 3 * LEVELS, 'b"': '\\"' + "{" * LEVELS}).encode())
    refuse_deep(b"[" + b",".join([b"[[]]"] * LEVELS) + b"]")


def test_closing_brackets_in_texts_hide_no_level() -> None:
    with pytest.raises(RecursionError):
        refuse_deep(b'["]",' * LEVELS + b"1" + b"]" * LEVELS)


@given(st.recursive(st.text('[]{}\\"a'), lambda inner: st.lists(inner) | st.dictionaries(st.text('{"'), inner)))
def test_the_levels_are_those_of_the_document(value: Any) -> None:
    def levels(value: Any) -> int:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
        return 0 if inner is None else 1 + max(map(levels, inner), default=0)

    around = LEVELS - 1 - levels(value)
    refuse_deep(b"[" * around + json.dumps(value).encode() + b"]" * around)
    with pytest.raises(RecursionError):
        refuse_deep(b"[" * (around + 1) + json.dumps(value).encode() + b"]" * (around + 1))


def test_a_decoder_refuses_what_is_deep_on_each_python() -> None:
    decode = bounded(msgspec.json.Decoder().decode)
    assert decode(b'{"a":[1]}') == {"a": [1]}
    with pytest.raises(RecursionError):
        decode(nested(LEVELS))


@pytest.mark.skipif(sys.version_info < (3, 14), reason="there the interpreter has a limit of its own, as low or lower")
def test_an_object_of_as_many_levels_as_a_server_stores_is_kept() -> None:
    document = b'{"kind":"Widget","metadata":{"name":"a"},"spec":%s}'
    assert KubeObject.from_json(document % nested(LEVELS - 2)).name == "a"
    with pytest.raises(DecodeError, match="10000 levels"):
        KubeObject.from_json(document % nested(LEVELS))
