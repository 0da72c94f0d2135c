"""The other end of a benchmark: a process that sends bytes rendered beforehand, from blocking sockets.

Its speed (half a gigabyte a second) must not be what is measured, so it is no API server: it knows one
collection, answers LIST and watch of it, and does what the benchmark tells it by `POST /control/...`:

``/control/events?count=N``   the open watch sends the next N events as fast as the socket takes them
``/control/events?count=N&rate=R``   the same, one at a time, R a second
``/control/turns?count=N&rate=R``   the same, each to the next of the open watches
``/control/expire``   the open watch ends with a 410, as after a compaction
``/control/change``   from now on each object of the list has a newer version

Event n is object `touched(n)` at version `first_event + n`, so that both ends know what is sent.

    python -m benchmarks.server --kind pods --objects 100000 --events 20000
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import select
import socket
import ssl
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable
from urllib.parse import parse_qs, urlsplit

from benchmarks.data import FIRST_VERSION, KINDS, Kind, touched

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nAudit-Id: bench\r\n"
_EXPIRED = (
    b'{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",'
    b'"message":"too old resource version: 1 (2)","reason":"Expired","code":410}}\n'
)
_VERSION = b'{"major":"1","minor":"35","gitVersion":"v1.35.0"}'
_NOT_FOUND = b'{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","reason":"NotFound","code":404}'


def _chunk(body: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(body), body)


class ServedCollection:
    """The served data: the list, the initial stream and the events, as bytes on the wire.

    Args:
        kind: The kind of the objects.
        objects: The number of objects in the list.
        events: The number of events that the watch can send.
    """

    def __init__(self, kind: Kind, objects: int, events: int) -> None:
        self.kind = kind
        self.objects = objects
        self.version = FIRST_VERSION + objects
        self.first_event = self.version + 1
        self._items = items = self._list(0)
        self.first_item = items[0]
        # The newest objects, by path and name, for the check of a snapshot.
        self.newest = {self._place(item): item for item in items[-64:]}
        self.events = [
            _chunk(kind.event("MODIFIED", touched(number, objects), self.first_event + number))
            for number in range(events)
        ]

    def _place(self, item: bytes) -> tuple[str, str]:
        metadata = json.loads(item)["metadata"]
        collection, resource = self.kind.path.rsplit("/", 1)
        return f"{collection}/namespaces/{metadata['namespace']}/{resource}", metadata["name"]

    def change(self) -> None:
        """Give each object of the list a newer version."""
        newer = self.version + len(self.events) - FIRST_VERSION
        self._items = self._list(newer)
        self.version = FIRST_VERSION + newer + self.objects

    def _list(self, newer: int) -> list[bytes]:
        return [self.kind.item(index, FIRST_VERSION + newer + index) for index in range(self.objects)]

    def send_list(self, send: Callable[[bytes], None], *, only: bytes | None = None) -> None:
        """The answer to a LIST, of all objects or of one, in chunks of a megabyte."""
        meta = json.dumps({"resourceVersion": str(self.version)}).encode()
        opening = b'{"kind":"%b","apiVersion":"v1","metadata":%b,"items":[' % (self.kind.list_kind.encode(), meta)
        send(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + _chunk(opening))
        items = self._items if only is None else [only]
        for start in range(0, len(items), 128):
            send(_chunk((b"," if start else b"") + b",".join(items[start : start + 128])))
        send(_chunk(b"]}\n") + b"0\r\n\r\n")

    def send_initial_events(self, send: Callable[[bytes], None]) -> None:
        """The initial stream of a WatchList, and the bookmark that ends it."""
        head = b'{"type":"ADDED","object":{%b,' % self.kind.head
        for start in range(0, self.objects, 64):
            send(b"".join(_chunk(head + item[1:] + b"}\n") for item in self._items[start : start + 64]))
        meta = {"resourceVersion": str(self.version), "annotations": {"k8s.io/initial-events-end": "true"}}
        bookmark = b'{"type":"BOOKMARK","object":{%b,"metadata":%b}}\n' % (self.kind.head, json.dumps(meta).encode())
        send(_chunk(bookmark))


class Server:
    """Accepts connections, one thread each, and hands the orders of the control path to the open watch."""

    def __init__(self, collection: ServedCollection, tls: ssl.SSLContext | None = None) -> None:
        self._collection = collection
        self._tls = tls
        self._orders: queue.Queue[tuple[str, int, float]] = queue.Queue()
        self._sent = 0
        self._watches: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self._listener.getsockname()[1]}"

    def serve(self) -> None:
        """For ever."""
        while True:
            connection, _ = self._listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._connection, args=(connection,), daemon=True).start()

    def _connection(self, connection: socket.socket) -> None:
        if self._tls is not None:
            connection = self._tls.wrap_socket(connection, server_side=True)
        with connection, connection.makefile("rb") as lines:
            try:
                while (line := lines.readline()) not in (b"", b"\r\n"):
                    method, target, _ = line.decode().split(" ", 2)
                    length = 0
                    while (header := lines.readline()) not in (b"", b"\r\n"):
                        name, _, value = header.decode().partition(":")
                        if name.lower() == "content-length":
                            length = int(value)
                    lines.read(length)
                    if not self._answer(connection, method, target):
                        return
            except (BrokenPipeError, ConnectionResetError):
                return  # the client has what it wanted

    def _answer(self, connection: socket.socket, method: str, target: str) -> bool:
        """Answer one request; True if the connection may serve another."""
        url = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(url.query).items()}
        send = connection.sendall
        if url.path.startswith("/control/"):
            count, rate = int(query.get("count", 0)), float(query.get("rate", 0))
            if url.path == "/control/change":
                self._collection.change()
                send(_HEAD + b"Content-Length: 2\r\n\r\n{}")
                return True
            if url.path == "/control/turns":
                threading.Thread(target=self._in_turns, args=(count, rate), daemon=True).start()
            else:
                self._orders.put((url.path.removeprefix("/control/"), count, rate))
            send(_HEAD + b"Content-Length: 2\r\n\r\n{}")
            return True
        selector = query.get("fieldSelector", "")
        if selector.startswith("metadata.name=") and "watch" not in query:
            self._collection.send_list(send, only=self._collection.newest[url.path, selector.partition("=")[2]])
            return True
        if url.path.strip("/") == "version":  # some clients begin with it
            send(_HEAD + b"Content-Length: %d\r\n\r\n%b" % (len(_VERSION), _VERSION))
            return True
        if method != "GET" or url.path != self._collection.kind.path:
            send(b"HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n")
            send(b"Content-Length: %d\r\n\r\n%b" % (len(_NOT_FOUND), _NOT_FOUND))
            return True
        if query.get("watch", "").lower() not in ("1", "true"):
            self._collection.send_list(send, only=self._collection.first_item if query.get("limit") == "1" else None)
            return True
        send(_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
        if query.get("sendInitialEvents") == "true":
            self._collection.send_initial_events(send)
        self._watches.append(connection)
        try:
            self._watch(connection)
        finally:
            self._watches.remove(connection)
        return False

    def _in_turns(self, count: int, rate: float) -> None:
        events, watches = self._collection.events, list(self._watches)
        for number in range(self._sent, self._sent + count):
            watches[number % len(watches)].sendall(events[number % len(events)])
            time.sleep(1 / rate)
        self._sent += count

    def _watch(self, connection: socket.socket) -> None:
        events, send = self._collection.events, connection.sendall
        while True:
            try:
                order, count, rate = self._orders.get(timeout=max(0.05, len(self._watches) / 1000))
            except queue.Empty:
                if _is_closed(connection):
                    return
                continue
            if _is_closed(connection):  # this one's client has left: the order is for the next watch
                self._orders.put((order, count, rate))
                return
            if order == "expire":
                send(_chunk(_EXPIRED) + b"0\r\n\r\n")
                return
            batch = [events[number % len(events)] for number in range(self._sent, self._sent + count)]
            self._sent += count
            if rate:
                for number, line in enumerate(batch):
                    if number:
                        time.sleep(1 / rate)
                    send(line)
                continue
            for start in range(0, count, 64):
                send(b"".join(batch[start : start + 64]))


def self_signed() -> ssl.SSLContext:
    """TLS with a self-signed certificate, made by the openssl command."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        names = ["-keyout", f"{folder}/key.pem", "-out", f"{folder}/cert.pem", "-subj", "/CN=127.0.0.1"]
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *names]
        subprocess.run(command, check=True, capture_output=True)
        context.load_cert_chain(f"{folder}/cert.pem", f"{folder}/key.pem")
    return context


def _is_closed(connection: socket.socket) -> bool:
    if isinstance(connection, ssl.SSLSocket):  # it cannot peek; the next data will tell
        return False
    poll = select.poll()  # `select` takes no more than 1,024 connections
    poll.register(connection, select.POLLIN)
    try:
        return bool(poll.poll(0)) and not connection.recv(1, socket.MSG_PEEK)
    except ConnectionResetError:
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=sorted(KINDS), default="pods")
    parser.add_argument("--objects", type=int, default=1000)
    parser.add_argument("--events", type=int, default=1000)
    parser.add_argument("--core", type=int, help="the CPU to stay on")
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--dropped", action="store_true", help="send no managedFields, as v1.38 does if asked")
    parser.add_argument("--nice", type=int, default=0, help="let others go before it, as `nice` does")
    options = parser.parse_args()
    os.nice(options.nice)
    if options.core is not None:
        os.sched_setaffinity(0, {options.core})
    kind = KINDS[options.kind]
    collection = ServedCollection(kind.dropped() if options.dropped else kind, options.objects, options.events)
    server = Server(collection, self_signed() if options.tls else None)
    print(server.url, flush=True)
    server.serve()


if __name__ == "__main__":
    main()
