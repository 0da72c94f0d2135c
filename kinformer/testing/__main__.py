"""`python -m kinformer.testing --port 8001 --objects pods=1000 --churn 50`: the embedded API server, from the shell."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sys
import time
from collections.abc import Sequence

from kinformer.testing.server import APIServer

CHURN_SLICE = 0.05  # seconds between two bursts of changes


def _parse_objects(text: str) -> tuple[str, int]:
    name, _, count = text.partition("=")
    if name not in ("pods", "configmaps") or not count.isdigit():
        raise argparse.ArgumentTypeError(f"invalid {text!r}: expected pods=N or configmaps=N")
    return name, int(count)


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m kinformer.testing", description="An embedded Kubernetes API server."
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8001, help="the port to listen on; 0 selects a free one (8001)")
    parser.add_argument(
        "--allowed-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name that requests may use, besides IP addresses and localhost; repeatable",
    )
    parser.add_argument(
        "--objects",
        type=_parse_objects,
        action="append",
        default=[],
        metavar="pods=N",
        help="generated objects; repeatable",
    )
    parser.add_argument(
        "--churn", type=float, default=0.0, metavar="RATE", help="changes per second to the generated objects"
    )
    return parser.parse_args(argv)


def _progress(text: str, *, end: str = "\n") -> None:
    start = "\r" if sys.stderr.isatty() else ""
    if end or sys.stderr.isatty():
        sys.stderr.write(f"{start}{text}{end}")
        sys.stderr.flush()


async def _fill(server: APIServer, kind: str, count: int) -> None:
    started = time.perf_counter()
    for done in server.generate(f"v1/{kind}", count):
        _progress(f"{kind}: {done} of {count}", end="")
        await asyncio.sleep(0)
    _progress(f"{kind}: {count} in {time.perf_counter() - started:.1f} s")


async def churn(server: APIServer, resource: str, rate: float) -> None:
    """Change random objects of a resource `rate` times per second until cancelled."""
    keys = [(one["metadata"]["namespace"], one["metadata"]["name"]) for one in server.list(resource)]
    loop, owed, last = asyncio.get_running_loop(), 0.0, asyncio.get_running_loop().time()
    number = 0
    while keys:
        await asyncio.sleep(CHURN_SLICE)
        now = loop.time()
        owed, last = owed + rate * (now - last), now
        while owed >= 1:
            owed -= 1
            number += 1
            obj = server.get(resource, *random.choice(keys))
            if obj is not None:
                obj["metadata"].setdefault("annotations", {})["kinformer.dev/churn"] = str(number)
                server.update(obj)


async def serve(options: argparse.Namespace) -> None:
    """Serve until cancelled."""
    api_server = APIServer(host=options.host, port=options.port, allowed_hosts=options.allowed_host)
    async with api_server as server, contextlib.AsyncExitStack() as stack:
        for kind, count in options.objects:
            await _fill(server, kind, count)
        if options.churn > 0 and options.objects:
            task = asyncio.create_task(churn(server, f"v1/{options.objects[0][0]}", options.churn))
            stack.push_async_callback(_end, task)
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await asyncio.get_running_loop().create_future()


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server. Return 0 after Ctrl-C, or 1 if the port is in use."""
    options = _arguments(argv)
    try:
        asyncio.run(serve(options))
    except KeyboardInterrupt:
        return 0
    except OSError as error:
        sys.stderr.write(f"kinformer.testing: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
