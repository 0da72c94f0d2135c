"""Which changes are worth a reconcile."""

from __future__ import annotations

from typing import Any

import pytest

from kinformer import InformerEvent, KubeObject
from kinformer.controller import (
    Predicate,
    annotations_changed,
    generation_changed,
    labels_changed,
    resource_version_changed,
    resynced,
)


def foo(rv: int = 1, **metadata: Any) -> KubeObject:
    return KubeObject.from_dict(
        {"apiVersion": "v1", "kind": "Foo", "metadata": {"name": "a", "resourceVersion": str(rv), **metadata}}
    )


def update(old: KubeObject, new: KubeObject) -> InformerEvent:
    return InformerEvent("UPDATED", new, old)


NOTHING = update(foo(1, generation=1), foo(2, generation=1))
SPEC = update(foo(1, generation=1), foo(2, generation=2))
LABELS = update(foo(1, generation=1), foo(2, generation=1, labels={"a": "b"}))
ANNOTATIONS = update(foo(1, generation=1), foo(2, generation=1, annotations={"a": "b"}))
RESYNC = InformerEvent("SYNC", foo(), foo())
ADDED = InformerEvent("ADDED", foo())
DELETED = InformerEvent("DELETED", foo(2), foo())


@pytest.mark.parametrize(
    ("predicate", "passes"),
    [
        (generation_changed, [SPEC]),
        (labels_changed, [LABELS]),
        (annotations_changed, [ANNOTATIONS]),
        (resource_version_changed, [NOTHING, SPEC, LABELS, ANNOTATIONS]),
        (generation_changed | labels_changed, [SPEC, LABELS]),
        (generation_changed & labels_changed, []),
        (generation_changed | resynced, [SPEC, RESYNC]),
    ],
)
def test_each_lets_its_own_changes_pass(predicate: Predicate, passes: list[InformerEvent]) -> None:
    events = [NOTHING, SPEC, LABELS, ANNOTATIONS, RESYNC]
    assert [event for event in events if predicate(event)] == passes


@pytest.mark.parametrize(
    "predicate", [generation_changed, labels_changed, annotations_changed, resource_version_changed]
)
def test_what_is_new_and_what_is_gone_always_passes(predicate: Predicate) -> None:
    assert predicate(ADDED)
    assert predicate(DELETED)


def test_of_a_resource_that_counts_no_generations_every_update_passes() -> None:
    assert generation_changed(update(foo(1), foo(2)))


def test_a_negation_turns_everything_round() -> None:
    assert not (~generation_changed)(ADDED)
    assert (~generation_changed)(NOTHING)
    assert not (~generation_changed)(SPEC)


def test_any_function_of_an_event_may_be_one_and_be_combined() -> None:
    @Predicate
    def is_web(event: InformerEvent) -> bool:
        return event.object.name == "web"

    assert not (is_web | (lambda event: False))(ADDED)
    assert (is_web | (lambda event: True))(ADDED)
    assert (generation_changed & (lambda event: True))(SPEC)


def test_a_combination_says_what_it_is() -> None:
    assert repr(generation_changed & ~labels_changed) == "(generation_changed & ~labels_changed)"
