"""What the command line says of changes: differences, grids, and the table that lives."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from kinformer import APIResource, KubeObject
from kinformer.cli.output.amounts import count, rate, seconds, size
from kinformer.cli.output.differences import ABSENT, NOISE, Difference, differences, in_words, object_differences
from kinformer.cli.output.documents import to_yaml
from kinformer.cli.output.grid import Cell, Grid
from kinformer.cli.output.live_table import LiveTable
from kinformer.cli.output.tables import Columns
from kinformer.processor.event_stream import InformerEvent
from kinformer.reflector.health import InformerHealth

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
    assert in_words(difference, pod("a", 1)) == words


def test_of_a_long_value_what_differs_is_shown() -> None:
    _, _, values = in_words(Difference("x", "a" * 5000 + "old", "a" * 5000 + "new" + "b" * 5000), pod("a", 1))
    assert len(values) < 260
    was, is_now = values.split(" → ")
    assert was.endswith('old"')
    assert "anewb" in is_now


@pytest.mark.parametrize("path", ["data", "data.password", "data[tls.key]", "stringData.x"])
def test_what_a_secret_holds_is_hidden(path: str) -> None:
    secret = pod("s", 1, kind="Secret")
    assert in_words(Difference(path, "b2xk", "bmV3"), secret)[2] == "(hidden) → (hidden)"
    assert in_words(Difference(path, ABSENT, "bmV3"), secret)[2] == "(hidden)"
    assert in_words(Difference("metadata.labels.x", "a", "b"), secret)[2] == '"a" → "b"'


def test_what_a_secret_holds_is_hidden_in_the_annotation_of_an_apply_too() -> None:
    def secret(**annotations: str) -> KubeObject:
        metadata = {"name": "s", "namespace": "default", **({"annotations": annotations} if annotations else {})}
        return KubeObject.from_dict({"apiVersion": "v1", "kind": "Secret", "metadata": metadata})

    applied = {"kubectl.kubernetes.io/last-applied-configuration": "b2xk"}
    both, other = secret(**applied, other="shown"), secret(other="another")
    for old, new in ((secret(), both), (both, secret()), (secret(**applied), both), (other, both)):
        shown = [word for difference in object_differences(old, new) for word in in_words(difference, new)]
        assert "b2xk" not in "".join(shown)
        assert "shown" in "".join(shown)


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


@pytest.mark.search
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

    def __init__(self, *, diff: bool = False) -> None:
        self.now = 0.0
        self.table = LiveTable(
            Columns(PODS, with_namespace=False),
            title="pods",
            noise=NOISE if diff else None,
            clock=lambda: self.now,
        )

    def happens(self, kind: str, obj: KubeObject, old: KubeObject | None = None, *, initial: bool = False) -> None:
        self.table.apply(InformerEvent(kind, obj, old, is_in_initial_list=initial))

    def text(self, *, width: int = 100, height: int = 12) -> str:
        console = Console(file=io.StringIO(), width=width, height=height)
        with console.capture() as capture:
            console.print(self.table.picture(width, height, HEALTH), end="")
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
