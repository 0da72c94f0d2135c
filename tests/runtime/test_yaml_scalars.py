"""Scalars of YAML have the types and values that kubectl and a kube-apiserver read.

`yaml_scalars.jsonl` has what `sigs.k8s.io/yaml` 1.6.0 makes of each text: `YAMLToJSON([]byte("v: " + text + "\\n"))`.

Internals: the two readers of YAML, since a kubeconfig and a body for each scalar would say less.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kinformer import ConfigError
from kinformer._runtime.yaml_reader import read_yaml
from kinformer.testing.codec.bodies import parse_yaml

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "yaml_scalars.jsonl").read_text().splitlines()]


def reading(text: str) -> Any:
    return read_yaml(f"v: {text}\n", "there")["v"]


def of_a_body(text: str) -> Any:
    return parse_yaml(f"v: {text}\n".encode())["v"]


@pytest.mark.parametrize("read", [reading, of_a_body])
@pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded["text"] or "nothing")
def test_a_scalar_is_what_it_is_in_go(read: Any, recorded: dict[str, Any]) -> None:
    if recorded.get("error"):
        with pytest.raises(Exception, match=r"YAML|type"):
            read(recorded["text"])
        return
    value, wanted = read(recorded["text"]), recorded["value"]
    if isinstance(value, float) and isinstance(wanted, int):
        assert value == float(wanted)
    else:
        assert json.dumps(value) == json.dumps(wanted), "also in its type"


def test_a_number_without_json_is_named_with_its_place() -> None:
    with pytest.raises(ConfigError, match=r"there: line 1, column 4: not YAML: a value is not of its type"):
        reading(".nan")


def test_keys_and_merges_are_as_before() -> None:
    assert read_yaml("a: &x {b: 1}\nc:\n  <<: *x\n  d: <<\n", "there") == {"a": {"b": 1}, "c": {"b": 1, "d": "<<"}}
