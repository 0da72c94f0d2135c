"""Reads of an informer from eight threads, beside a relist and a stream of changes, with the GIL and without it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import pytest

from kinformer import KubeObject, SharedInformer
from tests.support.memory_source import MemorySource
from tests.support.reading_threads import reading_threads
from tests.support.waiting import until

pytestmark = [pytest.mark.slow, pytest.mark.virtual_time]

READERS = 8
PAIRS = 9
TURNS = 13
RELIST_EVERY = 4
NAMESPACES = ("blue", "green", "red")
LAST = "red/b8"  # of all that are changed in a turn


def change(source: MemorySource, turn: int, side: str, pair: int) -> None:
    """Change one object of a pair; `a` is always changed before `b`."""
    text = str(turn)
    source.set(
        f"{side}{pair}",
        namespace=NAMESPACES[pair % len(NAMESPACES)],
        labels={"app": "web", "side": side, "turn": text},
        data={"turn": text, "pair": str(pair), "filler": text * 200},
    )


def turn_of(obj: KubeObject) -> int:
    """The turn of an object, which has to be the same in each of its parts."""
    turns = {obj.labels["turn"], obj["data"]["turn"], obj.path("data.turn"), obj.to_dict()["data"]["turn"]}
    assert len(turns) == 1, f"{obj!r} is of several turns: {turns}"
    assert obj["data"]["filler"] == obj.labels["turn"] * 200
    return int(obj.labels["turn"])


def check_moment(objects: Iterable[KubeObject], count: int) -> None:
    """Check that a read shows a state that the server was in: no object twice, and no pair that never was."""
    found = {obj.name: turn_of(obj) for obj in objects}
    assert len(found) == count, f"{len(found)} objects, expected {count}"
    for name, turn in found.items():
        if name.startswith("a") and f"b{name[1:]}" in found:
            assert turn - found[f"b{name[1:]}"] in (0, 1), f"{name} has turn {turn}, b {found[f'b{name[1:]}']}"


class Reader:
    """The reads of one cache; an object never goes back in time for one thread."""

    def __init__(self, informer: SharedInformer) -> None:
        self.informer = informer
        self.calls = 0
        self._seen = threading.local()

    def __call__(self) -> None:
        lister, pairs = self.informer.lister, range(PAIRS)
        check_moment(lister.list(), 2 * PAIRS)
        check_moment(lister.list("app=web"), 2 * PAIRS)
        check_moment(lister.list("side in (a)", namespace="red"), len(pairs[2::3]))
        check_moment(lister.by_namespace("blue").list(), 2 * len(pairs[0::3]))
        check_moment(lister.by_index("pair", "7"), 2)
        check_moment(list(self.informer.by_key.values()), 2 * PAIRS)
        assert len(self.informer.by_key) == len(lister) == len(set(lister.keys())) == 2 * PAIRS
        seen = vars(self._seen)
        for name in ("a1", "b1"):
            obj = lister.get(name, namespace="green")
            assert obj is not None
            assert turn_of(obj) >= seen.get(name, 0), f"{name} went from turn {seen[name]} back to {turn_of(obj)}"
            seen[name] = turn_of(obj)
        self.calls += 1


async def change_and_relist(source: MemorySource, reached: Callable[[], int]) -> None:
    """Change every object in each turn, and now and then have the informer list again."""
    for turn in range(1, TURNS):
        for pair in range(PAIRS):
            for side in "ab":
                change(source, turn, side, pair)
        if turn % RELIST_EVERY == 0:
            source.expire()
        await until(reached, 30, holds=turn.__eq__)


@pytest.mark.parametrize(("compact", "watch_list"), [(False, False), (True, True)], ids=["plain", "compact"])
async def test_eight_threads_read_an_informer_beside_relists_and_changes(compact: bool, watch_list: bool) -> None:
    source = MemorySource(watch_list=watch_list)
    for pair in range(PAIRS):
        for side in "ab":
            change(source, 0, side, pair)

    async with SharedInformer(source, compact=compact, indexers={"pair": "data.pair"}) as informer:
        await informer.wait_synced(10)
        reader = Reader(informer)
        with reading_threads(reader, count=READERS):
            await change_and_relist(source, lambda: turn_of(informer.by_key[LAST]))
        assert sum(informer.statistics().relists.values()) >= TURNS // RELIST_EVERY
    assert reader.calls >= READERS
