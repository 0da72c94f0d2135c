"""Two ways for followers of a `Share` to keep no bytes of their own: what eight workers save, and what a read costs.

    python -m benchmarks.studies.follower_memory [--pods 20000] [--workers 8] [--reads 5000]

Nothing of kinformer works this way; these are sketches of the least that each way needs.

- whole: each worker has all objects, as today.
- asked: a follower has metadata and an index. It asks the holder for the bytes of an object over a unix socket, and
  waits: a read of a lister is a plain call. The holder has an event loop with events to apply, as it has in production.
- mapped: the holder writes the bytes into a file, which followers map. They have metadata, an index, and for each
  object its place in the file.

Memory is the PSS of all workers together, beyond that of as many processes which have imported the same, and the file.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import mmap
import multiprocessing
import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.data import KINDS
from kinformer import Indexer, KubeObject

EVENTS = 200  # a second, which the holder decodes and stores, 20 at a time
_PODS = KINDS["pods"].dropped()
_HEAD = b"{" + _PODS.head + b","


def documents(pods: int) -> Iterator[bytes]:
    for index in range(pods):
        yield _HEAD + _PODS.item(index)[1:]


def metadata_of(raw: bytes) -> bytes:
    """What a follower needs of an object that it has not read: identity, version, labels, owners."""
    document = json.loads(raw)
    kept = {name: document[name] for name in ("apiVersion", "kind", "metadata")}
    return json.dumps(kept, separators=(",", ":")).encode()


def filled(objects: Iterator[bytes]) -> Indexer:
    indexer = Indexer(indexers={"node": "metadata.labels.app"})
    for raw in objects:
        indexer.add(KubeObject.from_json(raw))
    return indexer


def pss() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) * 1024


def percentiles(read: Callable[[str], bytes], keys: list[str], reads: int) -> tuple[float, float]:
    """The median and the 99th percentile of single reads, in microseconds, one every millisecond."""
    chosen, taken = random.Random(1), []
    for _ in range(reads):
        key = chosen.choice(keys)
        began = time.perf_counter()
        assert read(key)
        taken.append((time.perf_counter() - began) * 1e6)
        time.sleep(0.001)
    taken.sort()
    return taken[len(taken) // 2], taken[len(taken) * 99 // 100]


# --- the holder ----------------------------------------------------------------------------------------


async def hold(path: str, pods: int, pipe: Connection) -> None:
    """Answer for the bytes of a key, and apply events meanwhile."""
    indexer = filled(documents(pods))

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            raw = indexer.get_by_key(line.decode().rstrip()).raw  # type: ignore[union-attr]
            writer.write(len(raw).to_bytes(4, "big") + raw)
        writer.close()

    async def events() -> None:
        for number in count():
            indexer.add(KubeObject.from_json(_HEAD + _PODS.item(number % pods, 2_000_000 + number)[1:]))
            if number % 20 == 0:
                await asyncio.sleep(20 / EVENTS)

    server = await asyncio.start_unix_server(answer, path)
    applying = asyncio.create_task(events())
    pipe.send("ready")
    await asyncio.to_thread(pipe.recv)
    applying.cancel()
    server.close()


def holder(path: str, pods: int, pipe: Connection) -> None:
    asyncio.run(hold(path, pods, pipe))


def write_all(path: Path, pods: int) -> None:
    """Write all objects into a file, one after another."""
    with path.open("wb") as file:
        file.writelines(documents(pods))


# --- a worker ------------------------------------------------------------------------------------------


def worker(way: str, path: str, pods: int, reads: int, pipe: Connection) -> None:
    base = pss()
    if way == "whole":
        indexer = filled(documents(pods))

        def read(key: str) -> bytes:
            obj = indexer.get_by_key(key)
            return b"" if obj is None else obj.raw
    elif way == "asked":
        indexer = filled(map(metadata_of, documents(pods)))
        asking = socket.socket(socket.AF_UNIX)
        asking.connect(path)
        answers = asking.makefile("rb")

        def read(key: str) -> bytes:
            asking.sendall(key.encode() + b"\n")
            return answers.read(int.from_bytes(answers.read(4), "big"))
    else:
        indexer = filled(map(metadata_of, documents(pods)))
        places, at = {}, 0
        for raw in documents(pods):
            places[KubeObject.from_json(raw).key] = at << 24 | len(raw)
            at += len(raw)
        with Path(path).open("rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)

        def read(key: str) -> bytes:
            place = places[key]
            return mapped[place >> 24 : (place >> 24) + (place & 0xFFFFFF)]

    pipe.send("ready")
    pipe.recv()
    figures = percentiles(read, sorted(indexer.list_keys()), reads) if reads else (0.0, 0.0)
    pipe.send((pss() - base, figures))
    pipe.recv()


def main(options: argparse.Namespace) -> None:
    whole = 0
    for way in ("whole", "asked", "mapped"):
        with tempfile.TemporaryDirectory() as folder, ExitStack() as processes:
            path = f"{folder}/objects"
            if way == "asked":
                processes.enter_context(running(holder, path, options.pods))
            elif way == "mapped":
                write_all(Path(path), options.pods)
            workers = []
            for number in range(options.workers - (way == "asked")):
                reads = 0 if number else options.reads
                workers.append(processes.enter_context(running(worker, way, path, options.pods, reads)))
            for pipe in workers:
                pipe.send("measure")
            answers = [pipe.recv() for pipe in workers]
            whole = whole or answers[0][0]
            # The holder's cache is that of a whole worker.
            extra = {"whole": 0, "asked": whole, "mapped": Path(path).stat().st_size if way == "mapped" else 0}[way]
            total, (half, late) = sum(size for size, _ in answers) + extra, answers[0][1]
            print(f"{way:<8}{total / 1e6:7.0f} MB, the last worker {answers[-1][0] / 1e6:.0f} MB; ", end="")
            print(f"a read {half:.1f} us, p99 {late:.1f} us", flush=True)


@contextmanager
def running(function: Callable[..., None], *arguments: object) -> Iterator[Connection]:
    """A process that has its objects, and ends afterwards; one after another, as there are two cores."""
    spawn = multiprocessing.get_context("spawn")
    mine, theirs = spawn.Pipe()
    process = spawn.Process(target=function, args=(*arguments, theirs))
    process.start()
    try:
        mine.recv()
        yield mine
    finally:
        mine.send("end")
        process.join()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--reads", type=int, default=5_000)
    main(parser.parse_args())
