"""Ports of 127.0.0.1 that are known before a server listens on them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def reserved_port() -> Iterator[int]:
    """Give a port that the system gives to no other program meanwhile.

    A server may listen on it, as servers set SO_REUSEADDR; while none does, connections are refused.
    """
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]
