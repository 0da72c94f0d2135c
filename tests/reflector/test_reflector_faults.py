"""The reflector recovers from every fault. The numbers are seconds of virtual time, without jitter.

Internals: the errors that `on_error` is told by class, and the mark of an object that cannot be read.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import pairwise
from typing import Any

import pytest

from kinformer import Backoff, GroupVersionResource
from kinformer.exceptions import (
    APIError,
    ConnectError,
    DecodeError,
    ExpiredError,
    KeyFuncError,
    KinformerError,
    NotFoundError,
    UnauthorizedError,
    WatchError,
    api_error,
)
from kinformer.list_watcher import ServerTip, WatchEvent
from kinformer.listwatch.transform import TransformingListerWatcher
from kinformer.objects.object import UndecodableObject
from kinformer.reflector.errors import (
    ClusterReplacedError,
    InitialStreamError,
    ResyncError,
    RewindError,
    ShortWatchError,
    StaleListError,
)
from tests.reflector.test_reflector import reflect, running
from tests.support.log_records import Said, message_of, said
from tests.support.scripted_source import (
    HANG,
    TIMEOUT,
    Late,
    ProbedSource,
    RecordingStore,
    ScriptedSource,
    Slowly,
    added,
    bookmark,
    end,
    modified,
    page,
    pod,
)

pytestmark = pytest.mark.virtual_time

REFUSED = ConnectError("GET http://x: connection refused")
TOO_LARGE = api_error(504, "Timeout", "Too large resource version: 99, current: 5", 1)


def expired() -> APIError:
    return api_error(410, "Expired", "too old resource version: 7 (9)")


class Errors(list[Exception]):
    def __call__(self, reflector: Any, error: Exception) -> None:
        self.append(error)

    @property
    def kinds(self) -> list[type[Exception]]:
        return [type(error) for error in self]


# --- LIST ---------------------------------------------------------------------------------------------------------


async def test_a_list_that_fails_is_made_again_with_growing_delays() -> None:
    source = ScriptedSource([api_error(500), DecodeError("cut short"), TimeoutError("slow"), REFUSED, page(rv=7)])
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 6.0):
        assert source.times("list") == [0.0, 0.8, 2.4, 5.4]
        health = reflector.health()
        assert (health.state, health.live, health.synced, health.consecutive_failures) == (
            "backing_off",
            False,
            False,
            4,
        )
        assert health.last_error is errors[-1]
        await asyncio.sleep(7)
        assert errors.kinds == [api_error(500).__class__, DecodeError, TimeoutError, ConnectError]
        health = reflector.health()
        assert (health.state, health.live, health.last_error, health.consecutive_failures) == (
            "watching",
            True,
            None,
            0,
        )
        assert dict(reflector.relists) == {}


@pytest.mark.parametrize("error", [expired(), TOO_LARGE, api_error(410, "Gone")], ids=["expired", "too large", "gone"])
async def test_a_relist_whose_version_is_of_no_use_is_made_at_once_without_one(error: APIError) -> None:
    source = ScriptedSource([page(rv=7), error, page(pod("a", 8), rv=9)], [[WatchError("?")], [HANG]])
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 5):
        assert source.versions("list") == ["0", "7", None]
        assert source.times("list") == [0.0, 0.8, 0.8]
        assert source.asked[3].options.limit == 500
        assert errors[1] is error
        assert store.calls[-1] == ("replace", ["a"], "9")


async def test_a_list_without_a_version_that_is_expired_is_no_hot_loop() -> None:
    source = ScriptedSource([expired()])
    reflector, _ = reflect(source)
    async with running(reflector, 10):
        assert source.versions("list") == ["0", None, None, None, None]
        assert source.times("list") == [0.0, 0.0, 0.8, 2.4, 5.6]


async def test_a_continue_token_that_expires_makes_the_full_list_without_pages_at_the_same_version() -> None:
    """The fresh token in such an answer is of another snapshot: nothing may be made of the two."""
    source = ScriptedSource(
        [page(pod("a", 3), rv=7, token="t"), expired(), page(pod("b", 4), rv=9), page(rv=12)],
        [[WatchError("?")], [HANG]],
    )
    errors = Errors()
    reflector, store = reflect(source, on_error=errors, page_size=100)
    async with running(reflector, 5):
        assert [asked.options.params() for asked in source.asked if asked.verb == "list"] == [
            {"resourceVersion": "0", "limit": "100"},
            {"limit": "100", "continue": "t"},
            {"resourceVersion": "0"},
            {"resourceVersion": "9", "resourceVersionMatch": "NotOlderThan", "limit": "100"},
        ]
        assert source.times("list")[:3] == [0.0, 0.0, 0.0]
        assert store.calls[0] == ("replace", ["b"], "9")
        assert errors.kinds[0] is ExpiredError


async def test_a_server_that_repeats_its_continue_token_does_not_keep_the_list_going() -> None:
    source = ScriptedSource([page(rv=7, token="t"), page(rv=7, token="t"), page(rv=7)])
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 2):
        assert errors.kinds == [DecodeError]
        assert reflector.health().synced


async def test_a_list_without_a_head_fails_after_30_seconds() -> None:
    source = ScriptedSource([HANG, page(rv=7)])
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 29):
        assert errors == []
        await asyncio.sleep(3)
        assert errors.kinds == [TimeoutError]
        assert "no response within 30 s" in str(errors[0])
        assert source.times("list") == [0.0, 30.8]


async def test_a_head_that_is_late_is_taken_if_it_comes_before_that_of_the_next_list() -> None:
    source = ScriptedSource([Late(40.0, page(pod("a", 3), rv=7)), HANG])
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 39):
        assert errors.kinds == [TimeoutError]
        assert (reflector.health().live, reflector.health().consecutive_failures) == (False, 1)
        assert source.times("list") == [0.0, 30.8]
        await asyncio.sleep(2)
        assert store.calls == [("replace", ["a"], "7")]
        assert reflector.health().live
        assert reflector.health().last_error is None
        await asyncio.sleep(120)
        assert source.times("list") == [0.0, 30.8]
        assert errors.kinds == [TimeoutError]


async def test_a_list_after_a_late_one_waits_65_seconds_until_a_head_comes_within_15() -> None:
    def slow(seconds: float) -> Late:
        return Late(seconds, page(rv=7))

    lists = [slow(50.0), HANG, slow(60.0), slow(16.0), slow(60.0), slow(14.0), HANG, page(rv=7)]
    errors = Errors()
    reflector, _ = reflect(ScriptedSource(lists, [[WatchError("?")]] * 6), on_error=errors)
    async with running(reflector, 50 + 4 * 61 + 40):
        pass
    heads = [str(error) for error in errors if isinstance(error, TimeoutError)]
    assert heads == ["list: no response within 30 s"] * 2, "the first one, and the first one after the quick head"


async def test_a_server_that_never_answers_a_list_is_asked_with_its_own_limit_in_mind() -> None:
    source = ScriptedSource([HANG])
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 240):
        assert [str(error).rpartition("within ")[2] for error in errors] == ["30 s", "65 s", "65 s", "65 s"]
        assert source.times("list") == [0.0, 30.8, 97.4, 165.4, 233.4]  # a silent server is asked after 3 s at most


async def test_a_servers_own_timeout_is_seen() -> None:
    source = ScriptedSource([Late(60.0, api_error(504, "Timeout", "the server was unable to return a response"))])
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 61):
        assert [type(error).__name__ for error in errors] == ["TimeoutError", "ServerError"]
        await asyncio.sleep(180)
        assert [type(error).__name__ for error in errors[2:]] == ["ServerError"] * 2


async def test_a_lost_connection_of_the_late_list_ends_no_other() -> None:
    lost = [Late(35.0, ConnectError("cut")), Late(50.0, page(pod("a", 3), rv=7))]
    source = ScriptedSource([*lost, HANG])
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 82):
        assert source.times("list") == [0.0, 30.8]
        assert errors.kinds == [TimeoutError]
        assert store.calls == [("replace", ["a"], "7")]


async def test_an_error_of_the_late_list_or_of_on_error_leaves_no_list_behind() -> None:
    def refuse(reflector: Any, error: Exception) -> None:
        raise ValueError("no more")

    source = ScriptedSource([HANG])
    reflector, _ = reflect(source, on_error=refuse)
    async with running(reflector, 31) as task:
        assert isinstance(task.exception(), ValueError)
        assert len(asyncio.all_tasks()) == 1


async def test_watches_wait_30_seconds_for_a_head_whatever_the_lists_need() -> None:
    source = ScriptedSource([Late(40.0, page(rv=7))], [HANG, HANG, HANG])
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 40 + 100):
        assert [str(error) for error in errors][1:] == ["watch: no response within 30 s"] * 3


async def test_a_slow_question_for_the_version_has_65_seconds_too() -> None:
    class Slow(ProbedSource):
        async def tip(self) -> ServerTip:
            found = await super().tip()
            await asyncio.sleep(40)
            return found

    source = Slow([page(rv=7)], [[ConnectError("cut")]], rv="7")
    reflector, _ = reflect(source)
    async with running(reflector, 120):
        assert reflector.health().live
        assert len(source.tips) <= 3


async def test_an_idle_timeout_below_30_seconds_limits_the_first_head_too() -> None:
    source = ScriptedSource([HANG, page(rv=7)])
    reflector, _ = reflect(source, idle_timeout=5)
    async with running(reflector, 7):
        assert source.times("list") == [0.0, 5.8]
    source = ScriptedSource([HANG, Late(50.0, page(rv=7))])
    reflector, _ = reflect(source, idle_timeout=5)
    async with running(reflector, 60):
        assert source.times("list") == [0.0, 5.8]
        assert reflector.health().synced


async def test_a_list_may_take_as_long_as_bytes_arrive_and_fails_in_silence() -> None:
    alive = Slowly([100.0, [], 100.0, [pod("a", 3)], 100.0], "7")
    dead = Slowly([[pod("a", 3)], HANG], "7")
    source = ScriptedSource([dead, alive])
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 425):
        assert errors.kinds == [TimeoutError]
        assert "no byte within 120 s" in str(errors[0])
        assert source.times("list") == [0.0, 120.8]
        assert dead.closed
        assert store.calls == [("replace", ["a"], "7")]


async def test_a_list_that_is_older_than_asked_for_is_not_believed_without_a_second_look() -> None:
    """A replica that lags must not take the cache back in time; the newest that the server has is the judge."""
    source = ScriptedSource(
        [page(rv=7), page(pod("a", 5), rv=6), page(pod("a", 8), rv=9)], [[[added("a", 8)], WatchError("?")], [HANG]]
    )
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 5):
        assert source.versions("list") == ["0", "8", None]
        assert source.times("list") == [0.0, 0.8, 0.8]
        assert errors.kinds == [WatchError, StaleListError]
        assert store.calls == [("replace", [], "7"), ("add", "a"), ("replace", ["a"], "9")]
        assert dict(reflector.relists) == {"watch_error": 1}


async def test_an_initial_stream_that_is_older_than_asked_for_is_asked_for_without_a_version() -> None:
    source = ScriptedSource(watches=[[[end(9)], WatchError("?")], [[end(6)], HANG], [[end(10)], HANG]])
    reflector, store = reflect(source, watch_list=None)
    async with running(reflector, 5):
        assert source.versions("watch") == [None, "9", None]
        assert [call[2] for call in store.named("replace")] == ["9", "10"]


# --- watch --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["stream", "head"])
async def test_an_expired_watch_is_a_relist_at_the_last_version(where: str) -> None:
    answer: Any = expired() if where == "head" else [[added("a", 8)], expired()]
    source = ScriptedSource([page(rv=7), page(pod("a", 8), rv=12)], [answer, [HANG]])
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 5):
        assert source.versions("list") == ["0", "7" if where == "head" else "8"]
        assert source.times("list") == [0.0, 0.8]
        assert errors.kinds == [ExpiredError]
        assert dict(reflector.relists) == {"expired": 1}
        assert source.versions("watch")[-1] == "12"
        assert store.objects["default/a"].resource_version == "8"


async def test_a_version_that_has_expired_and_is_listed_again_is_not_listed_a_third_time() -> None:
    """Where etcd keeps a history that the watch cache has not, the old version can be listed and not be watched."""
    source = ScriptedSource([page(rv=7), page(rv=7), page(rv=9)], [expired(), expired(), [HANG]])
    reflector, _ = reflect(source)
    async with running(reflector, 10):
        assert source.versions("list") == ["0", "7", None]
        assert source.versions("watch") == ["7", "7", "9"]
        assert dict(reflector.relists) == {"expired": 2}


async def test_pages_at_a_version_are_of_that_version_or_newer() -> None:
    """Without the match a server gives that very version, which may be older than what it can be watched from."""
    source = ScriptedSource([page(rv=7), page(rv=9, token="t"), page(rv=9)], [expired(), [HANG]])
    reflector, _ = reflect(source, page_size=50)
    async with running(reflector, 5):
        lists = [asked.options for asked in source.asked if asked.verb == "list"]
        matches = [(o.resource_version, o.resource_version_match, o.limit, o.continue_token) for o in lists]
        assert matches == [("0", None, 50, None), ("7", "NotOlderThan", 50, None), (None, None, 50, "t")]


@pytest.mark.parametrize("error", [api_error(500), api_error(503), api_error(502, message="<html>"), REFUSED])
async def test_a_watch_that_cannot_be_opened_is_tried_again_at_its_version_without_a_list(error: Exception) -> None:
    source = ScriptedSource([page(rv=7)], [error, error, [HANG]])
    source.lists = [page(rv=7), page(rv=7)]
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 0.5):
        assert (reflector.health().live, reflector.health().synced) == (False, True)
        await asyncio.sleep(3)
        watches = [asked for asked in source.asked if asked.verb == "watch"]
        assert [round(asked.at - watches[0].at, 3) for asked in watches] == [0.0, 0.8, 2.4]
        assert source.versions("watch") == ["7", "7", "7"]
        assert dict(reflector.relists) == {}
        assert errors == [error, error]
        assert reflector.health().live


@pytest.mark.parametrize("where", ["stream", "head"])
async def test_retry_after_is_honoured_with_a_little_jitter_and_without_a_list(where: str) -> None:
    busy = api_error(429, "TooManyRequests", "storage is (re)initializing", 1.5)
    source = ScriptedSource([page(rv=7)], [busy if where == "head" else [busy], [HANG]])
    reflector, _ = reflect(source)
    async with running(reflector, 5):
        first, second = source.times("watch")
        assert 1.5 <= second - first <= 1.875
        assert source.versions("watch") == ["7", "7"]
        assert source.verbs.count("list") == 1


async def test_a_retry_after_of_hours_is_cut_to_a_minute() -> None:
    source = ScriptedSource([api_error(503, retry_after=7200), page(rv=7)])
    reflector, _ = reflect(source)
    async with running(reflector, 80):
        assert 60 <= source.times("list")[1] <= 75


async def test_a_retry_after_of_a_second_for_ever_gives_way_to_backoff() -> None:
    source = ScriptedSource([api_error(429, retry_after=1)])
    reflector, _ = reflect(source)
    async with running(reflector, 120):
        times = source.times("list")
        assert all(1 <= round(later - sooner, 3) <= 1.25 for sooner, later in pairwise(times[:11]))
        assert times[-1] - times[-2] > 5


async def test_a_lost_connection_is_opened_again_from_the_last_event() -> None:
    source = ScriptedSource([page(rv=7)], [[[added("a", 8)], 5.0, ConnectionResetError("reset")], [HANG]])
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 8):
        assert source.versions("watch") == ["7", "8"]
        assert source.times("watch")[1] == 5.8
        assert errors.kinds == [ConnectionResetError]
        assert source.verbs.count("list") == 1


@pytest.mark.parametrize(
    ("step", "cause"),
    [
        (DecodeError("garbage"), "decode_error"),
        (WatchError("a Table"), "watch_error"),
        ([WatchEvent("FOO", pod("b", 9))], "watch_error"),
    ],
    ids=["garbage", "table", "unknown type"],
)
async def test_what_makes_no_sense_is_a_relist_from_the_last_good_event(step: Any, cause: str) -> None:
    source = ScriptedSource([page(rv=7), page(rv=12)], [[[added("a", 8)], step], [HANG]])
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 5):
        assert source.versions("list") == ["0", "8"]
        assert source.times("list") == [0.0, 0.8]
        assert dict(reflector.relists) == {cause: 1}
        assert len(errors) == 1
        assert ("add", "b") not in store.calls


async def test_events_before_one_of_an_unknown_type_are_kept() -> None:
    source = ScriptedSource(
        [page(rv=7), page(rv=9)], [[[added("a", 8), WatchEvent("FOO", pod("b", 9)), added("c", 10)]], [HANG]]
    )
    reflector, store = reflect(source)
    async with running(reflector, 5):
        assert store.named("add") == [("add", "a")]
        assert source.versions("list") == ["0", "8"]


async def test_an_error_500_in_the_stream_keeps_the_version_and_three_in_a_row_are_a_relist() -> None:
    broken = [api_error(500, "InternalError", "etcd")]
    source = ScriptedSource([page(rv=7), page(rv=9)], [broken, broken, broken, [HANG]])
    reflector, _ = reflect(source)
    async with running(reflector, 10):
        assert source.verbs == ["list", "watch", "watch", "watch", "list", "watch"]
        assert dict(reflector.relists) == {"error": 1}


async def test_errors_with_progress_between_them_are_no_relist() -> None:
    broken = [[[bookmark(version)], api_error(500, "InternalError", "etcd")] for version in (8, 9, 10, 11)]
    source = ProbedSource([page(rv=7)], [*broken, [HANG]], rv="11")
    reflector, _ = reflect(source)
    async with running(reflector, 30):
        assert source.verbs == ["list"] + ["watch"] * 5
        assert reflector.health().live


async def test_a_bookmark_of_the_version_that_is_known_is_no_progress_between_errors() -> None:
    broken = [[bookmark(7)], api_error(500, "InternalError", "etcd")]
    source = ScriptedSource([page(rv=7), page(rv=9)], [broken, broken, broken, [HANG]])
    reflector, _ = reflect(source)
    async with running(reflector, 30):
        assert source.verbs == ["list", "watch", "watch", "watch", "list", "watch"]
        assert dict(reflector.relists) == {"error": 1}


async def test_a_watch_that_is_refused_with_500_while_lists_are_answered_is_a_relist_at_the_third_time() -> None:
    refused = api_error(500, "InternalError", "etcd")
    source = ScriptedSource([page(rv=7), page(rv=9)], [refused, refused, refused, [HANG]])
    reflector, _ = reflect(source)
    async with running(reflector, 30):
        assert source.verbs == ["list", "watch", "watch", "watch", "list", "watch"]
        assert source.versions("watch") == ["7", "7", "7", "9"]
        assert dict(reflector.relists) == {"error": 1}


async def test_a_server_that_is_away_for_long_and_says_503_causes_no_relist() -> None:
    source = ScriptedSource([page(rv=7)], [api_error(503, "ServiceUnavailable")] * 10 + [[HANG]])
    reflector, _ = reflect(source)
    async with running(reflector, 600):
        assert source.verbs.count("watch") > 10
        assert source.verbs.count("list") == 1
        assert reflector.health().live


async def test_the_deletion_of_a_corrupt_object_is_a_relist_at_once() -> None:
    """The object cannot be read, so the server can send no DELETED of it (apiserver, storage/etcd3/watcher.go)."""
    corrupt = [api_error(500, "StorageReadError", "data from the storage is not transformable")]
    source = ScriptedSource([page(pod("a", 5), rv=7), page(rv=9)], [corrupt, [HANG]])
    reflector, store = reflect(source)
    async with running(reflector, 5):
        assert source.verbs == ["list", "watch", "list", "watch"]
        assert dict(reflector.relists) == {"error": 1}
        assert store.objects == {}


async def test_a_stream_that_is_cut_is_resumed_once_the_server_has_shown_that_it_did_not_go_back() -> None:
    source = ProbedSource([page(rv=50), page(pod("b", 15), rv=20)], [[5.0], [HANG]], rv="20")
    reflector, store = reflect(source)
    async with running(reflector, 6):
        assert source.times("watch") == [0.0, 5.0]
        assert source.versions("watch") == ["50", "20"]
        assert store.calls[-1] == ("replace", ["b"], "20")
        assert dict(reflector.relists) == {"rewind": 1}


async def test_after_a_refused_connection_the_server_is_asked_how_far_it_is() -> None:
    source = ProbedSource([page(rv=50), page(rv=20)], [[TIMEOUT], REFUSED, [HANG]], rv="60")
    reflector, _ = reflect(source, watch_timeout=50)  # at most 100 s, less than the silence that ends a watch
    async with running(reflector, 30):
        source.rv = "20"
        await asyncio.sleep(110)
        assert source.versions("watch")[:3] == ["50", "50", "20"]
        assert dict(reflector.relists) == {"rewind": 1}


async def test_a_watch_that_ends_at_its_own_timeout_casts_no_doubt_on_the_server() -> None:
    source = ProbedSource([page(rv=50)], [[TIMEOUT], [TIMEOUT], [HANG]], rv="50")
    reflector, _ = reflect(source, watch_timeout=50)
    async with running(reflector, 110):
        assert len(source.times("watch")) >= 2
        assert len(source.tips) == 1  # the first, to learn which cluster it is


async def test_a_version_that_the_watch_refuses_is_a_relist() -> None:
    source = ScriptedSource([page(rv=7)], [api_error(400, "BadRequest"), [HANG]])
    reflector, _ = reflect(source)
    async with running(reflector, 5):
        assert dict(reflector.relists) == {"error": 1}


async def test_watches_that_end_at_once_and_empty_are_no_hot_loop_and_the_second_is_a_relist() -> None:
    """Some servers and proxies answer an expired version like that (kubernetes#104171)."""
    source = ScriptedSource([page(rv=7), page(rv=12)], [[], [0.5], [HANG]])
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 12):
        assert source.times("watch")[:2] == [0.0, 0.8]
        assert source.times("list") == [0.0, 2.1]
        assert source.versions("list") == ["0", "7"]
        assert errors.kinds == [ShortWatchError]
        assert dict(reflector.relists) == {"short_watch": 1}
        assert reflector.health().live


async def test_short_watches_with_events_or_between_long_ones_are_none() -> None:
    source = ScriptedSource([page(rv=7)], [[], [[bookmark(8)]], [], [1.5], [], [[bookmark(9)]], [], [HANG]])
    reflector, _ = reflect(source, backoff=Backoff(jitter=0, initial=0.1, maximum=0.1))
    async with running(reflector, 12):
        assert source.verbs == ["list"] + ["watch"] * 8


async def test_a_silent_stream_is_replaced_which_is_no_failure() -> None:
    source = ProbedSource([page(rv=7)], [[[added("a", 8)], HANG], [HANG], [HANG]], rv="8")
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 119):
        assert source.times("watch") == [0.0]
        await asyncio.sleep(2)
        health = reflector.health()
        assert (health.live, health.state, health.consecutive_failures) == (True, "watching", 0)
        assert source.times("watch") == [0.0, 120.0]
        assert source.versions("watch") == ["7", "8"]
        assert source.open == 1
        assert errors == []
        assert dict(reflector.relists) == {}


async def test_bytes_without_an_event_and_bookmarks_keep_a_stream_open() -> None:
    source = ScriptedSource([page(rv=7)], [[100.0, [], 100.0, [bookmark(8)], 100.0, [], HANG]])
    reflector, _ = reflect(source, watch_timeout=1000)
    async with running(reflector, 410):
        assert source.times("watch") == [0.0]


async def test_a_watch_without_a_head_fails_after_30_seconds_and_is_not_live() -> None:
    source = ScriptedSource([page(rv=7)], [[5.0], HANG, Late(29.0, [HANG])])
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 34):
        assert reflector.health().live
        await asyncio.sleep(1.5)
        health = reflector.health()
        assert (health.live, health.state, health.consecutive_failures) == (False, "backing_off", 1)
        assert errors.kinds == [TimeoutError]
        await asyncio.sleep(30)
        assert source.times("watch") == [0.0, 5.0, 35.8]
        assert reflector.health().live
        assert dict(reflector.relists) == {}


# --- tip ----------------------------------------------------------------------------------------------------------


async def test_the_tip_is_verified_after_a_silent_watch_and_after_two_seconds_away() -> None:
    source = ProbedSource([page(rv=7)], [[HANG], [5.0, REFUSED], REFUSED, REFUSED, [HANG]], rv="9")
    reflector, _ = reflect(source)
    async with running(reflector, 140):
        start = source.asked[0].at
        tips = [round(at - start, 1) for at in source.tips]
        assert tips[:2] == [0.0, 120.0]  # the first to learn which cluster it is
        assert tips[2:] == [125.8, 127.4, 130.4]  # away since 125
        assert source.times("watch") == [0.0, 120.0, 125.8, 127.4, 130.4]
        assert source.versions("watch") == ["7"] * 5
        assert source.verbs.count("list") == 1


async def test_a_server_that_went_back_is_a_relist_without_a_version() -> None:
    """A plain watch at a version from the future would be silent for hours (kubernetes#107457)."""
    source = ProbedSource([page(pod("a", 50), rv=50), page(pod("b", 15), rv=20)], [[HANG], [HANG]], rv="20")
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 121):
        assert errors.kinds == [RewindError]
        assert "from resourceVersion 50 to 20" in str(errors[0])
        assert source.versions("list") == ["0", None]
        assert source.times("list") == [0.0, 120.0]
        assert store.calls[-1] == ("replace", ["b"], "20")
        assert dict(reflector.relists) == {"rewind": 1}
        assert source.versions("watch") == ["50", "20"]
        assert reflector.health().live


async def test_another_cluster_is_a_relist_without_a_version_even_if_it_is_further() -> None:
    source = ProbedSource([page(pod("a", 50), rv=50), page(pod("b", 15), rv=900)], [[HANG], [HANG], [HANG]], rv="60")
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 1):
        source.cluster_name = "cluster-2"
        source.rv = "900"
        await asyncio.sleep(121)
        assert errors.kinds == [ClusterReplacedError]
        assert source.versions("list") == ["0", None]
        assert dict(reflector.relists) == {"cluster_replaced": 1}
        assert store.calls[-1] == ("replace", ["b"], "900")
        await asyncio.sleep(120)
        assert len(errors) == 1


async def test_a_source_without_a_tip_is_asked_for_a_list_of_one() -> None:
    lists = [page(rv=50), Slowly([[pod("b", 15)]], "20"), page(rv=20)]
    source = ScriptedSource(lists, [[HANG], [HANG]], newest=None)
    reflector, _ = reflect(source)
    async with running(reflector, 121):
        assert [asked.options.params() for asked in source.asked if asked.verb == "list"] == [
            {"resourceVersion": "0", "limit": "500"},
            {"limit": "1"},
            {"limit": "500"},
        ]
        assert dict(reflector.relists) == {"rewind": 1}


@pytest.mark.parametrize("error", [api_error(403, "Forbidden"), api_error(404, "NotFound")])
async def test_who_may_not_ask_for_the_tip_watches_on(error: APIError, caplog: pytest.LogCaptureFixture) -> None:
    source = ProbedSource([page(rv=7)], [[HANG], [HANG], [HANG]], tip_error=error)
    reflector, _ = reflect(source)
    with caplog.at_level(logging.WARNING, "kinformer"):
        async with running(reflector, 250):
            assert source.versions("watch") == ["7", "7", "7"]
            assert reflector.health().live
    assert said(caplog, "tip") == [Said("WARNING", "kinformer.reflector", "v1/pods")]
    assert str(error) in message_of(caplog, "tip")


async def test_a_tip_that_cannot_be_had_is_a_failure_like_any_other() -> None:
    source = ProbedSource([page(rv=7)], [[HANG], [HANG]], rv="9", tip_error=REFUSED)
    errors = Errors()
    reflector, _ = reflect(source, on_error=errors)
    async with running(reflector, 121):
        assert not reflector.health().live
        source.tip_error = None
        await asyncio.sleep(3)
        assert reflector.health().live
        assert source.versions("watch") == ["7", "7"]
        assert set(errors.kinds) == {ConnectError}


async def test_versions_that_are_no_numbers_are_not_compared() -> None:
    source = ScriptedSource([page(rv="abc")], [[HANG], [HANG]])
    reflector, _ = reflect(source)
    async with running(reflector, 121):
        assert source.verbs == ["list", "watch", "watch"]


async def test_a_relist_that_has_to_be_made_without_a_version_and_goes_back_is_a_rewind() -> None:
    source = ScriptedSource([page(rv=50), TOO_LARGE, page(rv=20)], [[WatchError("?")], [HANG]])
    reflector, _ = reflect(source)
    async with running(reflector, 5):
        assert dict(reflector.relists) == {"rewind": 1}


# --- WatchList ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    [
        api_error(422, "Invalid", "sendInitialEvents is forbidden for watch"),
        api_error(400, "BadRequest"),
        [api_error(500, "InternalError", "the required storage feature RequestWatchProgress is disabled")],
        [[added("a", 3)]],
    ],
    ids=["422", "400", "old etcd", "ends without bookmark"],
)
async def test_a_server_without_initial_streams_is_listed_at_once_and_this_is_remembered(answer: Any) -> None:
    source = ScriptedSource([page(rv=7), page(rv=9)], [answer, [WatchError("?")], [HANG]])
    errors = Errors()
    reflector, _ = reflect(source, watch_list=None, on_error=errors)
    async with running(reflector, 5):
        assert source.verbs == ["watch", "list", "watch", "list", "watch"]
        assert source.versions("list") == ["0", "7"]
        assert source.times("list")[0] == 0.0
        assert len(errors) == 2


async def test_the_fall_back_to_lists_is_told_once_and_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    refused = api_error(422, "Invalid", "sendInitialEvents is forbidden for watch")
    source = ScriptedSource([page(rv=7)], [refused, [4000.0, expired()], refused, [HANG]])
    reflector, _ = reflect(source, watch_list=None, idle_timeout=7200, watch_timeout=7200)
    with caplog.at_level(logging.INFO, "kinformer"):
        async with running(reflector, 4010):
            assert source.verbs.count("list") == 2
    assert said(caplog, "invalid") == [Said("INFO", "kinformer.reflector", "v1/pods")]
    assert str(refused) in message_of(caplog, "invalid")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_who_may_list_and_not_watch_has_a_list_after_three_refusals() -> None:
    source = ScriptedSource([page(pod("a", 3), rv=7)], [api_error(403)] * 50)
    reflector, store = reflect(source, watch_list=None)
    async with running(reflector, 10):
        assert source.verbs[:4] == ["watch", "watch", "watch", "list"]
        assert store.calls == [("replace", ["a"], "7")]
        assert (reflector.health().state, reflector.health().synced, reflector.health().live) == (
            "forbidden",
            True,
            False,
        )


async def test_an_object_that_cannot_be_read_does_not_deafen_an_initial_stream() -> None:
    poison = [WatchEvent("DELETED", UndecodableObject.of("default/b", "5"))]
    source = ScriptedSource(
        watches=[[[added("a", 3), added("b", 4)], poison, 29.0, [added("c", 3)], 29.0, [end(9)], HANG]]
    )
    reflector, store = reflect(source, watch_list=None)
    async with running(reflector, 60):
        assert source.verbs == ["watch"]
        assert store.calls == [("replace", ["a", "c"], "9")]


@pytest.mark.parametrize("leave_out", [lambda _: None, lambda document: document["data"]], ids=["None", "raises"])
async def test_an_object_that_a_transform_leaves_out_does_not_deafen_an_initial_stream(leave_out: Any) -> None:
    source = ScriptedSource(watches=[[[added("a", 3), added("b", 5)], 29.0, [added("c", 4)], 29.0, [end(9)], HANG]])
    reflector, store = reflect(
        TransformingListerWatcher(source, lambda doc: leave_out(doc) if doc["metadata"]["name"] == "b" else doc),
        watch_list=None,
    )
    async with running(reflector, 60):
        assert source.verbs == ["watch"]
        assert store.calls == [("replace", ["a", "c"], "9")]


async def test_the_memory_of_a_server_without_initial_streams_lasts_an_hour() -> None:
    source = ScriptedSource([page(rv=7)], [api_error(422), [3590.0, expired()], [20.0, expired()], [[end(9)], HANG]])
    reflector, _ = reflect(source, watch_list=None, idle_timeout=7200, watch_timeout=7200)
    async with running(reflector, 3700):
        assert source.verbs == ["watch", "list", "watch", "list", "watch", "watch"]
        assert source.asked[-1].options.send_initial_events


async def test_an_initial_stream_that_is_silent_for_30_seconds_is_listed() -> None:
    source = ScriptedSource([page(rv=7)], [[[added("a", 3)], 29.0, [added("b", 3)], 29.0, [], HANG], [HANG]])
    errors = Errors()
    reflector, store = reflect(source, watch_list=None, on_error=errors)
    async with running(reflector, 60):
        assert source.times("list") == [59.0]
        assert errors.kinds == [InitialStreamError]
        assert store.calls == [("replace", [], "7")]
        assert reflector.health().live


async def test_live_events_instead_of_the_end_bookmark_do_not_go_on_for_ever() -> None:
    """A server that does not know the parameter sends what there is, and then whatever happens."""
    busy = [step for number in range(100) for step in ([modified("a", 10 + number), added(f"p{number}", 11)], 1.0)]
    source = ScriptedSource([page(rv=7)], [[[added("a", 3)], 5.0, *busy], [HANG]])
    reflector, _ = reflect(source, watch_list=None)
    async with running(reflector, 60):
        assert 30 <= source.times("list")[0] <= 35


async def test_three_failed_initial_streams_are_listed() -> None:
    broken = [[added("a", 3)], ConnectionResetError("reset")]
    source = ScriptedSource([page(rv=7)], [broken, broken, broken, [HANG]])
    reflector, _ = reflect(source, watch_list=None)
    async with running(reflector, 10):
        assert source.times("watch")[:3] == [0.0, 0.8, 2.4]
        assert source.times("list") == [2.4]
        assert reflector.health().synced


@pytest.mark.parametrize("error", [REFUSED, api_error(429), api_error(503), api_error(401), api_error(404)])
async def test_who_is_refused_or_put_off_asks_for_the_stream_again(error: Exception) -> None:
    source = ScriptedSource([page(rv=7)], [error] * 5 + [[[end(9)], HANG]])
    reflector, _ = reflect(source, watch_list=None)
    async with running(reflector, 60):
        assert source.verbs == ["watch"] * 6
        later = [5.6, 12.0, 24.8]
        if error is REFUSED:
            later = [5.4, 8.4, 11.4]
        elif isinstance(error, UnauthorizedError | NotFoundError):
            later = [5.6, 10.6, 15.6]  # a wait for the first sync ends after 15 s of these
        assert source.times("watch") == [0.0, 0.8, 2.4, *later]
        assert reflector.health().synced


@pytest.mark.parametrize("answer", [expired(), api_error(500), api_error(403)], ids=["410", "500", "403"])
async def test_the_first_answer_after_a_silence_ends_the_backoff(answer: APIError) -> None:
    source = ScriptedSource([page(rv=7)], [[[added("a", 8)], REFUSED], *[REFUSED] * 20, answer, [HANG]])
    reflector, _ = reflect(source)
    async with running(reflector, 75):
        times = source.times("watch")
        silent = [later - sooner for sooner, later in pairwise(times[:22])]
        assert max(silent) <= 3.1  # every server that listens again is found soon
        last = source.asked[source.verbs.index("watch") + 22]
        assert 0 <= last.at - (source.asked[0].at + times[21]) < 2
        assert reflector.health().live


async def test_failures_after_an_answer_back_off_again() -> None:
    source = ScriptedSource([page(rv=7), *[api_error(500)] * 6], [[[added("a", 8)], REFUSED], REFUSED, expired()])
    reflector, _ = reflect(source)
    async with running(reflector, 40):
        times = source.times("list")[1:]
        assert [round(later - sooner, 1) for sooner, later in pairwise(times)][:5] == [0.8, 1.6, 3.2, 6.4, 12.8]


async def test_a_retry_after_is_kept_by_the_first_answer_after_a_silence() -> None:
    source = ScriptedSource([REFUSED, api_error(503, retry_after=20), page(rv=7)])
    reflector, _ = reflect(source)
    async with running(reflector, 40):
        _, asked, answered = source.times("list")
        assert 20 <= answered - asked <= 25


async def test_the_wait_after_a_429_can_be_cancelled() -> None:
    """client-go's cannot (trap T3)."""
    source = ScriptedSource(watches=[api_error(429, retry_after=30)])
    reflector, _ = reflect(source, watch_list=None)
    started = asyncio.get_running_loop().time()
    async with running(reflector, 0.2):
        pass
    assert asyncio.get_running_loop().time() - started < 1


@pytest.mark.parametrize("error", [expired(), TOO_LARGE], ids=["expired", "too large"])
async def test_an_initial_stream_whose_version_is_of_no_use_is_asked_for_at_once_without_one(error: APIError) -> None:
    source = ScriptedSource(watches=[[[end(9)], WatchError("?")], [error], [[end(5)], HANG]])
    reflector, store = reflect(source, watch_list=None)
    async with running(reflector, 5):
        assert source.versions("watch") == [None, "9", None]
        assert source.times("watch") == [0.0, 0.8, 0.8]
        assert store.calls[-1] == ("replace", [], "5")
        assert dict(reflector.relists) == {"rewind": 1}


async def test_only_streaming_reports_what_is_wrong_and_tries_again() -> None:
    source = ScriptedSource(watches=[[[added("a", 3)]], [[added("a", 3)], HANG], api_error(422), [[end(9)], HANG]])
    errors = Errors()
    reflector, store = reflect(source, watch_list=True, on_error=errors)
    async with running(reflector, 60):
        assert source.verbs == ["watch"] * 4
        assert source.times("watch") == [0.0, 0.8, 32.4, 35.6]
        assert all(isinstance(error, WatchError) for error in errors[:2])
        assert "without its end bookmark" in str(errors[0])
        assert "no initial event for 30 s" in str(errors[1])
        assert store.calls == [("replace", [], "9")]


async def test_what_a_broken_initial_stream_brought_is_thrown_away() -> None:
    source = ScriptedSource(watches=[[[added("a", 3)], DecodeError("garbage")], [[added("b", 4), end(9)], HANG]])
    reflector, store = reflect(source, watch_list=None)
    async with running(reflector, 5):
        assert store.calls == [("replace", ["b"], "9")]


# --- denials ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("status", "state"), [(401, "unauthorized"), (403, "forbidden"), (404, "absent")])
async def test_a_denial_is_a_state_that_stays_until_there_is_a_better_answer(status: int, state: str) -> None:
    source = ScriptedSource([api_error(status), api_error(status), Late(1.0, page(rv=7))])
    reflector, _ = reflect(source)
    async with running(reflector, 0.5):
        assert reflector.health().state == state
        await asyncio.sleep(2.5)  # the third request is under way
        assert source.times("list") == [0.0, 0.8, 2.4]
        assert (reflector.health().state, reflector.health().synced) == (state, False)
        assert getattr(reflector.health().last_error, "status", None) == status
        await asyncio.sleep(1)
        assert (reflector.health().state, reflector.health().last_error) == ("watching", None)


async def test_list_allowed_and_watch_forbidden_is_forbidden_and_no_relist_storm() -> None:
    source = ScriptedSource([page(pod("a", 3), rv=7)], [api_error(403)] * 50)
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 100):
        health = reflector.health()
        assert (health.state, health.synced, health.live) == ("forbidden", True, False)
        assert store.calls == [("replace", ["a"], "7")]
        assert len(errors) == 8


class GoneSource(ProbedSource):
    """A probed source that can tell its cluster without a list."""

    async def cluster(self) -> str | None:
        return self.cluster_name


def gone_source(present: Any, *, group: str = "example.com", watches: Any = None) -> ProbedSource:
    source = GoneSource([page(pod("a", 3), rv=7), api_error(404)], watches or [[5.0], api_error(404)], rv="7")
    source.present = present
    source.resource = GroupVersionResource(group, "v1", "widgets")  # type: ignore[attr-defined]
    return source


async def test_a_404_keeps_the_cache_until_the_resource_is_gone_twice_45_seconds_apart() -> None:
    source = gone_source(False)
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 50):
        health = reflector.health()
        assert (health.state, health.live, health.synced) == ("absent", False, True)
        assert store.calls == [("replace", ["a"], "7")]
        await asyncio.sleep(20)
        first, *_, last = source.questions
        assert last - first >= 45
        assert store.calls[1:] == [("replace", [], "")]
        asked = len(source.questions)
        await asyncio.sleep(60)
        assert len(source.questions) == asked  # it is proved
        assert store.calls[1:] == [("replace", [], "")]
        assert set(errors.kinds) == {NotFoundError}


@pytest.mark.parametrize("between", [True, None, ConnectError("down")], ids=["served", "unknown", "no answer"])
async def test_an_answer_that_proves_nothing_begins_the_proof_again(between: Any) -> None:
    source = gone_source(False)
    reflector, store = reflect(source)
    async with running(reflector, 5 + 24):
        source.present = between
        await asyncio.sleep(2)  # one more question
        source.present = False
        again = asyncio.get_running_loop().time()
        await asyncio.sleep(45)
        assert store.calls == [("replace", ["a"], "7")]
        await asyncio.sleep(60)
        assert store.calls[1:] == [("replace", [], "")]
        assert source.questions[-1] - again >= 45


@pytest.mark.parametrize("then", ["cluster-2", None], ids=["another", "hidden"])
@pytest.mark.parametrize("noticed", [4, 6], ids=["before the 404", "after it"])
async def test_what_another_cluster_lacks_is_not_gone(then: str | None, noticed: float) -> None:
    source = gone_source(False)
    reflector, store = reflect(source)
    async with running(reflector, noticed):
        assert reflector.cluster == "cluster-1"
        source.cluster_name = then
        await asyncio.sleep(300)
        assert store.calls == [("replace", ["a"], "7")]
        assert reflector.health().state == "absent"


async def test_two_clusters_in_turn_prove_nothing_even_if_none_was_known() -> None:
    source = gone_source(False)
    source.cluster_name = None
    reflector, store = reflect(source)
    async with running(reflector, 6):  # the collection is absent
        for number in range(10):
            source.cluster_name = f"cluster-{number}"
            await asyncio.sleep(40)
        assert store.calls == [("replace", ["a"], "7")]
        await asyncio.sleep(120)
        assert store.calls[1:] == [("replace", [], "")]


async def test_a_resource_that_comes_back_is_listed_again() -> None:
    source = gone_source(False)
    reflector, store = reflect(source)
    async with running(reflector, 90):
        source.lists = [page(pod("b", 30), rv=31)]
        await asyncio.sleep(40)
        assert store.calls[-1] == ("replace", ["b"], "31")
        assert source.versions("list")[-1] == "7"
        assert dict(reflector.relists) == {"absent": 1}
        assert reflector.health().live


@pytest.mark.parametrize("present", [True, None, ConnectError("down")], ids=["served", "unknown", "no answer"])
async def test_a_404_that_discovery_does_not_confirm_keeps_the_cache(present: Any) -> None:
    source = gone_source(present)
    errors = Errors()
    reflector, store = reflect(source, on_error=errors)
    async with running(reflector, 120):
        assert store.calls == [("replace", ["a"], "7")]
        assert len(source.questions) > 3
        assert reflector.health().state == "absent"
        assert (ConnectError in errors.kinds) == isinstance(present, ConnectError)


@pytest.mark.parametrize("group", ["", "apps", "extensions", "metrics.k8s.io", "gateway.networking.k8s.io"])
async def test_what_a_server_has_built_in_is_never_taken_for_gone(group: str) -> None:
    source = gone_source(False, group=group)
    reflector, store = reflect(source)
    async with running(reflector, 120):
        assert store.calls == [("replace", ["a"], "7")]
        assert source.questions == []


@pytest.mark.parametrize("group", ["example.com", "k8s.io.example.com", "myk8s.io"])
async def test_what_a_definition_adds_may_be_gone(group: str) -> None:
    source = gone_source(False, group=group)
    reflector, store = reflect(source)
    async with running(reflector, 120):
        assert store.calls == [("replace", ["a"], "7"), ("replace", [], "")]


async def test_absent_before_the_first_list_is_not_synced_and_empties_nothing() -> None:
    source = gone_source(False)
    source.lists = [api_error(404, "NotFound", "no widgets")]
    reflector, store = reflect(source)
    async with running(reflector, 60):
        health = reflector.health()
        assert (health.state, health.synced) == ("absent", False)
        assert isinstance(health.last_error, NotFoundError)
        assert store.calls == []


# --- bugs, and errors that others raise ------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [TypeError("bug"), KeyFuncError("no key"), OSError("disk full")])
@pytest.mark.parametrize("call", ["replace", "add"])
async def test_what_the_store_raises_comes_out_of_run(call: str, error: Exception) -> None:
    class Store(RecordingStore):
        def __getattribute__(self, name: str) -> Any:
            return self.fail if name == call else super().__getattribute__(name)

        def fail(self, *_: Any) -> None:
            raise error

    source = ScriptedSource([page(rv=7)], [[[added("a", 8)], HANG]])
    errors = Errors()
    reflector, _ = reflect(source, Store(), on_error=errors)
    async with running(reflector, 5) as task:
        assert task.done()
        assert task.exception() is error
        assert error.__cause__ is None
    assert errors == []
    assert source.open == 0
    health = reflector.health()
    assert (health.state, health.live, health.last_error) == ("stopped", False, error)


async def test_a_bug_of_the_source_comes_out_of_run() -> None:
    source = ScriptedSource([page(rv=7)], [[AttributeError("bug")]])
    reflector, _ = reflect(source)
    async with running(reflector) as task:
        assert isinstance(task.exception(), AttributeError)
    assert len(source.asked) == 2


async def test_a_bug_while_learning_which_cluster_it_is_comes_out_of_run() -> None:
    source = ProbedSource([page(rv=7)], tip_error=ZeroDivisionError("bug"))
    reflector, _ = reflect(source)
    async with running(reflector, 5) as task:
        assert isinstance(task.exception(), ZeroDivisionError)
    assert source.open == 0


async def test_on_error_hears_of_an_error_and_may_end_the_reflector() -> None:
    class TooMuchError(KinformerError):
        pass

    def on_error(reflector: Any, error: Exception) -> None:
        seen.append((reflector, error))
        if len(seen) == 2:
            raise TooMuchError("twice")

    seen: list[Any] = []
    source = ScriptedSource([REFUSED])
    reflector, _ = reflect(source, on_error=on_error)
    async with running(reflector, 10) as task:
        assert isinstance(task.exception(), TooMuchError)
    assert seen == [(reflector, REFUSED)] * 2
    assert isinstance(reflector.health().last_error, TooMuchError)


async def test_a_resync_that_fails_is_reported_and_is_a_relist() -> None:
    class Store(RecordingStore):
        def resync(self) -> None:
            super().resync()
            if len(self.named("resync")) == 1:
                raise ValueError("no resync today")

    source = ScriptedSource([page(rv=7)])
    errors = Errors()
    reflector, store = reflect(source, Store(), resync_period=10, on_error=errors)
    async with running(reflector, 21):
        assert errors.kinds == [ResyncError]
        assert isinstance(errors[0].__cause__, ValueError)
        assert source.times("list") == [0.0, 10.8]
        assert dict(reflector.relists) == {"resync": 1}
        assert len(store.named("resync")) == 2


async def test_a_version_that_nobody_has_reached_is_listed_once() -> None:
    source = ScriptedSource([page(rv=7), TOO_LARGE, page(rv=8)])
    reflector, _ = reflect(source)
    async with running(reflector):
        reflector.refresh("1000")
        await asyncio.sleep(5)
        assert source.versions("list") == ["0", "1000", None]
        assert dict(reflector.relists) == {"requested": 1}
