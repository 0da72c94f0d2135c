"""What probes and people are told of a factory: whether its caches are ready, why not, and all its figures."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from kinformer.exceptions import describe
from kinformer.informer.factory import SharedInformerFactory
from kinformer.informer.informer import SharedInformer
from kinformer.reflector.health import InformerHealth

__all__ = ["informer_readiness", "readiness", "status_report"]


def readiness(factory: SharedInformerFactory) -> tuple[bool, dict[str, Any]]:
    """Whether every informer has synced and follows its server; and, by resource, why not.

    An informer that is `optional`, and whose resource is absent, is as ready as it can be.
    """
    by_name = zip(factory.health().items(), factory.informers, strict=True)
    found = {name: _ready(health, optional=informer.optional) for (name, health), informer in by_name}
    return all(one["ready"] for one in found.values()), found


def informer_readiness(informer: SharedInformer) -> dict[str, Any]:
    """Whether one informer has synced and follows its server, and why not."""
    return _ready(informer.health(), optional=informer.optional)


def _ready(health: InformerHealth, *, optional: bool) -> dict[str, Any]:
    ready = (health.synced and health.live) or (optional and health.state == "absent")
    answer: dict[str, Any] = {"ready": ready, "state": health.state, "synced": health.synced, "live": health.live}
    if not ready:
        answer["reason"] = describe(health.last_error) if health.last_error else _quiet_reason(health)
    return answer


def _quiet_reason(health: InformerHealth) -> str:
    """Why an informer is not ready that has no error to tell of."""
    if health.state == "stopped":
        return "the informer has been stopped"
    return "the server is asked again" if health.synced else "the first list has not come yet"


def status_report(factory: SharedInformerFactory) -> dict[str, Any]:
    """The health and the statistics of each informer, as JSON has it."""
    ready, _ = readiness(factory)
    health, figures = factory.health(), factory.statistics()
    resources = {}
    for name, one in health.items():
        shown = asdict(one)
        shown["last_error"] = describe(one.last_error) if one.last_error else None
        resources[name] = {"health": shown, "statistics": asdict(figures[name])}
    return {"ready": ready, "resources": resources}
