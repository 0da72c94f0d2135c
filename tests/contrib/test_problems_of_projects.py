"""Custom resources of often used projects are judged as their operators mean them."""

from __future__ import annotations

from typing import Any

import pytest

from kinformer.kinds import severity_of
from tests.contrib.problem_scenes import LATER, LONG, make, written
from tests.contrib.statuses_of_projects import PROJECTS, Content, Written

WELL = [
    pytest.param(project, content, id=f"{name}: {what}")
    for name, project in PROJECTS.items()
    for what, content in {**project.well, **project.stopped}.items()
]
BROKEN = [
    pytest.param(project, content, id=f"{name}: {what}")
    for name, project in PROJECTS.items()
    for what, content in project.broken.items()
]


def level_of(project: Written, content: Content) -> str:
    """Return the level of an object whose status was written long ago."""
    obj: dict[str, Any] = make(project.kind, "a", api=project.api_version, **dict(content))
    return severity_of(written(obj, LONG), now=LATER).level


@pytest.mark.parametrize(("project", "content"), WELL)
def test_an_object_that_is_well_or_stopped_on_purpose_is_no_problem(project: Written, content: Content) -> None:
    assert level_of(project, content) != "bad"


@pytest.mark.parametrize(("project", "content"), BROKEN)
def test_a_broken_object_is_a_problem(project: Written, content: Content) -> None:
    assert level_of(project, content) == "bad"


@pytest.mark.parametrize(("project", "content"), BROKEN)
@pytest.mark.parametrize(
    "stop",
    [{"paused": True}, {"suspend": True}, {"replicas": 0}, {"running": False}],
    ids=["paused", "suspended", "at zero", "not to run"],
)
def test_a_broken_object_that_is_stopped_is_no_problem(project: Written, content: Content, stop: Content) -> None:
    assert level_of(project, {**content, "spec": {**content.get("spec", {}), **stop}}) != "bad"


@pytest.mark.parametrize(("project", "content"), BROKEN)
@pytest.mark.parametrize("go", [{"paused": False}, {"suspend": False}, {"replicas": 1}, {"replicas": "0"}])
def test_a_broken_object_that_is_to_run_is_a_problem(project: Written, content: Content, go: Content) -> None:
    assert level_of(project, {**content, "spec": {**content.get("spec", {}), **go}}) == "bad"
