"""The calls that wait for a handler, and their folding.

Internals: the mailbox itself, since a handler does not show in which steps calls were folded.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kinformer._runtime.clock import YIELD_SECONDS, Clock, YieldBudget
from kinformer.processor.folded_calls import FoldedCalls
from kinformer.processor.mailbox import ADD, DELETE, SYNC, UPDATE, Mailbox
from tests.support.kube import entry

V1, V2, V3 = (entry("a", rv=version) for version in (1, 2, 3))
KEY = "default/a"


def add(obj: Any, initial: bool = False) -> Any:
    return (ADD, obj.key, None, obj, initial)


def update(old: Any, new: Any) -> Any:
    return (UPDATE, new.key, old, new, False)


def delete(obj: Any, old: Any = None) -> Any:
    return (DELETE, obj.key, old or obj, obj, False)


def sync(obj: Any) -> Any:
    return (SYNC, obj.key, obj, obj, False)


def drain(mailbox: Mailbox) -> list[Any]:
    calls = []
    while (call := mailbox.take()) is not None:
        mailbox.finished(call)
        calls.append(call)
    return calls


def folding() -> Mailbox:
    """A mailbox that is over its bound from the second call on."""
    return Mailbox("h", queue_size=1)


def test_below_the_bound_every_call_is_kept_in_order() -> None:
    mailbox = Mailbox("h", queue_size=10)
    calls = [add(V1), update(V1, V2), delete(V2), add(V3)]
    mailbox.put(calls)
    assert drain(mailbox) == calls
    assert mailbox.coalesced == 0


@pytest.mark.parametrize(
    ("calls", "folded"),
    [
        ([add(V1, True), update(V1, V2)], [(ADD, KEY, None, V2, True)]),
        ([add(V1), delete(V1)], []),
        ([update(V1, V2), update(V2, V3)], [update(V1, V3)]),
        ([update(V1, V2), delete(V2)], [(DELETE, KEY, V1, V2, False)]),
        ([sync(V1), update(V1, V2)], [update(V1, V2)]),
        ([update(V1, V2), sync(V2)], [update(V1, V2)]),
        ([sync(V1), delete(V1)], [delete(V1)]),
        ([delete(V1), add(V2)], [delete(V1), add(V2)]),
        ([delete(V1), add(V2), update(V2, V3)], [delete(V1), add(V3)]),
        ([delete(V1), add(V2), delete(V2)], [delete(V1)]),
        ([delete(V1), add(V2), delete(V2), add(V3)], [delete(V1), add(V3)]),
    ],
)
def test_above_the_bound_calls_of_one_key_are_folded(calls: list[Any], folded: list[Any]) -> None:
    mailbox = folding()
    mailbox.put([add(entry("other"))])
    mailbox.put(calls)
    assert drain(mailbox) == [add(entry("other")), *folded]


def test_a_folded_call_keeps_the_place_of_the_oldest() -> None:
    mailbox = folding()
    other = entry("b")
    mailbox.put([update(V1, V2), add(other), update(V2, V3)])
    assert drain(mailbox) == [update(V1, V3), add(other)]


def test_at_most_two_calls_a_key_wait() -> None:
    mailbox = folding()
    for _ in range(100):
        mailbox.put([delete(V1), add(V2), update(V2, V1)])
    assert len(mailbox) <= 2


def test_what_cancels_out_takes_no_room_while_the_reader_does_not_come() -> None:
    calls = FoldedCalls(limit=2)
    waiting = [delete(V1), add(V2), add(entry("b"))]
    calls.put(waiting)
    for _ in range(100):
        calls.put([add(entry("c")), delete(entry("c"))])
        assert calls.places < 10
    assert len(calls) == 3
    assert list(iter(calls.take, None)) == waiting
    assert (len(calls), calls.places, calls.active) == (0, 0, False)


def test_what_cancels_out_counts_as_finished_for_the_sync() -> None:
    mailbox = folding()
    mailbox.put([add(V1, True), add(entry("b"), True)], initial=2)
    mailbox.upstream_synced()
    mailbox.put([delete(V1)])
    assert not mailbox.has_synced
    assert len(drain(mailbox)) == 1
    assert mailbox.has_synced


def test_a_replay_comes_first_and_counts_for_the_sync() -> None:
    mailbox = Mailbox("h")
    mailbox.replay([V1, entry("b")])
    mailbox.put([update(V1, V2)])
    mailbox.upstream_synced()
    assert len(mailbox) == 3
    first = mailbox.take()
    assert first == add(V1, True)
    assert not mailbox.has_synced
    mailbox.finished(first)
    assert [call[0] for call in drain(mailbox)] == [ADD, UPDATE]
    assert mailbox.has_synced


def test_a_filter_turns_updates_across_its_edge_into_adds_and_deletes() -> None:
    inside, outside = entry("a", rv=1, labels={"in": "yes"}), entry("a", rv=2)
    mailbox = Mailbox("h", filter=lambda obj: "in" in obj.labels)
    mailbox.put([add(outside), update(outside, inside), update(inside, outside), update(outside, outside)])
    assert drain(mailbox) == [add(inside), (DELETE, KEY, inside, inside, False)]


def test_a_filter_that_raises_hides_that_object_and_is_reported() -> None:
    failures: list[str] = []
    mailbox = Mailbox(
        "h", filter=lambda obj: 1 / (obj.name != "a"), on_filter_error=lambda key, error: failures.append(key)
    )
    mailbox.put([add(V1), add(entry("b"))])
    assert [call[1] for call in drain(mailbox)] == ["default/b"]
    assert failures == [KEY]


def test_a_filter_that_hides_all_of_a_long_replay_gives_the_loop_its_turns() -> None:
    now = 0.0

    def hide(obj: Any) -> bool:
        nonlocal now
        now += 0.0002
        return False

    mailbox = Mailbox("h", filter=hide)
    mailbox.budget = YieldBudget(clock=Clock(perf=lambda: now))
    mailbox.replay([V1] * 1000)
    mailbox.upstream_synced()
    looks = 0
    while not mailbox.has_synced:
        assert mailbox.take() is None
        mailbox.budget.enter()
        looks += 1
    assert looks >= 1000 * 0.0002 / YIELD_SECONDS


def test_closing_forgets_what_waits_and_draining_keeps_it() -> None:
    dropped, drained = Mailbox("h"), Mailbox("h")
    for mailbox in (dropped, drained):
        mailbox.put([add(V1)])
    dropped.close()
    drained.close(drain=True)
    for mailbox in (dropped, drained):
        mailbox.put([add(entry("b"))])
    assert drain(dropped) == []
    assert drain(drained) == [add(V1)]


async def test_a_cancelled_wait_loses_nothing() -> None:
    mailbox = Mailbox("h")
    waiting = asyncio.ensure_future(mailbox.wait())
    await asyncio.sleep(0)
    mailbox.put([add(V1)])
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert drain(mailbox) == [add(V1)]


operations = st.lists(
    st.tuples(st.sampled_from(["set", "delete", "recreate", "sync", "read"]), st.sampled_from("abc"), st.booleans()),
    max_size=60,
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(operations, st.integers(1, 4), st.booleans())
def test_whatever_happens_a_reader_with_pauses_ends_with_the_truth(
    steps: list[tuple[str, str, bool]], queue_size: int, filtered: bool
) -> None:
    """No add of a known key, no update or delete of an unknown one, and the replica is right at the end."""
    mailbox = Mailbox("h", queue_size=queue_size, filter=(lambda obj: "x" in obj.labels) if filtered else None)
    truth: dict[str, Any] = {}
    replica: dict[str, Any] = {}

    def read() -> None:
        call = mailbox.take()
        if call is None:
            return
        mailbox.finished(call)
        kind, key, _, new, _ = call
        assert (key in replica) == (kind != ADD), f"{kind} of {key}"
        if kind == DELETE:
            del replica[key]
        else:
            replica[key] = new

    for version, (step, name, labelled) in enumerate(steps, 1):
        key = f"default/{name}"
        old = truth.get(key)
        new = entry(
            name, rv=version, uid=f"{version}" if old is None else old.uid, labels={"x": "y"} if labelled else {}
        )
        if step == "read":
            read()
        elif step == "set":
            mailbox.put([add(new) if old is None else update(old, new)])
            truth[key] = new
        elif step == "delete" and old is not None:
            mailbox.put([delete(old)])
            del truth[key]
        elif step == "recreate" and old is not None:
            mailbox.put([delete(old), add(new)])
            truth[key] = new
        elif step == "sync":
            mailbox.put([sync(obj) for obj in truth.values()])
    while len(mailbox):
        read()
    assert replica == {key: obj for key, obj in truth.items() if not filtered or "x" in obj.labels}
