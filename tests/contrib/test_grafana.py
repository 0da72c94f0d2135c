"""The Grafana page and the alert rules ask for metrics, labels and values that are really exported."""

from __future__ import annotations

import asyncio
import json
import re
import runpy
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest
import yaml
from prometheus_client import CollectorRegistry

from kinformer import (
    Controller,
    Fleet,
    InformerHealth,
    LeaderElector,
    Request,
    SharedInformer,
    SharedInformerFactory,
)
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.derived import mapped
from kinformer.testing import APIServer
from kinformer.watchcache import Share
from kinformer.workqueue import RateLimitingQueue
from tests.support.resumable_source import ResumableSource
from tests.support.waiting import until

FOLDER = Path(__file__).parents[2] / "examples" / "grafana"
DASHBOARD = json.loads((FOLDER / "dashboard.json").read_text())
GROUPS = yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
RULES = [rule for group in GROUPS for rule in group["rules"]]

GRAFANA = {"instance"}  # labels that Prometheus adds when it scrapes
OURS = ("kinformer_", "workqueue_", "controller_runtime_", "leader_election_")

OF_DERIVED = "kinformer_derived_"
OF_FLEETS = "kinformer_fleet_"
OF_CONTROLLERS = ("controller_runtime_", "kinformer_controller_")
OF_LEADERS = ("leader_election_", "kinformer_leader_election_")

Exported = dict[str, set[str]]


@pytest.fixture(scope="module")
def exported() -> Exported:
    with (
        tempfile.TemporaryDirectory(prefix="kf") as folder,  # a short path, as that of a socket must be
        asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner,
    ):
        return runner.run(_exported(Path(folder)))


async def _exported(folder: Path) -> Exported:
    """What a working program exports: sample names and their labels.

    An informer with a handler, a snapshot, a relist and a failure; one of a shared cache; what is derived of it; a
    queue; a controller; a leader; a fleet.
    """
    registry = CollectorRegistry()
    metrics = PrometheusMetrics(registry)
    queue: RateLimitingQueue[str] = RateLimitingQueue(name="q", metrics=metrics)
    queue.add("a")
    queue.done(await queue.get())
    source = ResumableSource()
    source.set("a")
    informer = SharedInformer(source, metrics=metrics, snapshot=folder / "snapshot")
    informer.add_event_handler(on_add=lambda obj: None, name="h")

    async def reconcile(request: Request) -> None:
        return None

    controller = Controller(reconcile, metrics=metrics, name="c").for_(informer)
    async with (
        APIServer() as server,
        server.client() as client,
        LeaderElector(client, namespace="default", name="lease", metrics=metrics).leading(),
        Fleet({"east": server.client()}, metrics=metrics),
        SharedInformerFactory(client, share=Share(folder / "cache.sock"), metrics=metrics) as sharing,
        informer,
        mapped(informer, lambda obj: obj.name) as names,
        asyncio.TaskGroup() as group,
    ):
        sharing.for_resource("v1/configmaps")
        await sharing.wait_for_cache_sync(10)
        reconciling = group.create_task(controller.run())
        await until(lambda: controller.statistics().reconciles)
        await until(lambda: source.watches)
        names.add_event_handler(on_add=lambda value: None, name="h")
        source.set("b")
        await until(lambda: len(informer.lister) == 2 == len(names.lister))
        source.expire()
        await until(lambda: informer.health().relists and informer.health().live)
        await informer.confirm()
        found: Exported = {}
        for family in registry.collect():
            for sample in family.samples:
                found.setdefault(sample.name, set()).update(sample.labels)
        reconciling.cancel()
    return found


def queries() -> Iterator[tuple[str, str]]:
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield f"panel {panel['title']}", target["expr"]
    for rule in RULES:
        yield f"alert {rule['alert']}", rule["expr"]


def metrics_of(query: str) -> dict[str, set[str]]:
    """The metrics that a query names, with the labels that it selects each by."""
    found: dict[str, set[str]] = {}
    for name, selector in re.findall(r"\b([a-z_][a-z0-9_]*)\b(?:\{([^}]*)\})?(?!\s*\()", _without_strings(query)):
        if name.startswith(OURS):
            found.setdefault(name, set()).update(re.findall(r"(\w+)\s*[!=]", selector or ""))
    return found


def _without_strings(query: str) -> str:
    return re.sub(r'"[^"]*"', '""', query)


def groupings(query: str) -> set[str]:
    lists = re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", query)
    return {label.strip() for one in lists for label in one.split(",")}


async def test_every_query_names_metrics_and_labels_that_are_exported(exported: Exported) -> None:
    asked = list(queries())
    assert len(asked) > 50
    for where, query in asked:
        metrics = metrics_of(query)
        assert metrics, f"{where} asks for nothing of ours: {query}"
        for name, labels in metrics.items():
            assert name in exported, f"{where}: {name} is not exported"
            assert labels <= exported[name] | GRAFANA, f"{where}: {name} has no {labels - exported[name]}"
        there = set.union(*(exported[name] for name in metrics))
        assert groupings(query) <= there | GRAFANA, f"{where} groups by {groupings(query) - there}"


def test_states_that_are_asked_for_exist() -> None:
    states = {
        state
        for _, query in queries()
        for values in re.findall(r'state[!=~]+"([^"]*)"', query)
        for state in values.split("|")
    }
    assert states
    assert states <= set(get_args(get_type_hints(InformerHealth)["state"]))


def test_every_alert_says_what_to_do_with_labels_that_its_result_has(exported: Exported) -> None:
    assert len({rule["alert"] for rule in RULES}) == len(RULES)
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "ticket")
        text = " ".join(rule["annotations"].values())
        used = set(re.findall(r"\$labels\.(\w+)", text))
        assert used, f"{rule['alert']} does not say of what"
        grouped = groupings(rule["expr"]) if re.match(r"\w+ by", rule["expr"]) else set()
        there = grouped or set.union(*(exported[name] for name in metrics_of(rule["expr"]))) | GRAFANA
        assert used <= there, f"{rule['alert']} speaks of {used - there}"


def test_the_page_is_what_its_program_writes() -> None:
    assert runpy.run_path(str(FOLDER / "make_dashboard.py"))["dashboard"]() == DASHBOARD


def test_panels_do_not_overlap_and_each_has_an_id() -> None:
    panels: list[dict[str, Any]] = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


@pytest.mark.parametrize("query", ["sum(kinformer_nothing_total)", 'kinformer_live{colour="red"}'])
async def test_a_wrong_query_would_be_seen(query: str, exported: Exported) -> None:
    (name, labels), *_ = metrics_of(query).items()
    assert name not in exported or not labels <= exported[name]


@pytest.mark.parametrize(
    ("title", "mine"),
    [
        ("Informers", "kinformer_"),
        ("Derived collections", OF_DERIVED),
        ("Fleets", OF_FLEETS),
        ("Queues", "workqueue_"),
        ("Controllers", OF_CONTROLLERS),
        ("Leaders", OF_LEADERS),
    ],
)
def test_the_documentation_names_every_metric_with_its_labels_and_no_other(
    exported: Exported, title: str, mine: str | tuple[str, ...]
) -> None:
    table = (FOLDER.parent.parent / "docs" / "metrics.md").read_text().split(f"## {title}\n")[1].split("\n## ")[0]
    rows = dict(re.findall(r"^- `(\w+)`(.*?): ", table, re.MULTILINE))
    others = (OF_DERIVED, OF_FLEETS, *OF_CONTROLLERS, *OF_LEADERS) if title == "Informers" else ()
    names = {name for name in exported if name.startswith(mine) and not name.startswith(others)}
    assert set(rows) == {re.sub(r"_(bucket|sum|count|created)$", "", name) for name in names}
    given = {"Informers": {"resource"}, "Derived collections": {"resource"}, "Fleets": {"fleet"}}.get(title, set())
    for name, labels in rows.items():
        series = exported[name] if name in exported else exported[f"{name}_count"]
        assert set(re.findall(r"`(\w+)`", labels)) == series - given, name
