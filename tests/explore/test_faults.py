"""Single faults, each in a history of its own: what a cluster does in them, and what is no fault of the operator.

Internals: single histories, since an exploration chooses its schedules itself.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kinformer.testing.explore import World
from kinformer.testing.explore.exploration import quietly
from kinformer.testing.explore.history import History
from kinformer.testing.explore.schedule import Point, Schedule, Strike
from tests.explore import widgets
from tests.explore.operators import missed_deletion, missing_finalizer, requeue_storm, two_leaders

pytest.importorskip("time_machine")


def played(declare: Callable[[World], object], *strikes: Strike) -> History:
    world = World(lambda strategy: [])
    declare(world)
    history = History(world.plan, Schedule(strikes=strikes))
    with quietly():
        history.play()
    return history


def declare_finalizer(world: World) -> None:
    with pytest.raises(StopIteration):
        widgets.finalizer(world).send(None)


def test_a_deleted_definition_is_made_again_and_people_and_checks_meet_that_it_is_not_there() -> None:
    strike = Strike("DefinitionDeleted", "", Point(1, "patch", "example.com/v1/users/status", 0), 20.0)
    history = played(lambda world: requeue_storm.declare(world, mended=True), strike)
    assert history.finding is None
    assert "could not create User b" in history.trace.text()
    assert "could not delete example.com/v1/users default/a: 404" in history.trace.text()
    assert "creates apiextensions.k8s.io/v1/customresourcedefinitions users" in history.trace.text()


def test_a_deleted_definition_is_not_made_again_before_the_finalizers_of_its_objects_are_gone() -> None:
    deleted = Strike("DefinitionDeleted", "", Point(1, "patch", "example.com/v1/widgets/status", 2), 20.0)
    away = Strike("Restart", "after", Point(1, "patch", "example.com/v1/widgets/status", 2), 60.0)
    history = played(declare_finalizer, deleted, away)
    assert history.finding is None
    definition = "apiextensions.k8s.io/v1/customresourcedefinitions widgets.example.com"
    [back] = [entry.at for entry in history.trace if "starts again" in entry.text]
    [gone] = [entry.at for entry in history.trace if f"deletes {definition}" in entry.text]
    *_, made = [entry.at for entry in history.trace if f"creates {definition}" in entry.text]
    assert 60 < back < gone <= made


def test_a_deleted_namespace_is_made_again() -> None:
    strike = Strike("NamespaceDeleted", "", Point(1, "delete", "v1/configmaps", 0), 20.0)
    history = played(lambda world: missed_deletion.declare(world, mended=True), strike)
    assert history.finding is None
    assert "deletes v1/namespaces proxy" in history.trace.text()
    assert "creates v1/namespaces proxy" in history.trace.text()


def test_a_program_that_waits_for_an_answer_is_not_at_rest() -> None:
    strike = Strike("LostAnswer", "silence", Point(1, "patch", "example.com/v1/widgets/status", 2), 5.0)
    history = played(declare_finalizer, strike)
    assert history.finding is None
    [done] = [entry for entry in history.trace if "deletes example.com/v1/widgets default/a" in entry.text]
    assert done.at > 40  # the client waited for half a minute


def test_a_process_may_be_killed_when_it_is_told_of_an_event() -> None:
    strike = Strike("Restart", "before", Point(1, "event", missing_finalizer.BUCKETS, 1), 20.0)
    history = played(lambda world: missing_finalizer.declare(world, mended=False), strike)
    assert history.finding is not None
    assert history.finding.rule == "eventually"
    strike = Strike("Restart", "after", Point(1, "event", missing_finalizer.BUCKETS, 1), 20.0)
    history = played(lambda world: missing_finalizer.declare(world, mended=True), strike)
    assert history.finding is None
    assert "replica 1  starts again" in history.trace.text()


def test_a_write_that_was_on_its_way_when_the_lead_went_is_no_finding() -> None:
    slow = Strike("Slow", "before", Point(1, "patch", two_leaders.RESULTS, 0), 30.0)
    killed = Strike("Restart", "before", Point(1, "update", "coordination.k8s.io/v1/leases", 4), 60.0)
    history = played(lambda world: two_leaders.declare(world, mended=True), slow, killed)
    text = history.trace.text()
    assert text.index("replica 2  changes coordination") < text.rindex("replica 1  changes v1/configmaps")
    assert history.finding is None
