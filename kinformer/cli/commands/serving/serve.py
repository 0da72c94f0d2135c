"""`kinformer serve`: the embedded API server, for kubectl, curl and tests."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from kinformer.cli.commands.serving.access import Access, read_access
from kinformer.cli.commands.serving.population import Population
from kinformer.cli.living.cluster import LivingCluster
from kinformer.cli.output.amounts import count
from kinformer.cli.usage import UsageError
from kinformer.client import APIResource, discover
from kinformer.objects.units import human_duration
from kinformer.testing import APIServer

__all__ = ["serve"]


async def serve(
    *,
    host: str,
    port: int,
    names: Sequence[str] = (),
    objects: Sequence[str],
    churn: float,
    living: bool = False,
    runtime: float | None = None,
    tls: bool = False,
    rbac: Path | None = None,
    kubeconfig: Path | None = None,
    duration: float | None,
) -> int:
    """Serve until cancelled.

    Prints to stdout its URL and how to connect, then the counts of generated objects, and a summary at the end.

    Args:
        host, port: The address to listen on. Port 0 selects a free port.
        names: Accepted host names, in addition to `host`, IP addresses and `localhost`.
        objects: Strings such as "pods=1000".
        churn: Changes per second to the generated objects.
        living: True serves a cluster whose controllers run, and in which Deployments are scaled and Jobs started.
        runtime: Seconds after which pods end in such a cluster whose `restartPolicy` is not `Always`. None ends only
            those of Jobs.
        tls: True serves https.
        rbac: A file of roles and bindings that limit users, or None to allow everything. With it, the server
            speaks https, because kubectl sends no token otherwise.
        kubeconfig: A file to write a kubeconfig to, before anything is printed. None uses a temporary folder, which is
            removed at the end.
        duration: Seconds after which to end, or None to run forever.

    Raises:
        UsageError: An item of `objects` is malformed, or names a kind that cannot be generated.
        ConfigError: The server has no such resource, a name is invalid, or the file of roles is wrong.
        OSError: The port is in use, or the kubeconfig cannot be written.
    """
    requested = [_parse(argument) for argument in objects]
    if churn and not requested:
        raise UsageError("--churn requires --objects, whose objects it changes")
    if runtime is not None and not living:
        raise UsageError("--runtime requires --living, whose pods it ends")
    access = None if rbac is None else read_access(rbac)
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(_listening(host, port, names, tls=tls, access=access))
        if access is not None:
            await access.create(server)
        filling: Counter[APIResource] = Counter()
        if requested:
            async with server.client() as client:
                resources = await discover(client)
            for name, number in requested:
                filling[resources.find(name)] += number
        path = kubeconfig
        if path is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kinformer-serve-"))
            path = Path(folder) / "kubeconfig"
        server.kubeconfig(path)
        if access is not None:
            access.add_groups(server, path)
        began = time.monotonic()
        try:
            print(f"Serving {server.url}\n\n  export KUBECONFIG={shlex.quote(str(path.absolute()))}")
            print("  kubectl get namespaces\n  kinformer watch pods -A\n", flush=True)
            if access is not None:
                print(f"{access.summary}\n", flush=True)
            limit = asyncio.timeout(duration)
            try:
                async with limit:
                    cluster = LivingCluster(server, runtime=runtime) if living else None
                    if cluster is not None:
                        cluster.add_dns()
                        line = f"Living: {cluster.populate()}. Controllers run your Deployments and Jobs too."
                        print(line, flush=True)
                    population = Population(server, has_controllers=living)
                    async for line in population.add(filling):
                        print(line, flush=True)
                    async with asyncio.TaskGroup() as group:
                        group.create_task(asyncio.Event().wait() if cluster is None else cluster.run())
                        if churn:
                            group.create_task(population.churn(churn))
            except TimeoutError:
                if not limit.expired():
                    raise
        finally:
            kept = f"; {path} is no longer valid" if kubeconfig is not None else ""
            requests = count(len(server.requests) + server.requests.dropped, "request")
            print(
                f"Ended after {human_duration(time.monotonic() - began)} and {requests}. Its objects are gone{kept}.",
                flush=True,
            )
    return 0


@asynccontextmanager
async def _listening(
    host: str, port: int, names: Sequence[str], *, tls: bool, access: Access | None
) -> AsyncIterator[APIServer]:
    """Run a server. Errors name an address that is not available."""
    server = APIServer(
        host=host,
        port=port,
        allowed_hosts=names,
        tls=tls or access is not None,
        users=None if access is None else access.users,
        rbac=access is not None,
        bootstrap=True,
    )
    try:
        await server.__aenter__()
    except OSError as error:
        if error.errno is None:
            raise
        reason = os.strerror(error.errno)  # asyncio adds the address to its message
        message = (
            f"cannot listen on {host}:{port}: {reason[:1].lower()}{reason[1:]}; choose another with --port or --host"
        )
        raise OSError(error.errno, message) from None
    try:
        yield server
    finally:
        await server.__aexit__(None, None, None)


def _parse(text: str) -> tuple[str, int]:
    name, _, number = text.partition("=")
    if not (name and number.isascii() and number.isdecimal()):
        raise UsageError(f"invalid --objects {text!r}: expected RESOURCE=COUNT, as in pods=1000")
    return name, int(number)
