"""A server that is left running for a day: suites write, watch and leave, and its memory stays bounded.

    python -m tests.apiserver.server_day               # as many suites as a day has, in an hour or two
    python -m tests.apiserver.server_day --suites 60   # a few minutes

The server is `kinformer serve --living`, in a process of its own. Each suite has a namespace, a definition, objects
with a few versions each, a Deployment that rolls out, and informers. It exits with 1 if the server's resident memory
exceeds the limit. It needs Linux.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from kinformer import Client, SharedInformerFactory
from kinformer.conditions import is_deployment_rolled_out
from tests.support.kube import config_map, pod, widget, widget_definition
from tests.support.line_process import LineProcess
from tests.support.waiting import until

LIMIT = 150  # MB
SUITES = 2400  # with a suite every 36 s
_MAPS, _WIDGETS, _PODS, _VERSIONS = 30, 20, 10, 10
_DATA = {f"key-{number}": "value " * 32 for number in range(8)}  # 1.6 KB
_MAP, _WIDGET, _POD, _DEPLOYMENT = "v1/configmaps", "example.com/v1/widgets", "v1/pods", "apps/v1/deployments"
_DEFINITION = "apiextensions.k8s.io/v1/customresourcedefinitions"


async def run_suite(client: Client, number: int) -> None:
    """Write and watch as a user's suite does, and remove everything."""
    space = f"suite-{number}"
    await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}})
    await client.apply(widget_definition(), field_manager="suite")
    async with SharedInformerFactory(client, namespace=space) as factory:
        informers = [factory.for_resource(resource) for resource in (_MAP, _WIDGET, _POD)]
        await factory.wait_for_cache_sync(timeout=60)
        await asyncio.gather(
            _write(client, [config_map(f"map-{at}", namespace=space, data=_DATA) for at in range(_MAPS)], _MAP),
            _write(client, [widget(f"widget-{at}", namespace=space, data=_DATA) for at in range(_WIDGETS)], _WIDGET),
            _write(client, [pod(f"pod-{at}", namespace=space, phase=None) for at in range(_PODS)], _POD),
            _roll_out(client, space),
        )
        assert [len(informer.lister) for informer in informers[:2]] == [_MAPS, _WIDGETS]
    await client.delete("v1/namespaces", space)
    if number % 10 == 9:
        await client.delete(_DEFINITION, "widgets.example.com")


async def _write(client: Client, documents: Sequence[dict], resource: str) -> None:
    for document in documents:
        made = await client.create(document)
        for version in range(_VERSIONS):
            await client.patch(resource, made.key, {"metadata": {"annotations": {"example.com/version": str(version)}}})


async def _roll_out(client: Client, space: str) -> None:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}}
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": space}}
    made = await client.create({**document, "spec": spec})
    await client.wait_for(_DEPLOYMENT, made.key, is_deployment_rolled_out, timeout=60)


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[str, int]]:
    """Run the server, and give its URL and the id of its process."""
    server = await LineProcess.start(
        "server", sys.executable, "-m", "kinformer.cli", "serve", "--living", "--port", "0"
    )
    try:
        await until(lambda: any(line[:1] == ["Living:"] for line in server.lines), seconds=60)
        yield server.lines[0][1], server.process.pid
    finally:
        server.process.terminate()
        await server.process.wait()


def resident(process: int) -> float:
    """Return the resident memory of a process, in MB."""
    [kibibytes] = re.findall(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(encoding="ascii"))
    return int(kibibytes) / 1000


async def live(suites: int, limit: float) -> bool:
    """Run suites, print the memory now and then, and return True if it stayed below the limit."""
    most = 0.0
    began = time.monotonic()
    async with serving() as (url, process), Client.from_url(url) as client:
        for number in range(suites):
            await run_suite(client, number)
            most = max(most, resident(process))
            if number % max(1, suites // 24) == 0 or number == suites - 1:
                version = await _version(client)
                print(
                    f"suite {number + 1:5}  {resident(process):6.1f} MB  version {version}"
                    f"  {time.monotonic() - began:6.0f} s",
                    flush=True,
                )
    print(f"at most {most:.1f} MB of {limit:g}", flush=True)
    return most <= limit


async def _version(client: Client) -> str:
    """Return the newest version of the server: the number of its writes."""
    answer = await client.request("GET", "/api/v1/namespaces/default/configmaps")
    return str(answer["metadata"]["resourceVersion"])


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suites", type=int, default=SUITES)
    parser.add_argument("--limit", type=float, default=LIMIT, help="MB")
    options = parser.parse_args()
    sys.exit(0 if asyncio.run(live(options.suites, options.limit)) else 1)


if __name__ == "__main__":
    main()
