"""A first list over a network that is slower than the loopback, compressed and as it is.

    sudo python -m benchmarks.studies.compression       # by hand: it makes a network namespace, which needs root

The server is at the other end of a `shaped_link`. It sends bytes rendered and gzipped beforehand, at the level of a
kube-apiserver (1), so that its own CPU is not in the times: a real one takes some 50 us to gzip a pod. A list is one
gzip member; an initial stream has one with each event, as Kubernetes 1.37 ends one with each flush (older servers do
not compress it at all). TLS as always. Namespace, link and server are gone afterwards, whatever happens.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.data import FIRST_VERSION, KINDS
from benchmarks.harness import RESULTS, Figure, median, run
from benchmarks.server import self_signed
from benchmarks.studies.shaped_link import DEVICE, THEIRS, network_namespace, running, shaped_link
from kinformer import Client, SharedInformerFactory

PODS = 20_000
ROUNDS = 3
LINKS = {"100 Mbit/s, 20 ms": (100, 20), "1 Gbit/s, 1 ms": (1000, 1)}  # megabits, milliseconds of a round trip
WAYS = ("list", "watch_list")
PORT = 8443
GZIP_LEVEL = 1
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"


# --- the other end ------------------------------------------------------------------------------------------------


def _chunks(body: bytes, size: int = 256 * 1024) -> bytes:
    pieces = (body[start : start + size] for start in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)


class Answers:
    """Both collections in both codings, as bytes on the wire; `watch_list` lacks its end, for it stays open."""

    def __init__(self, pods: int) -> None:
        kind = KINDS["pods"]
        items = [kind.item(index) for index in range(pods)]
        meta = b'{"resourceVersion":"%d"}' % (FIRST_VERSION + pods)
        listed = b'{"kind":"PodList","apiVersion":"v1","metadata":%b,"items":[%b]}\n' % (meta, b",".join(items))
        end = meta[:-1] + b',"annotations":{"k8s.io/initial-events-end":"true"}}'
        events = [b'{"type":"ADDED","object":{%b,%b}\n' % (kind.head, item[1:]) for item in items]
        events.append(b'{"type":"BOOKMARK","object":{%b,"metadata":%b}}\n' % (kind.head, end))
        self._answers = {
            ("list", "identity"): _chunks(listed) + b"0\r\n\r\n",
            ("list", "gzip"): _chunks(gzip.compress(listed, GZIP_LEVEL)) + b"0\r\n\r\n",
            ("watch_list", "identity"): b"".join(_chunks(event) for event in events),
            ("watch_list", "gzip"): b"".join(_chunks(gzip.compress(event, GZIP_LEVEL)) for event in events),
        }

    def of(self, way: str, coding: str) -> bytes:
        """Head and body."""
        encoding = b"Content-Encoding: gzip\r\n" if coding == "gzip" else b""
        return _HEAD + encoding + b"\r\n" + self._answers[way, coding]


def serve(pods: int) -> None:
    """Answers until its standard input ends."""
    answers = Answers(pods)
    context = self_signed()
    listener = socket.create_server(("0.0.0.0", PORT))  # in a network namespace of its own

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    def answer(connection: socket.socket) -> None:
        with (
            suppress(OSError),
            context.wrap_socket(connection, server_side=True) as secure,
            secure.makefile("rb") as lines,
        ):
            while request := lines.readline():
                headers = dict(_header(line) for line in iter(lines.readline, b"\r\n"))
                coding = "gzip" if "gzip" in headers.get("accept-encoding", "") else "identity"
                if b" /api/v1/pods" not in request:
                    secure.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                elif b"sendInitialEvents=true" in request:
                    secure.sendall(answers.of("watch_list", coding))
                elif b"watch=" in request:
                    secure.sendall(_HEAD + b"\r\n")
                else:
                    secure.sendall(answers.of("list", coding))

    threading.Thread(target=accept, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()


def _header(line: bytes) -> tuple[str, str]:
    name, _, value = line.decode().partition(":")
    return name.strip().lower(), value.strip()


# --- this end -----------------------------------------------------------------------------------------------------


async def sync(way: str, compression: Any, pods: int) -> None:
    """One informer from nothing to its synced cache; prints a line of JSON."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    async with Client.from_url(f"https://{THEIRS}:{PORT}", ssl=context, compression=compression) as client:
        began, cpu, received = time.perf_counter(), time.process_time(), _received()
        async with SharedInformerFactory(client, watch_list=way == "watch_list") as factory:
            informer = factory.for_resource("v1/pods")
            await factory.wait_for_cache_sync(timeout=300)
            took, spent = time.perf_counter() - began, time.process_time() - cpu
            assert len(informer.lister) == pods
    print(json.dumps({"seconds": took, "us": spent / pods * 1e6, "bytes": (_received() - received) / pods}))


def _received() -> int:
    return int(Path(f"/sys/class/net/{DEVICE}/statistics/rx_bytes").read_text())


@contextmanager
def server(name: str, pods: int) -> Iterator[None]:
    """The server process, in the namespace."""
    command = [
        "ip",
        "netns",
        "exec",
        name,
        sys.executable,
        "-m",
        "benchmarks.studies.compression",
        "--serve",
        "--pods",
        str(pods),
    ]
    with running(command, "the server did not start"):
        yield


def _measured(way: str, compression: str, pods: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.studies.compression", "--sync", way]
    command += ["--compression", compression, "--pods", str(pods)]
    done = subprocess.run(command, cwd=RESULTS.parent.parent, check=True, stdout=subprocess.PIPE, text=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def figures(pods: int, rounds: int) -> list[Figure]:
    """Seconds to the synced cache, and CPU of a pod, for each link, way and coding."""
    results = []
    with network_namespace(f"kinformer-{os.getpid()}") as namespace, server(namespace, pods):
        for link, (megabits, milliseconds) in LINKS.items():
            taken: dict[tuple[str, str], list[dict[str, float]]] = {}
            with shaped_link(namespace, megabits, milliseconds):
                for number in range(rounds):
                    print(f"  {link}: round {number + 1} of {rounds}", file=sys.stderr, flush=True)
                    for way, compression in product(WAYS, ("none", "gzip")):
                        taken.setdefault((way, compression), []).append(_measured(way, compression, pods))
            for (way, compression), ones in taken.items():
                us, size = (statistics.median(one[field] for one in ones) for field in ("us", "bytes"))
                text = f"{us:.0f} us of CPU and {size:.0f} bytes a pod"
                seconds = [one["seconds"] for one in ones]
                details = {"us": [one["us"] for one in ones], "bytes": [one["bytes"] for one in ones]}
                name = f"{link}: {way}, {compression}"
                results.append(median(name, seconds, "s to the synced cache", reference=text, details=details))
    return results


def lacks() -> str:
    """The reason why no namespace can be made here; "" if one can."""
    if shutil.which("ip") is None or not Path("/dev/net/tun").exists():
        return "that takes Linux's ip command and /dev/net/tun"
    return "" if os.geteuid() == 0 else "making a network namespace takes root"


def main() -> int:
    parser = argparse.ArgumentParser(description="A first list over a shaped link, compressed and as it is")
    parser.add_argument("--pods", type=int, default=PODS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--sync", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--compression", default="none", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.pods)
        return 0
    if options.sync:
        asyncio.run(sync(options.sync, options.compression, options.pods))
        return 0
    if why := lacks():
        print(f"compression: not measured, for {why}")
        return 0

    async def measure() -> list[Figure]:
        return figures(options.pods, options.rounds)

    return run("compression", measure)


if __name__ == "__main__":
    sys.exit(main())
