"""Leases of replicas that are edited by hand while slots move: never two owners, and all is done in the end."""

from __future__ import annotations

import copy
import logging
import random
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest

from tests.sharding.test_sharding_schedules import Schedule

pytestmark = pytest.mark.slow

SLOTS, SEEN, EPOCH = (f"kinformer.dev/{name}" for name in ("slots", "seen", "epoch"))
Object = dict[str, Any]


def _annotate(**texts: str) -> Callable[[Object], object]:
    return lambda lease: lease["metadata"]["annotations"].update(
        {f"kinformer.dev/{name}": text for name, text in texts.items()}
    )


EDITS: dict[str, Callable[[Object], object]] = {
    "the slots are taken out": lambda lease: lease["metadata"]["annotations"].pop(SLOTS),
    "all annotations are taken out": lambda lease: lease["metadata"].pop("annotations"),
    "the slots are emptied": _annotate(slots=""),
    "no slots are shown": _annotate(slots="0" * 64),
    "half of the slots are cut off": lambda lease: _annotate(slots=lease["metadata"]["annotations"][SLOTS][:32])(lease),
    "the slots are shown twice": lambda lease: _annotate(slots=lease["metadata"]["annotations"][SLOTS] * 2)(lease),
    "the slots are garbled": _annotate(slots="from the future"),
    "more has been seen than there is": _annotate(seen="9" * 20),
    "what has been seen has 5000 digits": _annotate(seen="9" * 5000),
    "the epoch has 5000 digits": _annotate(epoch="9" * 5000),
    "the label is taken out": lambda lease: lease["metadata"].pop("labels"),
    "the holder is emptied": lambda lease: lease["spec"].update(holderIdentity=""),
    "the holder is another": lambda lease: lease["spec"].update(holderIdentity="another"),
    "the duration is one second": lambda lease: lease["spec"].update(leaseDurationSeconds=1),
    "everything is taken out": lambda lease: lease["spec"].clear(),
}


@pytest.fixture(autouse=True)
def _no_log() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def play(seed: int, edit: Callable[[Object], object]) -> None:
    """Three replicas; others join and leave, and a Lease is edited while the slots move for that."""
    lot, before = Random(seed), random.getstate()
    random.seed(seed)
    moves = [(lot.uniform(10, 50), lot.choice(["leave", "join", "join"]), lot.randrange(8), 1.0) for _ in range(3)]
    schedule = Schedule(3, seed, moves, filters=bool(seed % 2))
    for replica in schedule.replicas:
        replica.client.lost = replica.client.unanswered = replica.client.failing = replica.client.slow = 0.0

    def happens() -> None:
        leases = schedule.leases
        name = lot.choice(sorted(leases.leases))
        lease = copy.deepcopy(leases.leases[name])
        if SLOTS in lease["metadata"].get("annotations", {}) and lease["spec"] and "labels" in lease["metadata"]:
            edit(lease)
            leases.write("kubectl", name, lease)

    for at, *_ in moves:
        for later in (0.3, 0.9, 1.5, 2.5, 3.5):
            schedule.simulation.later(at + later, happens)
    try:
        schedule.play()
    finally:
        random.setstate(before)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("what", EDITS)
def test_no_key_has_two_owners_and_each_has_one_in_the_end(what: str) -> None:
    for seed in range(6):
        play(seed, EDITS[what])
