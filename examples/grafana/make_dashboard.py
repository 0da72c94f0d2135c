"""Writes dashboard.json, for Grafana (Dashboards, Import): informers, and what they feed: queues, controllers, leaders.

python examples/grafana/make_dashboard.py
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Panel = dict[str, Any]

DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}

OF_NO_RESOURCE = ("kinformer_controller_", "kinformer_leader_election_")

Target = tuple[str, str]  # query, legend
Chart = tuple[str, str, list[Target]]  # title, unit, targets


def of(metric: str, **more: str) -> str:
    """A metric of what is chosen at the top of the page."""
    chosen = ['instance=~"$instance"']
    if metric.startswith("kinformer_") and not metric.startswith(OF_NO_RESOURCE):
        chosen.append('resource=~"$resource"')
    chosen += [f'{label}!="{value}"' for label, value in more.items()]
    return f"{metric}{{{','.join(chosen)}}}"


def now(metric: str, by: str = "resource", how: str = "max") -> Target:
    """Its value."""
    return f"{how} by ({by}) ({of(metric)})", _legend(by)


def per_second(metric: str, by: str = "resource", word: str = "") -> Target:
    """Its rate."""
    return f"sum by ({by}) (rate({of(metric)}[$__rate_interval]))", f"{_legend(by)} {word}".strip()


def more(metric: str, by: str = "resource", word: str = "") -> Target:
    """By how much it has risen."""
    return f"sum by ({by}) (increase({of(metric)}[$__rate_interval]))", f"{_legend(by)} {word}".strip()


def slowest(histogram: str, by: str, word: str = "") -> Target:
    """What 99 of 100 stay below."""
    rates = f"sum by (le, {by}) (rate({of(histogram + '_bucket')}[$__rate_interval]))"
    return f"histogram_quantile(0.99, {rates})", f"{_legend(by)} {word}".strip()


def _legend(by: str) -> str:
    return " ".join("{{" + label.strip() + "}}" for label in by.split(","))


ROWS: dict[str, list[Chart]] = {
    "Does it follow the server?": [
        ("Live", "bool", [now("kinformer_live", how="min")]),
        ("Age of the last event", "s", [now("kinformer_last_event_age_seconds")]),
        (
            "State, where it is not watching",
            "short",
            [(f"max by (resource, state) ({of('kinformer_state', state='watching')}) > 0", "{{resource}} {{state}}")],
        ),
        ("Since the last proof that it is current", "s", [now("kinformer_staleness_seconds")]),
        ("Failures", "ops", [per_second("kinformer_failures_total", "resource, cause")]),
        ("Full lists after the first", "short", [more("kinformer_relists_total", "resource, cause")]),
        ("Watches that ended", "short", [more("kinformer_watch_restarts_total", "resource, cause")]),
    ],
    "What is in the caches": [
        ("Objects", "short", [now("kinformer_objects", how="sum")]),
        ("Memory of the objects", "bytes", [now("kinformer_cache_bytes", how="sum")]),
        ("Changes", "ops", [per_second("kinformer_events_total", "resource, type")]),
        ("Received", "Bps", [per_second("kinformer_received_bytes_total")]),
        ("Received and not in the cache yet", "short", [now("kinformer_queue_depth")]),
        (
            "Objects left out",
            "short",
            [
                more("kinformer_decode_errors_total", word="cannot be read"),
                more("kinformer_transform_errors_total", word="transform"),
                more("kinformer_index_errors_total", word="index"),
            ],
        ),
        ("Snapshots", "short", [more("kinformer_snapshots_total", "resource, outcome")]),
    ],
    "Handlers": [
        ("Calls that wait", "short", [now("kinformer_handler_pending", "resource, handler")]),
        ("Duration, 99 of 100", "s", [slowest("kinformer_handler_duration_seconds", "resource, handler")]),
        (
            "Errors, and folded calls",
            "ops",
            [
                per_second("kinformer_handler_errors_total", word="errors"),
                per_second("kinformer_coalesced_total", word="folded"),
            ],
        ),
    ],
    "Work queues": [
        ("Keys that wait", "short", [now("workqueue_depth", "name")]),
        (
            "Adds and retries",
            "ops",
            [
                per_second("workqueue_adds_total", "name", "adds"),
                per_second("workqueue_retries_total", "name", "retries"),
            ],
        ),
        (
            "Waiting and working, 99 of 100",
            "s",
            [
                slowest("workqueue_queue_duration_seconds", "name", "waits"),
                slowest("workqueue_work_duration_seconds", "name", "works"),
            ],
        ),
        ("Longest running", "s", [now("workqueue_longest_running_processor_seconds", "name")]),
    ],
    "Controllers": [
        ("Reconciles", "ops", [per_second("controller_runtime_reconcile_total", "controller, result")]),
        (
            "Errors",
            "short",
            [
                more("controller_runtime_reconcile_errors_total", "controller", "raised"),
                more("controller_runtime_terminal_reconcile_errors_total", "controller", "for good"),
                more("controller_runtime_reconcile_timeouts_total", "controller", "timeouts"),
            ],
        ),
        ("Duration, 99 of 100", "s", [slowest("controller_runtime_reconcile_time_seconds", "controller")]),
        (
            "Workers",
            "short",
            [
                now("controller_runtime_active_workers", "controller", "sum"),
                now("controller_runtime_max_concurrent_reconciles", "controller", "sum"),
            ],
        ),
        (
            "Own writes that were waited for",
            "short",
            [
                more("kinformer_controller_own_write_waits_total", "controller", "waits"),
                more("kinformer_controller_own_write_timeouts_total", "controller", "in vain"),
                more("kinformer_controller_stale_waits_total", "controller", "for a current cache"),
            ],
        ),
        ("Events that no mapper took", "short", [more("kinformer_controller_source_errors_total", "controller")]),
    ],
    "Leader election": [
        ("Who leads", "short", [now("leader_election_master_status", "name, instance")]),
        (
            "Leads that were lost, and renewals that failed",
            "short",
            [
                more("kinformer_leader_election_lost_total", "name", "lost"),
                more("leader_election_slowpath_total", "name", "failed"),
            ],
        ),
        ("Renewals, 99 of 100", "s", [slowest("kinformer_leader_election_renewal_seconds", "name")]),
    ],
}


def dashboard() -> dict[str, Any]:
    """The whole of it."""
    panels: list[Panel] = []
    top = 0
    for title, row in ROWS.items():
        place = _place(0, top, 24, 1)
        panels.append({"type": "row", "title": title, "id": len(panels) + 1, "gridPos": place, "panels": []})
        top += 1
        for number, chart in enumerate(row):
            panels.append(_panel(chart, len(panels) + 1, _place(number % 3 * 8, top + number // 3 * 8, 8, 8)))
        top += (len(row) + 2) // 3 * 8
    return {
        "uid": "kinformer",
        "title": "kinformer",
        "tags": ["kubernetes", "kinformer"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), _variable("instance"), _variable("resource")]},
        "panels": panels,
    }


def _place(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(chart: Chart, number: int, place: dict[str, int]) -> Panel:
    title, unit, targets = chart
    panel: Panel = {
        "id": number,
        "type": "stat" if unit == "bool" else "timeseries",
        "title": title,
        "gridPos": place,
        "datasource": DATASOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": letter, "expr": query, "legendFormat": legend, "datasource": DATASOURCE}
            for letter, (query, legend) in zip("ABC", targets, strict=False)
        ],
    }
    if unit == "bool":
        texts = {"0": {"text": "not live", "color": "red"}, "1": {"text": "live", "color": "green"}}
        panel["fieldConfig"]["defaults"]["mappings"] = [{"type": "value", "options": texts}]
        panel["options"] = {"colorMode": "background", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
    return panel


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}


def _variable(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": f"label_values(kinformer_objects, {name})", "refId": name},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    }


if __name__ == "__main__":
    target = Path(__file__).with_name("dashboard.json")
    target.write_text(json.dumps(dashboard(), indent=2) + "\n")
    print(f"wrote {target}: {sum(panel['type'] != 'row' for panel in dashboard()['panels'])} panels")
