"""Kubernetes Events: told once, repeated as a series, dropped before they hurt, and never in the way.

Internals: the token buckets, since 10,000 objects take too long.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import msgspec
import pytest

from kinformer import AlreadyExistsError, Client, ConfigError, ForbiddenError, KubeObject, NotFoundError
from kinformer.controller import EventRecorder
from kinformer.controller.event_series import TokenBuckets
from kinformer.exceptions import ConnectError, ServerError, TooManyRequestsError
from kinformer.testing import APIServer
from tests.support import kube
from tests.support.log_records import Said, message_of, said

POD = KubeObject.from_dict(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-1", "namespace": "prod", "uid": "u-1", "resourceVersion": "7"},
    }
)


class Server:
    """What a client is to a recorder: it notes requests, and fails as a test says."""

    def __init__(self) -> None:
        self.requests: list[tuple[float, str, str, Any]] = []
        self.fail: Callable[[], Awaitable[None]] | None = None

    async def request(self, method: str, path: str, *, body: Any, retries: int) -> Any:
        assert retries == 0, "the recorder has a pace of its own"
        msgspec.json.encode(body)  # as a client does, first of all
        self.requests.append((asyncio.get_running_loop().time(), method, path, body))
        if self.fail is not None:
            await self.fail()
        return body

    @property
    def methods(self) -> list[str]:
        return [method for _, method, _, _ in self.requests]


def recorder(server: Server, **options: Any) -> EventRecorder:
    return EventRecorder(server, controller="test.example.com", instance="pod-1", **options)  # type: ignore[arg-type]


def pod(name: str) -> dict[str, Any]:
    return kube.pod(name, namespace="prod", uid=name)


@pytest.mark.virtual_time
async def test_an_event_says_what_the_server_asks_for() -> None:
    server = Server()
    async with recorder(server) as events:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-1"}}
        assert events.record(POD, "Killed", "out of memory", action="Evict", type="Warning", related=node)
        await asyncio.sleep(1)
    ((_, method, path, body),) = server.requests
    assert (method, path) == ("POST", "/apis/events.k8s.io/v1/namespaces/prod/events")
    assert re.fullmatch(r"web-1\.[0-9a-f]+", body["metadata"].pop("name"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", body.pop("eventTime"))
    assert body == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"namespace": "prod"},
        "reportingController": "test.example.com",
        "reportingInstance": "pod-1",
        "action": "Evict",
        "reason": "Killed",
        "regarding": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "prod",
            "name": "web-1",
            "uid": "u-1",
            "resourceVersion": "7",
        },
        "related": {"apiVersion": "v1", "kind": "Node", "name": "n-1"},
        "note": "out of memory",
        "type": "Warning",
    }


@pytest.mark.virtual_time
async def test_repeats_are_a_series_that_is_told_at_its_second_every_half_hour_and_at_its_end() -> None:
    server = Server()
    async with recorder(server) as events:
        began = asyncio.get_running_loop().time()
        for minute in range(65):
            events.record(POD, "BackOff", f"attempt {minute}")
            await asyncio.sleep(60)
        await asyncio.sleep(1000)
        told = [
            (round((at - began) / 60), method, (body.get("series") or {}).get("count"))
            for at, method, _, body in server.requests
        ]
        assert told[:2] == [(0, "POST", None), (1, "PATCH", 2)]
        assert [minute for minute, _, _ in told[2:4]] == [pytest.approx(31, abs=2), pytest.approx(61, abs=3)]
        assert told[4] == (pytest.approx(71, abs=2), "PATCH", 65), "over after six minutes without a repeat"
        assert len(told) == 5
        assert len({path for _, method, path, _ in server.requests if method == "PATCH"}) == 1
        events.record(POD, "BackOff", "again")
        await asyncio.sleep(1)
        assert server.methods[-1] == "POST", "a new series"


@pytest.mark.virtual_time
async def test_the_end_of_a_series_is_told_also_if_the_next_one_begins_before_anybody_looked() -> None:
    server = Server()
    async with recorder(server) as events:
        await asyncio.sleep(30)
        for _ in range(50):
            events.record(POD, "Bad", "the first series")
            await asyncio.sleep(0.1)
        await asyncio.sleep(362)  # the next look is at 420 s
        events.record(POD, "Bad", "the second")
        await asyncio.sleep(1)
        assert server.methods == ["POST", "PATCH", "PATCH", "POST"]
        (_, _, second, _), (_, _, end, last) = server.requests[1:3]
        assert (end, last["series"]["count"]) == (second, 50)
        assert server.requests[3][3]["note"] == "the second"


@pytest.mark.virtual_time
async def test_leaving_sends_what_waits_and_the_last_count_of_a_series() -> None:
    server = Server()
    async with recorder(server) as events:
        for _ in range(3):
            events.record(POD, "BackOff")
            await asyncio.sleep(1)
        events.record(POD, "Stopping")
    assert server.methods == ["POST", "PATCH", "POST", "PATCH"]
    assert server.requests[-1][3]["series"]["count"] == 3
    figures = events.statistics()
    assert (figures.recorded, figures.sent, figures.folded, figures.dropped) == (4, 4, 1, 0)
    assert not events.record(POD, "TooLate")


@pytest.mark.virtual_time
async def test_series_are_told_and_forgotten_also_while_there_is_always_something_to_send() -> None:
    server = Server()

    async def take_long() -> None:
        await asyncio.sleep(20)

    server.fail = take_long
    async with recorder(server, queue_size=10) as events:
        for _ in range(10):
            events.record(POD, "BackOff")
            await asyncio.sleep(10)
        for number in range(200):
            events.record(pod(f"p-{number}"), "Hello")
            await asyncio.sleep(18)
        told = [body["series"]["count"] for _, method, _, body in server.requests if method == "PATCH"]
        assert told[-1] == 10
        assert len(events._series) == len(events._documents) < 50  # nothing public tells what it remembers
        server.fail = None


@pytest.mark.virtual_time
async def test_what_differs_in_its_note_alone_is_a_repeat_and_what_differs_otherwise_is_not() -> None:
    server = Server()
    async with recorder(server) as events:
        for reason, kind, note in (
            ("A", "Normal", "x"),
            ("A", "Normal", "y"),
            ("B", "Normal", "x"),
            ("A", "Warning", "x"),
        ):
            events.record(POD, reason, note, type=kind)
        events.record(pod("other"), "A", "x")
        await asyncio.sleep(1)
        assert server.methods.count("POST") == 4


@pytest.mark.virtual_time
async def test_one_object_cannot_flood_the_server_and_does_not_silence_another() -> None:
    server = Server()
    async with recorder(server) as events:
        taken = [events.record(POD, f"Reason{number}") for number in range(40)]
        assert taken == [True] * 25 + [False] * 15
        assert events.record(pod("other"), "Reason0")
        await asyncio.sleep(301)
        assert events.record(POD, "Later")
        assert not events.record(POD, "Later2")
        assert events.statistics().dropped == 16


def test_buckets_of_objects_that_nobody_speaks_of_are_forgotten() -> None:
    buckets = TokenBuckets()
    for number in range(10_000):
        assert buckets.take(number, 0.0)

    def left(number: int) -> int:
        return sum(buckets.take(number, 0.0) for _ in range(30))

    assert left(10_000 - 4096) == 24
    assert left(10_000 - 4096 - 1) == 25, "of this one it is not known that it took one"


@pytest.mark.virtual_time
async def test_a_server_that_hangs_keeps_nobody_waiting_and_a_full_queue_drops() -> None:
    server = Server()

    async def hang() -> None:
        await asyncio.Event().wait()

    server.fail = hang
    async with recorder(server, queue_size=10) as events:
        await asyncio.sleep(1)
        taken = [events.record(pod(f"p-{number}"), "Hello") for number in range(30)]
        assert taken.count(True) == 10
        began = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - began == pytest.approx(2)
    assert events.statistics().dropped == 30


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    "error", [ConnectError("refused"), ServerError(503, "", ""), TooManyRequestsError(429, "", "", retry_after=20)]
)
async def test_what_a_dead_server_does_not_take_is_tried_for_two_minutes(error: Exception) -> None:
    server = Server()

    async def refuse() -> None:
        raise error

    server.fail = refuse
    async with recorder(server) as events:
        events.record(POD, "Hello")
        await asyncio.sleep(60)
        assert 3 <= len(server.requests) <= 8
        server.fail = None
        await asyncio.sleep(30)
        assert events.statistics().sent == 1
        server.fail = refuse
        events.record(POD, "Lost")
        await asyncio.sleep(400)
        assert events.statistics().dropped == 1
        server.fail = None
        events.record(POD, "Lost")
        await asyncio.sleep(1)
        assert server.methods[-1] == "POST", "the server knows nothing of the lost one, so there is no series"
        assert events.statistics().sent == 2


@pytest.mark.virtual_time
@pytest.mark.parametrize("error", [ForbiddenError(403, "Forbidden", "no"), NotFoundError(404, "NotFound", "no ns")])
async def test_what_the_server_will_not_have_is_dropped_at_once_and_logged(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server()

    async def refuse() -> None:
        raise error

    server.fail = refuse
    async with recorder(server) as events:
        events.record(POD, "Hello")
        await asyncio.sleep(1)
        assert len(server.requests) == 1
        assert events.statistics().dropped == 1
        (lost,) = caplog.records
        assert said(caplog, vars(lost)["reason"]) == [Said("WARNING", "kinformer.events", key="prod/web-1")]
        assert "Hello" in lost.getMessage()


@pytest.mark.virtual_time
async def test_a_series_whose_event_has_expired_on_the_server_starts_another_event() -> None:
    server = Server()

    async def patches_fail() -> None:
        if server.methods[-1] == "PATCH":
            raise NotFoundError(404, "NotFound", "expired")

    server.fail = patches_fail
    async with recorder(server) as events:
        events.record(POD, "BackOff")
        await asyncio.sleep(1)
        events.record(POD, "BackOff")
        await asyncio.sleep(1)
    assert server.methods == ["POST", "PATCH", "POST"]
    first, last = server.requests[0][3], server.requests[2][3]
    assert last["series"]["count"] == 2
    assert last["metadata"]["name"] != first["metadata"]["name"]


@pytest.mark.virtual_time
@pytest.mark.parametrize("repeats", [0, 3])
async def test_an_event_whose_answer_was_lost_was_sent_and_can_become_a_series(repeats: int) -> None:
    server = Server()
    stored: dict[str, Any] = {}

    async def store() -> None:
        _, method, path, body = server.requests[-1]
        if method == "PATCH":
            stored[path.rpartition("/")[2]] |= body
        elif (name := body["metadata"]["name"]) in stored:
            raise AlreadyExistsError(409, "AlreadyExists", name)
        else:
            stored[name] = dict(body)
            raise ConnectError("cut before the answer")

    server.fail = store
    async with recorder(server) as events:
        events.record(POD, "BackOff")
        await asyncio.sleep(0.001)
        for _ in range(repeats):  # while the first waits for its next attempt
            events.record(POD, "BackOff")
        await asyncio.sleep(60)
        (event,) = stored.values()
        assert event.get("series", {}).get("count", 1) == 1 + repeats
        assert events.statistics().dropped == 0
        events.record(POD, "BackOff")
    (event,) = stored.values()
    assert event["series"]["count"] == 2 + repeats


@pytest.mark.virtual_time
async def test_a_name_that_is_taken_at_the_first_attempt_is_not_our_event() -> None:
    server = Server()

    async def taken() -> None:
        raise AlreadyExistsError(409, "AlreadyExists", "taken")

    server.fail = taken
    async with recorder(server) as events:
        events.record(POD, "Hello")
        await asyncio.sleep(60)
        assert (events.statistics().sent, events.statistics().dropped) == (0, 1)


@pytest.mark.virtual_time
async def test_long_notes_and_names_are_cut_to_what_the_server_takes() -> None:
    server = Server()
    async with recorder(server) as events:
        events.record(pod("n" * 253), "Hello", "ä" * 2000)
        await asyncio.sleep(1)
    body = server.requests[0][3]
    assert len(body["note"].encode()) <= 1024
    assert len(body["metadata"]["name"]) <= 253


@pytest.mark.virtual_time
async def test_text_that_is_no_utf_8_is_sent_as_far_as_it_is() -> None:
    server = Server()
    async with recorder(server) as events:
        for _ in range(2):
            assert events.record(POD, "NoSuch\udcff", "no file \udcff.txt", action="Read\udcff")
        assert events.record(POD, "Good")
        await asyncio.sleep(1)
    (body,) = [body for _, _, _, body in server.requests if body.get("note")]
    assert (body["reason"], body["action"], body["note"]) == ("NoSuch?", "Read?", "no file ?.txt")
    assert events.statistics().dropped == 0


@pytest.mark.virtual_time
async def test_an_object_whose_name_cannot_be_sent_does_not_silence_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = Server()
    async with recorder(server) as events:
        events.record(pod("web-\udcff"), "Lost")
        events.record(POD, "Good")
        await asyncio.sleep(1)
        assert [body["reason"] for _, _, _, body in server.requests] == ["Good"]
        assert events.statistics().dropped == 1
        assert said(caplog, "unicode_encode") == [Said("WARNING", "kinformer.events", key="prod/web-?")]
        assert "Lost" in message_of(caplog, "unicode_encode")


async def test_objects_whose_names_an_event_may_not_have_get_events_too(server: APIServer, client: Client) -> None:
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "system:Op"}}
    made = server.create(role)
    async with EventRecorder(client, controller="test.example.com") as events:
        assert events.record(made, "Checked")
    assert events.statistics().sent == 1
    (event,) = (await client.request("GET", "/apis/events.k8s.io/v1/namespaces/default/events"))["items"]
    assert event["regarding"]["name"] == "system:Op"


async def test_wrong_words_are_refused_where_they_are_said() -> None:
    events = recorder(Server())
    with pytest.raises(ValueError, match="reason"):
        events.record(POD, "")
    with pytest.raises(ValueError, match="action"):
        events.record(POD, "A", action="x" * 129)
    with pytest.raises(ValueError, match="'Normal' or 'Warning'"):
        events.record(POD, "A", type="Error")
    with pytest.raises(ValueError, match="expected one with a kind"):
        events.record({"metadata": {"name": "a"}}, "A")
    with pytest.raises(ConfigError, match="controller"):
        EventRecorder(None, controller="")  # type: ignore[arg-type]


async def test_kubectl_finds_it_as_an_event_of_the_core_group_too(server: APIServer, client: Client) -> None:
    made = KubeObject.from_dict(
        server.create(
            {
                **pod("web-1"),
                "metadata": {"name": "web-1", "namespace": "default"},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            }
        )
    )
    async with EventRecorder(client, controller="test.example.com") as events:
        for note in ("one", "two", "three"):
            events.record(made, "Scaled", note)
    found = await client.request("GET", "/api/v1/namespaces/default/events")
    (event,) = found["items"]
    assert event["involvedObject"]["uid"] == made.uid
    assert event["message"] == "one"
    assert event["series"]["count"] == 3
    assert events.statistics().dropped == 0


async def test_a_recorder_in_a_cancelled_scope_of_anyio_still_sends_what_it_was_told() -> None:
    server = Server()
    with anyio.CancelScope() as scope:
        async with recorder(server) as events:
            events.record(POD, "Started", "it runs", action="Start")
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert len(server.requests) == 1


@pytest.mark.virtual_time
async def test_a_server_that_asks_for_years_of_patience_stops_no_other_event() -> None:
    server = Server()

    async def fail() -> None:
        if len(server.requests) == 1:
            raise TooManyRequestsError(429, "", "", retry_after=1e9)

    server.fail = fail
    async with recorder(server) as events:
        events.record(POD, "First")
        events.record(POD, "Second")
        await asyncio.sleep(61)
    assert [body["reason"] for *_, body in server.requests] == ["First", "First", "Second"]
