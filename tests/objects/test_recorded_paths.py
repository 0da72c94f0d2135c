"""`KubeObject.path`, held to what kubectl prints for the paths that both read."""

from __future__ import annotations

import json
import re
from typing import Any

from kinformer import ConfigError, KubeObject
from tests.conformance.recorded_differences import PATH
from tests.conformance.recordings import check, read


def text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def test_a_path_has_the_values_that_kubectl_prints() -> None:
    objects = {
        name: KubeObject.from_json(json.dumps(document).encode()) for name, document in read("paths.documents").items()
    }
    answers = read("paths.kubectl")
    read_here = 0
    for case, answer in answers.items():
        form, name, template = case.split(" ", 2)
        if form != "jsonpath" or not re.fullmatch(r"\{[.$\[][^{}]+\}", template) or name == "list":
            continue
        if not isinstance(answer, str):
            continue  # kubectl fails
        path = template[1:-1]
        try:
            value = objects[name].path(path, "")
        except ConfigError:
            continue  # kubectl reads more
        read_here += 1
        is_multiple = re.search(r"(?<!\\)\*|\.\.|\?\(|[:,]", path) is not None
        answers[case] = " ".join(map(text_of, value)) if is_multiple else text_of(value)
    assert read_here > 100
    check("paths.kubectl", answers, PATH)
