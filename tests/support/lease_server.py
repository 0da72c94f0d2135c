"""A server of Leases in a simulation, with a network between it and each process.

Internals: the simulation, whose network it answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random
from typing import Any

from kinformer import AlreadyExistsError, ConflictError, KubeObject, NotFoundError
from kinformer.exceptions import ConnectError, ServerError
from kinformer.testing.simulation.processes import Process, Simulation

Object = dict[str, Any]


class LeaseServer:
    """Leases by name, each write with the next resourceVersion; optimistic locking as an API server does it."""

    def __init__(self, simulation: Simulation) -> None:
        self.simulation = simulation
        self.leases: dict[str, Object] = {}
        self.version = 0
        self.writes: list[tuple[float, str, Object]] = []  # time, caller, Lease
        self.down_until = 0.0

    def answer(self, caller: str, method: str, path: str, body: Any) -> Any:
        name = path.partition("/leases")[2].removeprefix("/")
        if method == "GET" and not name:
            items = list(self.leases.values())
            return {"kind": "LeaseList", "metadata": {"resourceVersion": str(self.version)}, "items": items}
        if method == "POST":
            name = body["metadata"]["name"]
            if name in self.leases:
                return AlreadyExistsError(409, "AlreadyExists", f"{name} exists")
            return self.write(caller, name, body)
        lease = self.leases.get(name)
        if lease is None:
            return NotFoundError(404, "NotFound", f"{name} not found")
        if method == "GET":
            return KubeObject.from_dict(lease)
        if body["metadata"]["resourceVersion"] != lease["metadata"]["resourceVersion"]:
            return ConflictError(409, "Conflict", f"{name} has been modified")
        return self.write(caller, name, body)

    def write(self, caller: str, name: str, body: Object) -> KubeObject:
        self.version += 1
        metadata = {**body["metadata"], "resourceVersion": str(self.version)}
        metadata.setdefault("uid", f"uid-{self.version}")
        self.leases[name] = {**body, "metadata": metadata}
        self.writes.append((self.simulation.now, caller, self.leases[name]))
        return KubeObject.from_dict(self.leases[name])


class NetworkClient:
    """The client of a simulated process: its requests travel, get lost, hang, and are answered late.

    Args:
        rates: The part of requests that are lost on their way, whose answers are lost, that fail with a 500 (before
            or after they took effect), and that take much longer.
    """

    def __init__(
        self,
        process: Process,
        server: LeaseServer,
        random: Random,
        *,
        lost: float = 0.0,
        unanswered: float = 0.0,
        failing: float = 0.0,
        slow: float = 0.0,
    ) -> None:
        self._process = process
        self._server = server
        self._random = random
        self.lost, self.unanswered, self.failing, self.slow = lost, unanswered, failing, slow
        self.cut_until = 0.0
        self.sent: list[tuple[float, str, str]] = []

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, str] | None = None,
        timeout: float = 30.0,
    ) -> Any:
        simulation, random = self._process.simulation, self._random
        self.sent.append((simulation.now, method, path))
        future: asyncio.Future[Any] = self._process.loop.create_future()

        def delay() -> float:
            return random.uniform(0.5, 20.0) if random.random() < self.slow else random.uniform(0.001, 0.05)

        def arrive() -> None:
            if simulation.now < self._server.down_until or simulation.now < self.cut_until:
                return
            fails = random.random() < self.failing
            before = fails and random.random() < 0.5
            result = ServerError(500, "InternalError", "etcd") if fails else None
            if not before:
                answer = self._server.answer(self._process.name, method, path, body)
                result = result or answer
            if random.random() >= self.unanswered:
                simulation.later(delay(), lambda: self._returns(future, result))

        if random.random() >= self.lost:
            simulation.later(delay(), arrive)
        try:
            async with asyncio.timeout(timeout):
                return await future
        except TimeoutError as error:
            raise ConnectError(f"{method} {path}: no response within {timeout:g} s") from error

    def _returns(self, future: asyncio.Future[Any], result: Any) -> None:
        if self._process.simulation.now >= self.cut_until:
            self._process.answer(future, result)
