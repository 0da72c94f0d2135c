"""What a manager says of itself: live, ready, and in figures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Protocol, runtime_checkable

from kinformer.controller.controller import Controller
from kinformer.exceptions import describe
from kinformer.informer.factory import SharedInformerFactory
from kinformer.leaderelection.leader_election import LeaderElector
from kinformer.manager.http_server import Answer, Page
from kinformer.manager.readiness import informer_readiness, readiness, status_report
from kinformer.sharding.sharded_controller import ShardedController

__all__ = ["Check", "Exposition", "ManagerHealth"]

Check = Callable[[], str | None]


@runtime_checkable
class Exposition(Protocol):
    """A metrics sink that can be read over HTTP."""

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """The body and its Content-Type, for what the `Accept` header asks for."""
        ...


class ManagerHealth:
    """Reads the parts of a manager; owns nothing but the checks that a program added.

    Args:
        factory: Whose informers count.
        controllers: Those that there are at the moment.
        elector: The election, where there is one.
        metrics: The sink; `/metrics` is there if it is an `Exposition`.
    """

    def __init__(
        self,
        factory: Callable[[], SharedInformerFactory | None],
        controllers: Callable[[], Iterable[Controller | ShardedController]],
        elector: Callable[[], LeaderElector | None],
        metrics: Any,
    ) -> None:
        self._factory = factory
        self._controllers = controllers
        self._elector = elector
        self._metrics = metrics
        self._checks: dict[str, tuple[Check, bool]] = {}
        self.stopping = False

    def add_check(self, name: str, check: Check, *, live: bool = False) -> None:
        """See `Manager.add_check`."""
        if name in self._checks:
            raise ValueError(f"there is a check {name!r} already")
        self._checks[name] = (check, live)

    def pages(self) -> dict[str, Page]:
        """The pages of the health server, by path."""
        pages: dict[str, Page] = {
            "/livez": lambda _: _json(*self.live()),
            "/healthz": lambda _: _json(*self.live()),
            "/readyz": lambda _: _json(*self.ready()),
            "/statusz": lambda _: _json(True, self.status()),
        }
        if isinstance(self._metrics, Exposition):
            pages["/metrics"] = self._expose
        return pages

    def _expose(self, accept: str) -> Answer:
        body, content_type = self._metrics.exposition(accept)
        return Answer(200, content_type, body)

    def live(self) -> tuple[bool, dict[str, Any]]:
        """Whether the process should go on; a restart helps against nothing but what a program's own checks find."""
        failed = self._failed(live=True)
        return not failed, {"live": not failed, "failed": failed}

    def ready(self) -> tuple[bool, dict[str, Any]]:
        """Whether caches follow the server and the election works; a replica that waits for the lead is ready.

        One that has not joined those that share a resource is not: a rolling update waits until it has.
        """
        failed = self._failed(live=False)
        factory, elector = self._factory(), self._elector()
        resources: dict[str, Any] = {}
        if factory is None:
            failed["manager"] = "it is starting, or has been left"
        else:
            all_ready, resources = readiness(factory)
            if not all_ready:
                failed["caches"] = "; ".join(
                    f"{name}: {one['reason']}" for name, one in resources.items() if not one["ready"]
                )
        if self.stopping:
            failed["manager"] = "it is stopping"
        for controller in self._controllers():
            if isinstance(controller, ShardedController):
                self._look_at_share(controller, failed, resources)
            elif controller.statistics().running and not controller.synced:
                failed[f"controller {controller.name}"] = "it waits for its informers"
        if elector is not None and not (health := elector.health()).live:
            failed["leader election"] = describe(health.last_error)
        return not failed, {"ready": not failed, "failed": failed, "resources": resources}

    def _look_at_share(self, controller: ShardedController, failed: dict[str, str], resources: dict[str, Any]) -> None:
        """It runs in every replica, so one that does not run is starting; its informers are its own."""
        shown = {f"{one.name} of {controller.name}": informer_readiness(one) for one in controller.informers}
        resources.update(shown)
        health = controller.health()
        reasons = [f"{name}: {one['reason']}" for name, one in shown.items() if not one["ready"]]
        if not controller.statistics().running:
            reasons = ["it has not been started"]
        elif not health.live:
            reasons = [describe(health.last_error) if health.last_error else f"its membership is {health.state}"]
        elif not reasons and not controller.synced:
            reasons = ["it waits for its informers"]
        if reasons:
            failed[f"controller {controller.name}"] = "; ".join(reasons)

    def status(self) -> dict[str, Any]:
        """Everything that is known, for people."""
        factory, elector = self._factory(), self._elector()
        report = status_report(factory) if factory is not None else {}
        report["ready"], _ = self.ready()
        report["controllers"] = {one.name: asdict(one.statistics()) for one in self._controllers()}
        shares = [one for one in self._controllers() if isinstance(one, ShardedController)]
        if shares:
            report["shares"] = {one.name: _described(asdict(one.health())) for one in shares}
        if elector is not None:
            health = _described(asdict(elector.health()))
            report["leader_election"] = {"is_leader": elector.is_leader, **health}
        return report

    def _failed(self, *, live: bool) -> dict[str, str]:
        failed = {}
        for name, (check, of_life) in self._checks.items():
            if of_life or not live:
                try:
                    problem = check()
                except Exception as error:  # noqa: BLE001 - a check that raises is a check that fails, and says so
                    problem = describe(error)
                if problem:
                    failed[name] = problem
        return failed


def _described(health: dict[str, Any]) -> dict[str, Any]:
    error = health["last_error"]
    return {**health, "last_error": describe(error) if error else None}


def _json(good: bool, document: dict[str, Any]) -> Answer:
    return Answer(200 if good else 503, "application/json", json.dumps(document, indent=2).encode() + b"\n")
