"""The log: the fields of every record, the levels, the amounts, and the secrets that are never in it.

Internals: the loggers and their fields.
"""

from __future__ import annotations

import ast
import asyncio
import logging
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kinformer import Controller, ForbiddenError, KubeObject, Request, SharedInformer
from kinformer._runtime.logs import FIELDS, LogOnce, get_logger
from tests.support.memory_source import MemorySource
from tests.support.waiting import settle

ROOT = Path(__file__).parents[2]
LEVELS = {name.lower(): name for name in ("DEBUG", "INFO", "WARNING", "ERROR")} | {"exception": "ERROR"}

Said = dict[tuple[str, str], set[str]]


# --- what the documentation says -----------------------------------------------------------------------


def calls() -> Iterator[tuple[str, ast.Call, str]]:
    """Each call of a logger in the package: the logger's name, the call, and where it stands."""
    for path in sorted((ROOT / "kinformer").rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        nodes = list(ast.walk(tree))
        names = [
            node.value.args[0].value
            for node in nodes
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and isinstance(node.value.func, ast.Name)
            and node.value.func.id == "get_logger"
            and isinstance(node.value.args[0], ast.Constant)
        ]
        if path.relative_to(ROOT / "kinformer").parts[0] == "contrib":  # it uses the standard library's loggers
            names = re.findall(r'^log = logging\.getLogger\("(.*)"\)$', path.read_text(encoding="utf-8"), re.MULTILINE)
        for node in nodes:
            if isinstance(node, ast.Call) and (_is_logging(node) or _is_failure(node) or _reason_of(node)):
                if not names and _reason_of(node):
                    continue  # one that was passed itself
                assert len(names) == 1, f"{path} logs, and has {len(names)} loggers of kinformer._runtime.logs"
                yield str(names[0]), node, f"{path.relative_to(ROOT)}:{node.lineno}"


def _is_logging(call: ast.Call) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id in ("log", "logger")
        and function.attr in {*LEVELS, "log"}
    )


def _is_failure(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "_log_failure"


def _reason_of(call: ast.Call) -> str:
    """Return the reason of the warnings of a `FirstSync` or `UserFunction`, to which a logger is passed, or ""."""
    if any(keyword.arg == "log" for keyword in call.keywords):
        return "unsynced"
    return "loop_held" if isinstance(call.func, ast.Name) and call.func.id == "UserFunction" else ""


def said_in_code() -> Said:
    said: Said = defaultdict(set)
    for name, call, where in calls():
        if reason_of_part := _reason_of(call):
            said[name, reason_of_part].add("WARNING")
            continue
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        if where.startswith("kinformer/contrib/"):
            extra = keywords.pop("extra")
            assert isinstance(extra, ast.Dict)
            items = zip(extra.keys, extra.values, strict=True)
            keywords |= {str(ast.literal_eval(key)): value for key, value in items if key}
            assert set(FIELDS) <= keywords.keys(), where
        assert "reason" in keywords, f"{where} gives no reason"
        assert "extra" not in keywords, f"{where}: fields are keywords"
        reason = keywords["reason"]
        if isinstance(reason, ast.Name) and reason.id == "reason":
            continue  # passed on from the report of a failure, which is looked at itself
        word = str(reason.value) if isinstance(reason, ast.Constant) else "*cause*"
        assert isinstance(call.func, ast.Attribute)
        said[name, word] |= {LEVELS[call.func.attr]} if call.func.attr in LEVELS else set()
    return said


def said_in_docs() -> Said:
    text = (ROOT / "docs" / "logging.md").read_text(encoding="utf-8")
    loggers = re.findall(r"^\*\*`(kinformer[\w.]+)`\*\*\n\n((?:- .+\n)+)", text, re.MULTILINE)
    row = re.compile(r"^- (\S+) ([A-Z]+(?:, [A-Z]+)*)(?:: .+)?$", re.MULTILINE)
    rows = [(name, *found) for name, lines in loggers for found in row.findall(lines)]
    assert len({row[:2] for row in rows}) == len(rows)
    return {(name, reason.strip("`")): set(levels.split(", ")) for name, reason, levels in rows}


@pytest.mark.slow
def test_the_documentation_has_every_record_with_its_levels_and_no_other() -> None:
    code, docs = said_in_code(), said_in_docs()
    assert set(code) == set(docs)
    assert len(code) > 40
    for what, levels in code.items():
        assert levels <= docs[what], what
        assert docs[what] <= set(LEVELS.values()), what


def test_no_module_has_a_logger_of_another_kind() -> None:
    allowed = {
        "kinformer/_runtime/logs.py",
        "kinformer/cli/output/logs.py",
        "kinformer/cli/completion.py",
        "kinformer/contrib/event_log.py",
        "kinformer/contrib/prometheus.py",
    }  # those of the command line set levels; contrib uses public names alone
    found = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "kinformer").rglob("*.py")
        if "logging.getLogger" in path.read_text(encoding="utf-8")
    }
    assert found <= allowed


# --- fields ---------------------------------------------------------------------------------------------


def test_every_record_has_every_field(caplog: pytest.LogCaptureFixture) -> None:
    log = get_logger("kinformer.test", resource="v1/leases")
    log.warning("%s", "text", resource="v1/pods in team-a", key="team-a/web", reason=ForbiddenError(403, "", "no"))
    log.error("nothing known")
    first, second = caplog.records
    assert [getattr(first, field) for field in FIELDS] == ["v1/pods", "team-a/web", "forbidden"]
    assert [getattr(second, field) for field in FIELDS] == ["v1/leases", "", ""]
    assert first.getMessage() == "text"
    assert first.filename == "test_logs.py"


async def test_a_refused_watch_and_a_failing_handler_say_resource_key_and_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = MemorySource()
    source.set("a")

    def on_add(obj: KubeObject) -> None:
        raise ValueError("no")

    async with SharedInformer(source) as informer:
        informer.add_event_handler(on_add=on_add)
        await informer.wait_synced(10)
        await settle()
        source.fail_with = ForbiddenError(403, "Forbidden", "pods is forbidden")
        source.cut()
        await settle()
    found = {(record.name, *(getattr(record, field) for field in FIELDS)) for record in caplog.records}
    assert found == {
        ("kinformer.handler", "v1/configmaps", "default/a", "handler_failed"),
        ("kinformer.reflector", "v1/configmaps", "", "forbidden"),
        ("kinformer.reflector", "v1/configmaps", "", "tip"),
    }


async def test_nothing_is_logged_above_debug_while_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kinformer")
    source = MemorySource()
    for number in range(100):
        source.set(f"c{number}")
    async with SharedInformer(source, resync_period=0.01) as informer:
        informer.add_event_handler(on_update=lambda old, new: None)
        await informer.wait_synced(10)
        source.set("c1")
        source.delete("c2")
        source.cut()
        await asyncio.sleep(0.03)
    assert caplog.records == []


ELEVEN_FAILURES = """
import asyncio
from kinformer import SharedInformer
from tests.support.memory_source import MemorySource

async def on_add(obj):
    raise ValueError(f"no place for {obj.name}")

async def main():
    source = MemorySource()
    for number in range(11):
        source.set(f"c{number}")
    async with SharedInformer(source) as informer:
        informer.add_event_handler(on_add=on_add)
        await informer.wait_handlers_synced()
        print(informer.statistics().handler_errors)

asyncio.run(main())
"""


@pytest.mark.process
def test_a_program_that_has_not_set_up_logging_sees_what_fails() -> None:
    command = [sys.executable, "-c", ELEVEN_FAILURES]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=ROOT)
    assert run.stdout == "11\n"
    assert len(set(re.findall(r"handler on_add failed on ADDED of default/(c\d+)", run.stderr))) == 10
    assert len(set(re.findall(r"ValueError: no place for (c\d+)\n", run.stderr))) == 10
    assert run.stderr.count("Traceback (most recent call last)") == 10
    [last] = [line for line in run.stderr.splitlines() if line.endswith("is logged)")]
    assert "(further failures are counted, and one every 10 s is logged)" in last
    assert run.stderr.rindex("handler on_add failed") == run.stderr.index(last)


@pytest.mark.process
def test_information_is_only_for_a_program_that_asks_for_it() -> None:
    program = "from kinformer._runtime.logs import get_logger; get_logger('kinformer.x').info('leading')"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert (run.stdout, run.stderr) == ("", "")


# --- how much -------------------------------------------------------------------------------------------


def test_a_thing_is_news_once_and_again_when_it_is_another_or_was_well_between() -> None:
    told = LogOnce()
    assert told.is_news("a")
    assert not told.is_news("a")
    assert told.is_news("a", "another error")
    assert told.is_news("b")
    told.forget("a")
    told.forget("never seen")
    assert told.is_news("a", "another error")


def test_of_many_things_ten_are_told_and_then_one_every_ten_seconds() -> None:
    now = [0.0]
    told = LogOnce(clock=lambda: now[0])
    assert sum(told.is_news(number) for number in range(1000)) == 10
    now[0] = 25.0
    assert sum(told.is_news(number) for number in range(1000)) == 2
    now[0] = 1e6
    assert sum(told.is_news(number) for number in range(1000)) == 10


def test_what_is_remembered_is_bounded() -> None:
    now = [0.0]
    told = LogOnce(100, clock=lambda: now[0])
    for number in range(1000):
        now[0] += 10.0
        assert told.is_news(number)
    remembered = 0
    for number in reversed(range(1000)):
        now[0] += 10.0
        remembered += not told.is_news(number)
    assert 0 < remembered <= 100


async def test_an_outage_that_every_handler_call_fails_by_is_ten_lines(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource()
    for number in range(500):
        source.set(f"c{number}")

    def on_add(obj: KubeObject) -> None:
        raise ConnectionError("the database is away")

    async with SharedInformer(source) as informer:
        informer.add_event_handler(on_add=on_add)
        await informer.wait_handlers_synced()
        assert informer.statistics().handler_errors == 500
    assert len(caplog.records) == 10
    assert all(record.exc_info for record in caplog.records)


@pytest.mark.virtual_time
async def test_a_key_that_goes_on_failing_is_told_once_and_again_when_it_was_well(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = MemorySource()
    source.set("a")
    fails = True
    runs = 0

    async def reconcile(request: Request) -> None:
        nonlocal runs
        runs += 1
        if fails:
            raise ConnectionError("away")

    async with SharedInformer(source) as informer:
        controller = Controller(reconcile, name="c").for_(informer)
        running = asyncio.create_task(controller.run())
        await asyncio.sleep(1)
        assert runs > 5
        [record] = caplog.records
        fields = ("resource", "key", "reason")
        assert [getattr(record, field) for field in fields] == ["v1/configmaps", "default/a", "reconcile_failed"]
        fails = False
        source.set("a")
        await asyncio.sleep(10)
        fails = True
        source.set("a")
        await asyncio.sleep(1)
        assert len(caplog.records) == 2
        running.cancel()
        await asyncio.wait({running})


# --- what never stands in it ----------------------------------------------------------------------------


async def test_no_object_stands_in_the_log_when_transforms_models_and_handlers_fail_on_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "kinformer")
    source = MemorySource()
    source.set("a", data={"password": "hunter2"}, labels={"tier": "hunter2"})

    def renamed(document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "metadata": {**document["metadata"], "name": "b"}}

    for transform in (renamed, lambda document: [document], lambda document: {"metadata": document}):
        async with SharedInformer(source, transform=transform) as informer:  # type: ignore[arg-type]
            await informer.wait_synced(10)
            assert informer.statistics().transform_errors == 1

    def on_add(obj: KubeObject) -> None:
        obj.decode(int)

    async with SharedInformer(source) as informer:
        informer.add_event_handler(on_add=on_add)
        await informer.wait_handlers_synced()
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 4
    assert "default/a" in caplog.text
    assert "hunter2" not in caplog.text
