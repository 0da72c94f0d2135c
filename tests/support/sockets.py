"""Which sockets this process has open, as Linux shows them."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_DESCRIPTORS = Path("/proc/self/fd")


def _sockets() -> Iterator[int]:
    for entry in list(_DESCRIPTORS.iterdir()) if _DESCRIPTORS.is_dir() else []:
        try:
            if str(entry.readlink()).startswith("socket:"):
                yield int(entry.name)
        except FileNotFoundError:
            continue  # the listing's own


def _copies() -> Iterator[socket.socket]:
    for descriptor in list(_sockets()):
        with socket.socket(fileno=os.dup(descriptor)) as copy:
            yield copy


def open_sockets() -> int:
    """How many there are; 0 if the system does not tell."""
    return sum(1 for _ in _sockets())


def connections_to(port: int) -> int:
    """How many are connected to a port."""
    count = 0
    for copy in _copies():
        try:
            peer: Any = copy.getpeername()
        except OSError:
            continue  # it listens, or is closed at the other end
        count += isinstance(peer, tuple) and peer[1] == port
    return count


def connections_from(port: int) -> int:
    """How many a server on a port has open."""
    count = 0
    for copy in _copies():
        try:
            copy.getpeername()
            here: Any = copy.getsockname()
        except OSError:
            continue
        count += isinstance(here, tuple) and here[1] == port
    return count


def listening() -> set[tuple[str, int]]:
    """Address and port of each TCP socket that listens."""
    found = set()
    for copy in _copies():
        is_tcp = copy.family in (socket.AF_INET, socket.AF_INET6) and copy.type == socket.SOCK_STREAM
        if is_tcp and copy.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            found.add(copy.getsockname()[:2])
    return found
