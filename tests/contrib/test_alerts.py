"""The alert rules on recorded metrics of an outage: Prometheus itself evaluates them."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections import defaultdict
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry

from kinformer import Client, SharedInformerFactory
from kinformer.contrib.prometheus import PrometheusMetrics
from kinformer.manager import readiness
from kinformer.testing import APIServer
from tests.support.kube import config_map

RULES = Path(__file__).parents[2] / "examples" / "grafana" / "alerts.yaml"
SCRAPE = 15  # seconds
OUTAGE = range(10 * 60, 20 * 60, SCRAPE)  # seconds from the start of the recording
END = 40 * 60

Recorded = dict[str, list[str]]

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool (of Prometheus) is not installed"
)


async def record(server: APIServer, client: Client) -> Recorded:
    """Scrape a program for 40 minutes, ten of which its server does not answer."""
    registry = CollectorRegistry()
    recorded: Recorded = defaultdict(list)
    async with SharedInformerFactory(client, metrics=PrometheusMetrics(registry)) as factory:
        factory.for_resource("v1/configmaps")
        await factory.wait_for_cache_sync(timeout=10)
        readiness(factory, max_staleness=30)
        await asyncio.sleep(5)
        for number, now in enumerate(range(0, END, SCRAPE)):
            if now == OUTAGE.start:
                server.pause()
            elif now == OUTAGE.stop:
                server.resume()
            if now not in OUTAGE and number % 4 == 0:
                server.create(config_map(f"c{now}"))
            for family in registry.collect():
                for sample in family.samples:
                    labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
                    series = recorded[f'{sample.name}{{{labels},instance="a"}}'.replace("{,", "{")]
                    series += ["_"] * (number - len(series)) + [f"{sample.value:g}"]
            await asyncio.sleep(SCRAPE)
    return recorded


def firing_at(folder: Path, recorded: Recorded, *seconds: int) -> list[set[str]]:
    """Return the alerts that fire at some times, by promtool."""
    found: list[set[str]] = []
    for now in seconds:
        test = {
            "rule_files": [str(RULES)],
            "evaluation_interval": f"{SCRAPE}s",
            "tests": [
                {
                    "interval": f"{SCRAPE}s",
                    "input_series": [{"series": name, "values": " ".join(of)} for name, of in recorded.items()],
                    "promql_expr_test": [
                        {"expr": 'count by (alertname) (ALERTS{alertstate="firing"})', "eval_time": f"{now}s"}
                    ],
                }
            ],
        }
        path = folder / f"at-{now}.yaml"
        path.write_text(yaml.safe_dump(test))
        run = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            found.append(set())  # as was expected: nothing
            continue
        assert "got:" in run.stderr + run.stdout, run.stderr + run.stdout
        words = (run.stderr + run.stdout).split("got:", 1)[1].replace(",", " ").split()
        found.append(
            {json.loads(word.split("=", 1)[1].rstrip("}")) for word in words if word.startswith("{alertname=")}
        )
    return found


@pytest.mark.virtual_time
@pytest.mark.tools
@pytest.mark.process
@needs_promtool
async def test_an_outage_raises_the_alerts_that_say_so_and_no_other_and_they_end(
    server: APIServer, client: Client, tmp_path: Path
) -> None:
    recorded = await record(server, client)
    minutes = [9, 11, 18, 23, 39]
    before, early, during, after, late = firing_at(tmp_path, recorded, *(minute * 60 for minute in minutes))
    assert before == set()
    assert early == set(), "a restart of an API server takes a minute"
    assert during == {"KinformerNotLive", "KinformerStale"}
    assert after == late == set()
