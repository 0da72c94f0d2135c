"""The command line shows changes: differences, grids, and the live table.

Internals: the formatters themselves, since a terminal shows too little of them.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from kinformer import ConnectError, InformerEvent, InformerHealth, KubeObject
from kinformer.cli.output.amounts import count, rate, seconds, size
from kinformer.cli.output.columns import Order
from kinformer.cli.output.documents import to_yaml
from kinformer.cli.output.grid import Cell, Grid
from kinformer.cli.output.live_table import LiveTable
from kinformer.cli.output.tables import Columns
from kinformer.client import APIResource
from kinformer.contrib.changes.differences import ABSENT, NOISE, Difference, differences, in_words, object_differences

PODS = APIResource(group="", version="v1", name="pods", kind="Pod")

scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b"])
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "name", "x.y"]), inner),
    max_leaves=12,
)


def pod(name: str, version: int, kind: str = "Pod", **more: Any) -> KubeObject:
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}
    return KubeObject.from_dict({"apiVersion": "v1", "kind": kind, "metadata": metadata, **more})


# --- differences ---------------------------------------------------------------------------------------------


def normal(value: Any) -> Any:
    """A value in a form in which those are equal that do not differ: items that have names are known by these."""
    if isinstance(value, dict):
        return {key: normal(one) for key, one in value.items()}
    if not isinstance(value, list):
        return json.dumps(value)
    for field in ("name", "type"):
        names = [item.get(field) if isinstance(item, dict) else None for item in value]
        if all(isinstance(name, str) for name in names) and len(set(names)) == len(names):
            return frozenset(json.dumps(item, sort_keys=True) for item in value)
    return [json.dumps(item) for item in value]


@given(documents, documents)
def test_there_are_differences_if_and_only_if_the_json_differs(old: Any, new: Any) -> None:
    assert (not list(differences(old, new, noise=()))) == (normal(old) == normal(new))
    assert not list(differences(old, json.loads(json.dumps(old)), noise=()))


def test_noise_is_left_out_and_can_be_asked_for() -> None:
    old = pod("a", 1, spec={"x": 1})
    new = pod("a", 2, spec={"x": 2})
    assert object_differences(old, new) == [Difference("spec.x", 1, 2)]
    assert {path for path, _, _ in object_differences(old, new, frozenset())} == {"spec.x", "metadata.resourceVersion"}
    assert "metadata.managedFields" in NOISE


def test_items_of_a_list_are_known_by_their_names() -> None:
    old = {"containers": [{"name": "web", "image": "a:1"}, {"name": "log", "image": "b:1"}]}
    new = {"containers": [{"name": "log", "image": "b:1"}, {"name": "web", "image": "a:2"}]}
    assert list(differences(old, new)) == [Difference("containers[web].image", "a:1", "a:2")]


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (Difference("spec.x", ABSENT, "a"), ("+", "spec.x", '"a"')),
        (Difference("spec.x", None, ABSENT), ("-", "spec.x", "null")),
        (Difference("spec.x", 1, True), ("~", "spec.x", "1 → true")),
    ],
)
def test_a_difference_in_words(difference: Difference, words: tuple[str, str, str]) -> None:
    assert in_words(difference) == words


def test_of_a_long_value_what_differs_is_shown() -> None:
    _, _, values = in_words(Difference("x", "a" * 5000 + "old", "a" * 5000 + "new" + "b" * 5000))
    assert len(values) < 260
    was, is_now = values.split(" → ")
    assert was.endswith('old"')
    assert "anewb" in is_now


def secret(annotations: dict[str, str] | None = None, **fields: Any) -> KubeObject:
    metadata = {"name": "s", "namespace": "default", **({} if annotations is None else {"annotations": annotations})}
    return KubeObject.from_dict({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **fields})


@pytest.mark.parametrize("field", ["data", "stringData"])
def test_what_a_secret_holds_is_hidden(field: str) -> None:
    old, new = secret(**{field: {"a": "b2xk", "tls.key": "b2xk"}}), secret(**{field: {"a": "bmV3", "b": "bmV3"}})
    assert [in_words(one) for one in object_differences(old, new)] == [
        ("~", f"{field}.a", "(hidden) → (hidden)"),
        ("-", f"{field}[tls.key]", "(hidden)"),
        ("+", f"{field}.b", "(hidden)"),
    ]
    for pair in ((secret(), new), (new, secret())):
        assert [in_words(one)[2] for one in object_differences(*pair)] == ['{"a": "(hidden)", "b": "(hidden)"}']


def test_of_the_annotations_of_a_secret_the_names_are_shown() -> None:
    first, second = {"example.com/copy": "b2xk"}, {"example.com/copy": "bmV3", "example.com/more": "bW9yZQ=="}
    for old, new in itertools.permutations((secret(), secret({}), secret(first), secret(second)), 2):
        shown = "".join(word for one in object_differences(old, new) for word in in_words(one))
        assert not [value for value in (*first.values(), *second.values()) if value in shown]
        assert shown
    [change, added] = object_differences(secret(first), secret(second))
    assert in_words(change) == ("~", "metadata.annotations[example.com/copy]", "(hidden) → (hidden)")
    assert in_words(added) == ("+", "metadata.annotations[example.com/more]", "(hidden)")


# --- amounts, documents, grids --------------------------------------------------------------------------------


def test_amounts_are_short_and_have_their_unit() -> None:
    assert [size(n) for n in (0, 999, 1000, 8_123, 999_600, 34_400_000, 2.1e9)] == [
        *("0 B", "999 B", "1.0 KB", "8.1 KB", "1.0 MB", "34 MB", "2.1 GB")
    ]
    assert [seconds(n) for n in (0.0001, 0.0124, 0.123, 1.23, 12.3, 125)] == [
        *("1 ms", "12 ms", "0.12 s", "1.2 s", "12 s", "2 min 5 s")
    ]
    assert [rate(n) for n in (0, 0.04, 0.3, 12.4, 1234)] == ["0", "0", "0.3", "12", "1,234"]
    assert [count(n, "object") for n in (0, 1, 5120)] == ["0 objects", "1 object", "5,120 objects"]


@pytest.mark.slow
@given(st.recursive(scalars | st.text() | st.floats(allow_nan=False, allow_infinity=False), st.lists, max_leaves=8))
def test_yaml_reads_back_as_what_it_was(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # half a surrogate, which no JSON of a server holds
        return
    assert yaml.safe_load(to_yaml({"value": value})) == {"value": value}


@given(st.lists(st.lists(st.text("ab日", max_size=40), min_size=3, max_size=3), max_size=5), st.integers(20, 100))
def test_a_grid_is_never_wider_than_it_may_be(rows: list[list[str]], width: int) -> None:
    grid = Grid(["A", "B", "C"], right=["B"])
    lines = grid.lines([[Cell(text) for text in row] for row in rows], width)
    assert len(lines) == len(rows) + 1
    assert all(line.cell_len <= width for line in lines)


@given(st.lists(st.tuples(st.text("ab日-", max_size=60), st.integers(0, 10**9)), max_size=5), st.integers(60, 100))
def test_a_narrow_grid_cuts_names_in_their_middle_and_figures_never(rows: list[tuple[str, int]], width: int) -> None:
    grid = Grid(["NAME", "NODE", "READY", "COUNT"], names=["NAME", "NODE"])
    cells = [[Cell(name), Cell(name), Cell(str(number)), Cell(str(number))] for name, number in rows]
    _, *lines = [line.plain for line in grid.lines(cells, width)]
    assert grid.hidden == ()
    for line, (name, number) in zip(lines, rows, strict=True):
        assert line.split()[-2:] == [str(number)] * 2
        if "…" in line:
            beginning, _, end = line[: line.index("   ")].partition("…")
            assert name.startswith(beginning)
            assert name.endswith(end)
            assert abs(cell_len(beginning) - cell_len(end)) <= 3


def test_a_grid_without_room_leaves_columns_out_and_names_them() -> None:
    grid = Grid(["NAME", "STATUS", "RESTARTS", "AGE"], names=["NAME"])
    rows = [[Cell("a-long-name-of-a-pod"), Cell("CrashLoopBackOff"), Cell("1234 (5m2s ago)"), Cell("400d")]]
    assert grid.lines(rows, 46)[1].plain.split() == ["a-long…-a-pod", "CrashLoopBackOff", "1234", "(5m2s", "ago)"]
    assert grid.hidden == ("AGE",)
    grid.lines(rows, 80)
    assert grid.hidden == ()


def test_columns_of_a_grid_do_not_become_narrower_again() -> None:
    grid = Grid(["A", "B"])
    wide = grid.lines([[Cell("x" * 10), Cell("y")]])[0].plain
    assert grid.lines([[Cell("x"), Cell("y")]])[0].plain == wide


# --- the table that lives ---------------------------------------------------------------------------------------

HEALTH = InformerHealth(
    state="watching",
    synced=True,
    live=True,
    last_event_age=1.0,
    last_sync_age=5.0,
    last_error=None,
    consecutive_failures=0,
    relists=0,
    watches=1,
    resource_version="5",
)


class Scene:
    """A table and the time."""

    def __init__(
        self, sections: list[Columns] | None = None, *, diff: bool = False, order: Order | None = None
    ) -> None:
        self.now = 0.0
        self.table = LiveTable(
            sections or [Columns(PODS, with_namespace=False)],
            title="pods",
            noise=NOISE if diff else None,
            clock=lambda: self.now,
            order=order,
        )
        self.health = HEALTH

    def happens(
        self, kind: str, obj: KubeObject, old: KubeObject | None = None, *, initial: bool = False, section: int = 0
    ) -> None:
        self.table.apply(InformerEvent(kind, obj, old, is_in_initial_list=initial), section)

    def press(self, keys: str) -> None:
        for key in keys:
            self.table.press({"\n": "enter", "\x1b": "escape", "\x7f": "backspace"}.get(key, key))

    def text(self, *, width: int = 100, height: int = 12) -> str:
        console = Console(file=io.StringIO(), width=width, height=height)
        with console.capture() as capture:
            console.print(self.table.picture(width, height, [("v1/pods", self.health)]), end="")
        text = capture.get()
        assert len(text.split("\n")) == height, "a picture is as high as the screen"
        return text

    def rows(self, **options: int) -> list[str]:
        return [line.rstrip() for line in self.text(**options).split("\n")[2:-1] if line.strip()]


def test_a_change_can_be_seen_for_a_while() -> None:
    scene = Scene()
    scene.happens("ADDED", pod("a", 1), initial=True)
    assert scene.rows()[0].startswith("    a ")
    scene.happens("UPDATED", pod("a", 2, status={"phase": "Failed"}), pod("a", 1))
    assert scene.rows()[0].startswith("~   a ")
    scene.now += 5
    assert scene.rows()[0].startswith("    a ")


def test_what_was_deleted_stays_a_while_where_it_was() -> None:
    scene = Scene()
    for name in ("a", "b", "c"):
        scene.happens("ADDED", pod(name, 1), initial=True)
    scene.happens("DELETED", pod("b", 2))
    assert [row.split()[:2] for row in scene.rows()][1] == ["-", "b"]
    assert "2 objects" in scene.text()
    scene.now += 5
    assert [row.split()[0] for row in scene.rows()] == ["a", "c"]
    scene.happens("DELETED", pod("a", 3))
    scene.happens("ADDED", pod("a", 4))
    assert [row.split()[:2] for row in scene.rows()] == [["+", "a"], ["c", "0/0"]]


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.sampled_from(["put", "delete"])), max_size=30))
def test_the_table_has_what_there_is_in_order(steps: list[tuple[str, str]]) -> None:
    scene, there = Scene(), dict[str, KubeObject]()
    for version, (name, what) in enumerate(steps):
        obj = pod(name, version)
        if what == "put":
            scene.happens("UPDATED" if name in there else "ADDED", obj, there.get(name))
            there[name] = obj
        elif name in there:
            scene.happens("DELETED", obj, there.pop(name))
    scene.now += 10
    assert [row.split()[0] for row in scene.rows()] == sorted(there)
    scene.table.press("s")
    assert sorted(row.split()[0] for row in scene.rows()) == sorted(there)


def test_scrolling_ends_at_the_ends() -> None:
    scene = Scene()
    for number in range(30):
        scene.happens("ADDED", pod(f"pod-{number:02}", 1), initial=True)
    for key, first in (("up", 0), ("page down", 9), ("end", 21), ("down", 21), ("home", 0), ("j", 1), ("k", 0)):
        scene.table.press(key)
        assert scene.rows()[0].split()[0] == f"pod-{first:02}", key


def test_an_object_that_cannot_be_read_has_a_row_all_the_same() -> None:
    scene = Scene()
    deep = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"deep","namespace":"default"},"spec":%s1%s}'
    raw = deep % (b'{"a":' * 1_000_000, b"}" * 1_000_000)  # more than a stack holds, for Python 3.14 and later
    obj = KubeObject("default/deep", "default", "", "1", "v1", "Pod", {}, (), raw)
    scene.happens("ADDED", obj, initial=True)
    assert "<unreadable>" in scene.rows()[0]


@pytest.mark.parametrize(("width", "height"), [(100, 12), (40, 8)])
def test_differences_have_a_third_of_the_screen(width: int, height: int) -> None:
    scene = Scene(diff=True)
    scene.happens("ADDED", pod("a", 1), initial=True)
    for version in range(2, 30):
        scene.happens("UPDATED", pod("a", version, spec={"x": version}), pod("a", version - 1, spec={"x": version - 1}))
    text = scene.text(width=width, height=height)
    assert "28 → 29" in text
    assert "27 → 28" not in text.split("28 → 29")[1]
    assert "what changed" not in scene.text(width=20, height=5), "there is room for the objects alone"


def test_a_filter_takes_the_objects_with_a_cell_that_has_its_text() -> None:
    scene = Scene()
    for name in ("web-1", "web-2", "db-1", "queue"):
        scene.happens("ADDED", pod(name, 1, status={"phase": "Failed" if name == "db-1" else "Running"}), initial=True)
    scene.press("/web")
    assert [row.split()[0] for row in scene.rows()] == ["web-1", "web-2"]
    assert "/web▏" in scene.text()
    scene.press("\x7f\x7f\x7fFAIL\n")
    assert [row.split()[0] for row in scene.rows()] == ["db-1"]
    assert "/FAIL: 1 of 4" in scene.text()
    scene.happens("UPDATED", pod("queue", 2, status={"phase": "Failed"}), pod("queue", 1))
    assert len(scene.rows()) == 2
    scene.press("/x\x1b")
    assert len(scene.rows()) == 4


@pytest.mark.parametrize("key", "qs /jGg")
def test_keys_are_text_while_a_filter_is_typed(key: str) -> None:
    scene = Scene()
    scene.happens("ADDED", pod("web", 1), initial=True)
    assert not scene.table.press("q"), "q ends"
    scene.press("/")
    assert scene.table.press(key)
    assert f"/{key}" in scene.text()


def test_the_order_of_a_path_is_kept_through_changes() -> None:
    scene = Scene(order=Order(".status.phase"))
    for name, phase in (("a", "Running"), ("b", "Failed"), ("c", "Pending")):
        scene.happens("ADDED", pod(name, 1, status={"phase": phase}), initial=True)
    assert [row.split()[0] for row in scene.rows()] == ["b", "c", "a"]
    scene.happens("UPDATED", pod("a", 2, status={"phase": "Aborted"}), pod("a", 1, status={"phase": "Running"}))
    scene.now += 10
    assert [row.split()[0] for row in scene.rows()] == ["a", "b", "c"]
    scene.happens("DELETED", pod("b", 3, status={"phase": "Failed"}))
    scene.now += 10
    assert [row.split()[0] for row in scene.rows()] == ["a", "c"]


def test_two_resources_have_a_header_each() -> None:
    nodes = APIResource(group="", version="v1", name="nodes", kind="Node", namespaced=False)
    scene = Scene([Columns(PODS, with_namespace=False), Columns(nodes, with_namespace=False)])
    for number in range(8):
        scene.happens("ADDED", pod(f"pod-{number}", 1), initial=True)
    for name in ("node-1", "node-2"):
        obj = KubeObject.from_dict({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
        scene.happens("ADDED", obj, initial=True, section=1)
    assert [line.split()[0] for line in scene.text(height=14).split("\n")[1:-1]] == [
        *("NAME", *(f"pod-{number}" for number in range(8)), "NAME", "node-1", "node-2")
    ]
    scene.press("G")
    shown = [line.split()[0] for line in scene.text(height=8).split("\n")[1:-1]]
    assert shown == ["NAME", "pod-6", "pod-7", "NAME", "node-1", "node-2"]
    scene.press("g")
    assert [line.split()[0] for line in scene.text(height=8).split("\n")[1:-1]] == [
        *("NAME", *(f"pod-{number}" for number in range(5)))
    ]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_reason_of_an_outage_is_never_cut_and_no_figure_is(width: int) -> None:
    scene = Scene()
    for number in range(1200):
        scene.happens("ADDED", pod(f"pod-{number}", 1), initial=True)
    reason = (
        "GET api.a-cluster-with-a-very-long-name.eu-central-1.example.com:6443/api/v1/pods: connection refused " * 2
    )
    scene.health = dataclasses.replace(HEALTH, live=False, state="backing_off", last_error=ConnectError(reason))
    text = " ".join(scene.text(width=width, height=20).split())
    assert "".join(f"as it was before: {reason}".split()) in "".join(text.split())
    for words in ("1,200 objects", "0 changes", "backing off", "of 1,200", "q ends"):
        assert words in text
