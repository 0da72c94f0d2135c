"""Commands on a terminal: a table in place, keys, and the terminal given back as it was."""

from __future__ import annotations

import asyncio
import signal

import pytest

from kinformer.testing import APIServer, faults
from tests.cli.terminal import Terminal, on_terminal
from tests.support.kube import config_map, pod

pytestmark = pytest.mark.process

LEFT = b"\x1b[?1049l"  # the other screen is left, and what was there before is there again
CURSOR = b"\x1b[?25h"


def row(terminal: Terminal, name: str) -> list[str]:
    """The words of the line on which a name stands; none while there is no such line."""
    return next((line.split() for line in terminal.text.splitlines() if f" {name} " in f" {line} "), [])


def names(terminal: Terminal) -> list[str]:
    return [word for line in terminal.text.splitlines() for word in line.split() if word.startswith("cm-")]


async def test_a_table_changes_in_place(server: APIServer) -> None:
    server.create(pod("web-1", phase="Pending"))
    server.create(pod("web-2", phase="Running"))
    async with on_terminal("watch", "pods", "--server", server.url) as terminal:
        await terminal.shows("v1/pods in default", "2 objects", "web-1", "web-2", "watching")
        assert "Pending" in row(terminal, "web-1")
        server.update(pod("web-1", phase="Running"))
        await terminal.until(lambda: "Running" in row(terminal, "web-1"))
        assert terminal.text.count("web-1") == 1, "a line was added, not changed"
        assert row(terminal, "web-1")[0] == "~"
        server.create(pod("web-0", phase="Running"))
        await terminal.shows("3 objects", "web-0")
        assert row(terminal, "web-0")[0] == "+"
        server.delete("v1/pods", "default", "web-2")
        await terminal.shows("2 objects")
        assert row(terminal, "web-2")[0] == "-"
        terminal.press("q")
        assert await terminal.ended() == 0
        assert LEFT in terminal.written
        assert terminal.written.rfind(CURSOR) > 0


@pytest.mark.parametrize("command", [("watch", "cm"), ("watch", "cm", "--diff"), ("stats", "cm")])
async def test_ctrl_c_ends_with_130_and_gives_the_terminal_back(server: APIServer, command: tuple[str, ...]) -> None:
    server.create(config_map("a"))
    async with on_terminal(*command, "--server", server.url) as terminal:
        before = terminal.modes
        await terminal.shows("q ends")
        assert terminal.modes != before, "keys come only with Enter"
        terminal.press("\x03")
        assert await terminal.ended() == 130
        assert terminal.modes == before
        assert terminal.written.count(LEFT) == 1
        assert "Traceback" not in terminal.text


async def test_sigterm_gives_the_terminal_back_too(server: APIServer) -> None:
    async with on_terminal("watch", "cm", "--server", server.url) as terminal:
        before = terminal.modes
        await terminal.shows("q ends")
        assert terminal.process is not None
        terminal.process.send_signal(signal.SIGTERM)
        assert await terminal.ended() == 0
        assert terminal.modes == before
        assert LEFT in terminal.written


async def test_a_duration_gives_the_terminal_back(server: APIServer) -> None:
    async with on_terminal("watch", "cm", "--duration", "2", "--server", server.url) as terminal:
        before = terminal.modes
        await terminal.shows("q ends")
        assert await terminal.ended() == 0
        assert terminal.modes == before
        assert LEFT in terminal.written


async def test_what_changed_stands_below_the_table(server: APIServer) -> None:
    server.create(config_map("a", data={"x": "1"}))
    async with on_terminal("watch", "cm", "--diff", "--server", server.url) as terminal:
        await terminal.shows("what changed", "1 object ")
        server.update(config_map("a", data={"x": "2"}))
        await terminal.shows("~ default/a", '~ data.x: "1" → "2"')
        assert "resourceVersion" not in terminal.text


async def test_an_outage_is_told_of_while_the_table_stays(server: APIServer) -> None:
    server.create(config_map("cm-1"))
    async with on_terminal("watch", "cm", "--server", server.url, width=140) as terminal:
        await terminal.shows("cm-1", "watching")
        down = asyncio.create_task(server.restart(downtime=3))
        await terminal.shows("backing off", "as it was before", "cm-1")
        await down
        server.create(config_map("cm-2"))
        await terminal.shows("cm-2", "watching")


async def test_more_than_fits_is_scrolled_and_can_be_in_the_order_of_changes(server: APIServer) -> None:
    for number in range(60):
        server.create(config_map(f"cm-{number:02}"))
    async with on_terminal("watch", "cm", "--server", server.url, height=13) as terminal:
        await terminal.shows("1-10 of 60")
        assert names(terminal) == [f"cm-{number:02}" for number in range(10)]
        terminal.press("\x1b[6~")  # page down
        await terminal.shows("11-20 of 60")
        assert names(terminal)[0] == "cm-10"
        terminal.press("\x1b[B")  # down
        await terminal.shows("12-21 of 60")
        terminal.press("G")
        await terminal.shows("51-60 of 60")
        server.update(config_map("cm-33", data={"x": "1"}))
        terminal.press("s")
        await terminal.until(lambda: names(terminal)[:1] == ["cm-33"])
        terminal.press("s\x1b[H")
        await terminal.shows("1-10 of 60", "cm-00")


async def test_a_narrow_terminal_cuts_columns_and_wraps_nothing(server: APIServer) -> None:
    server.create(config_map("cm-" + "x" * 80, namespace="n" * 60))
    async with on_terminal("watch", "cm", "-A", "--server", server.url, width=50, height=10) as terminal:
        await terminal.shows("1 object", "…", "q ends")
        lines = terminal.text.splitlines()
        assert len(lines) == 10
        assert sum("…" in line for line in lines[1:-1]) == 1


async def test_plain_and_a_terminal_that_cannot_go_back_have_lines(server: APIServer) -> None:
    server.create(config_map("cm-1"))
    plain = ("watch", "cm", "--server", server.url, "--duration", "1")
    for arguments, environment in (((*plain, "--plain"), {}), (plain, {"TERM": "dumb"})):
        async with on_terminal(*arguments, environment=environment) as terminal:
            await terminal.shows("EVENT", "ADDED", "cm-1")
            assert await terminal.ended() == 0
            assert LEFT not in terminal.written


async def test_control_characters_of_a_cluster_do_not_reach_the_terminal(server: APIServer) -> None:
    server.create({**pod("web-1", phase="Failed"), "status": {"phase": "Failed", "reason": "\x1b[2Jgone\x07"}})
    async with on_terminal("watch", "pods", "--server", server.url) as terminal:
        await terminal.shows("?[2Jgone?")


async def test_a_long_list_says_how_far_it_is(server: APIServer) -> None:
    for number in range(1200):
        server.create(config_map(f"cm-{number:04}"))
    server.faults.add(faults.delay(0.6), verb="list", resource="v1/configmaps")
    async with on_terminal("watch", "--once", "cm", "-o", "name", "--server", server.url) as terminal:
        await terminal.shows("loading configmaps: 500 so far")
        assert await terminal.ended() == 0
        assert "loading" not in terminal.text


async def test_stats_show_informers_at_work(server: APIServer) -> None:
    server.create(config_map("a"))
    async with on_terminal("stats", "cm", "nodes", "-A", "--server", server.url, width=130) as terminal:
        await terminal.shows("kinformer stats", "v1/configmaps", "v1/nodes", "OBJECTS", "QUEUE", "RELISTS")
        await terminal.until(lambda: row(terminal, "v1/configmaps")[1:3] == ["watching", "1"])
        for number in range(5):
            server.create(config_map(f"b-{number}"))
        await terminal.until(
            lambda: row(terminal, "v1/configmaps")[2:3] == ["6"] and row(terminal, "v1/configmaps")[5] != "0"
        )
        terminal.press("q")
        assert await terminal.ended() == 0
        assert LEFT in terminal.written


async def test_the_doctor_wraps_what_is_long(server: APIServer) -> None:
    server.create(config_map("a"))
    async with on_terminal("doctor", "cm", "--server", server.url, width=80, height=50) as terminal:
        await terminal.shows("An informer of v1/configmaps works")
        assert await terminal.ended() == 0
        steps = terminal.text.split("\n\n")[0].splitlines()
        assert len(steps) > 15
        assert {line[:22].strip() for line in steps if not line.startswith(("ok ", "warn "))} == {""}


async def test_a_question_mark_shows_the_keys(server: APIServer) -> None:
    server.create(config_map("cm-a"))
    async with on_terminal("watch", "cm", "--sort-by", ".metadata.nothing", "--server", server.url) as terminal:
        await terminal.shows("cm-a", "? keys", "--sort-by .metadata.nothing: no object has a value there")
        terminal.press("?")
        await terminal.shows("latest change first", "Page Up", "q, Ctrl-D", "~ changed", "? or Escape hides")
        assert not names(terminal)
        terminal.press("?")
        await terminal.shows("cm-a", "? keys")
        terminal.press("/?")
        await terminal.shows("0 of 1")
        terminal.press("\x1b")
        await terminal.shows("cm-a")
        terminal.press("?")
        await terminal.shows("? or Escape hides")
        terminal.press("\x1b")
        await terminal.shows("cm-a")
        terminal.press("q")
        assert await terminal.ended() == 0
