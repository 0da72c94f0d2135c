"""Requests at a fixed rate, from a process of its own, and when each was asked.

    python -m benchmarks.requester --url http://127.0.0.1:8000/ping --rate 200

Each line on its input begins or ends a stretch of requests; at the end of one it prints when each of them was asked, by
`time.perf_counter`, as JSON. The number of a request in its stretch is in its query (`?n=0`). A request is due whether
or not those before it have been answered: a client that waits for answers asks rarely when the server is slow. Within
its slot each comes at a random time, so that no rhythm of the other's is hit again and again.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import socket
import sys
import time
from collections import deque
from urllib.parse import urlsplit

CONNECTIONS = 32  # with so many one is free, up to 160 ms of silence at 200 a second; beyond that requests wait here
END = b"\r\n\r\n"


class Connection:
    """One kept connection with at most one request on its way."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answer = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def receive(self) -> bool:
        """Read the bytes that have come; True if the answer is whole."""
        received = self._socket.recv(65536)
        self._answer += received
        if not received or not self._answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(f"no answer but {self._answer!r}")
        head, end, body = self._answer.partition(END)
        if not end or len(body) < int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]):
            return False
        self._answer = b""
        return True


class Requester:
    """Requests to one URL.

    Args:
        url: The URL to ask for.
        rate: Requests a second.
    """

    def __init__(self, url: str, rate: float) -> None:
        parts = urlsplit(url)
        self._request = f"GET {parts.path}?n=%d HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode()
        self._slot = 1 / rate
        self._free = deque(Connection(parts.hostname or "", parts.port or 80) for _ in range(CONNECTIONS))
        self._busy: set[Connection] = set()
        self._chance = random.Random(20261121)

    def stretch(self) -> list[float]:
        """Ask until a line comes in and every request is answered; return when each was due and this process awake."""
        asked: list[float] = []
        sent = 0
        slot = time.perf_counter()
        due: float | None = slot + self._chance.random() * self._slot
        while due is not None or sent < len(asked) or self._busy:
            readers = [*self._busy] if due is None else [sys.stdin, *self._busy]
            wait = 5.0 if due is None else max(0.0, due - time.perf_counter())
            ready, _, _ = select.select(readers, [], [], wait)
            if due is None and not ready:
                raise TimeoutError("requests without an answer after 5 s")
            for connection in (one for one in ready if isinstance(one, Connection) and one.receive()):
                self._busy.remove(connection)
                self._free.append(connection)
            if sys.stdin in ready:
                sys.stdin.readline()
                due = None
            elif due is not None and (now := time.perf_counter()) >= due:
                asked.append(now)
                slot = max(slot + self._slot, now - self._slot)  # no burst where this process was kept from its CPU
                due = slot + self._chance.random() * self._slot
            while sent < len(asked) and self._free:
                connection = self._free.popleft()
                self._busy.add(connection)
                connection.send(self._request % sent)
                sent += 1
        return asked


def main() -> None:
    parser = argparse.ArgumentParser(description="Requests at a fixed rate.")
    parser.add_argument("--url", required=True)
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--core", type=int, help="the CPU to stay on")
    options = parser.parse_args()
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    requester = Requester(options.url, options.rate)
    while sys.stdin.readline():
        print(json.dumps(requester.stretch()), flush=True)


if __name__ == "__main__":
    main()
