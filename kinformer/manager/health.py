"""Health over HTTP: the liveness, readiness and statistics of a manager.

Everyone who reaches the port can read it. So errors are shown by their class: their messages may quote what a server, a
plugin or a file wrote. They are in the log, and in the status of a program that asks for details.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import NamedTuple, NotRequired, Protocol, TypedDict, cast, runtime_checkable

from kinformer._runtime.logs import LogOnce, get_logger
from kinformer.controller.managed import ManagedController, health_fields
from kinformer.exceptions import describe, kind_of
from kinformer.informer.collection import Collection, FollowedClusters, core_of
from kinformer.informer.core import ProgramPart, numbered
from kinformer.informer.factory import SharedInformerFactory
from kinformer.informer.freshness.freshness import check_max_staleness, too_old
from kinformer.informer.informer import SharedInformer
from kinformer.leaderelection.leader_election import LeaderElector
from kinformer.metrics import Metrics
from kinformer.reflector.health import InformerHealth

__all__ = [
    "Answer",
    "CacheReadiness",
    "Check",
    "Exposition",
    "ManagerHealth",
    "Page",
    "StatusReport",
    "informer_readiness",
    "readiness",
    "stale_reason",
    "status_report",
]

log = get_logger("kinformer.manager")

Check = Callable[[], str | None]
"""A function that returns None, or a message that describes the problem."""


class Answer(NamedTuple):
    """The response of a page: the status, the Content-Type and the body."""

    status: int
    content_type: str
    body: bytes


Page = Callable[[str], Answer]
"""A function of the request's `Accept` header."""


class CacheReadiness(TypedDict):
    """The readiness of one cache. `reason` is only present if it is not ready, and `holder` if the cache is shared."""

    ready: bool
    state: str
    synced: bool
    live: bool
    reason: NotRequired[str]
    holder: NotRequired[int]


class StatusReport(TypedDict):
    """The state of a factory: `resources` has the health and statistics of each informer.

    `derived` has the same for each derived collection, whose statistics also list its inputs. `fleets` has the
    statistics of each fleet, and the health of its clusters. `shared_cache`, with `share=`, has the `role` of the
    process and the process id of the `holder`, or None.
    """

    ready: bool
    resources: dict[str, dict[str, object]]
    derived: NotRequired[dict[str, dict[str, object]]]
    fleets: NotRequired[dict[str, dict[str, object]]]
    shared_cache: NotRequired[dict[str, object]]


def readiness(
    factory: SharedInformerFactory, *, max_staleness: float | None = None
) -> tuple[bool, dict[str, CacheReadiness]]:
    """Return True if all caches are ready, with the readiness of each, by name. Errors are shown by their class.

    An informer is ready if it has synced and follows its server, or if it is `optional` and its resource is absent. A
    derived collection is ready if it is running and has computed all its values. Its inputs have a readiness of their
    own.

    Args:
        factory: The factory.
        max_staleness: Seconds, at least 4. An informer is not ready if its cache was last proved to be current longer
            ago. From the first call on, the informers prove themselves at half of that age (see `Controller`).

    Raises:
        ConfigError: `max_staleness` is too small.
    """
    informers = {
        name: informer_readiness(informer, max_staleness=max_staleness)
        for name, informer in numbered(factory.informers).items()
    }
    derived = {name: _derived_readiness(collection.health()) for name, collection in numbered(factory.derived).items()}
    return all(cache["ready"] for cache in (*informers.values(), *derived.values())), {**derived, **informers}


def informer_readiness(informer: SharedInformer, *, max_staleness: float | None = None) -> CacheReadiness:
    """Return the readiness of one informer, with the reason if it is not ready. See `readiness`."""
    health = informer.health()
    absent = informer.optional and health.state == "absent"
    ready = (health.synced and health.live) or absent
    readiness: CacheReadiness = {"ready": ready, "state": health.state, "synced": health.synced, "live": health.live}
    if health.holder is not None:
        readiness["holder"] = health.holder
    if not ready:
        readiness["reason"] = kind_of(health.last_error) if health.last_error else _reason_without_error(health)
    elif reason := stale_reason(informer, max_staleness):  # also of what an absent resource has left in the cache
        readiness["ready"], readiness["reason"] = False, reason
    return readiness


def stale_reason(collection: Collection, max_staleness: float | None) -> str:
    """Return which caches behind a collection were last proved to be current too long ago, or "". See `readiness`."""
    check_max_staleness(max_staleness)
    core = core_of(collection)
    if max_staleness is None or core is None:
        return ""
    return ", ".join(f"the cache may be stale: {freshness}" for freshness in too_old(core, max_staleness))


def _derived_readiness(health: InformerHealth) -> CacheReadiness:
    ready = health.synced and health.state != "stopped"
    readiness: CacheReadiness = {"ready": ready, "state": health.state, "synced": health.synced, "live": health.live}
    if not ready:
        has_ended = health.state == "stopped"
        default = "the collection has ended" if has_ended else "its values have not been computed yet"
        readiness["reason"] = kind_of(health.last_error) if health.last_error else default
    return readiness


def _reason_without_error(health: InformerHealth) -> str:
    if health.state == "stopped":
        return "the informer has been stopped"
    return "reconnecting to the server" if health.synced else "the first list has not arrived"


def _unready(caches: Mapping[str, CacheReadiness]) -> str:
    """Return the caches that are not ready, with reasons, or "" if all are ready."""
    return "; ".join(f"{name}: {cache['reason']}" for name, cache in caches.items() if "reason" in cache)


def status_report(factory: SharedInformerFactory, *, details: bool = False) -> StatusReport:
    """Return the health and statistics of each informer, derived collection and fleet, as values for JSON.

    Args:
        factory: The factory.
        details: Show errors with their messages, and not only by their class. The messages may quote a server's
            response, a credential plugin or a file.
    """
    return cast("StatusReport", _shown(_report(factory), describe if details else kind_of))


def _report(factory: SharedInformerFactory) -> StatusReport:
    """Return a status report in which errors are exceptions."""
    ready, _ = readiness(factory)
    health, figures = factory.health(), factory.statistics()
    resources: dict[str, dict[str, object]] = {
        name: {"health": health_fields(state), "statistics": asdict(figures[name])} for name, state in health.items()
    }
    report: StatusReport = {"ready": ready, "resources": resources}
    if (shared := factory.shared_cache) is not None:
        report["shared_cache"] = {"role": shared.role, "holder": shared.holder}
    if factory.derived:
        report["derived"] = {
            name: {"health": health_fields(collection.health()), "statistics": asdict(collection.statistics())}
            for name, collection in numbered(factory.derived).items()
        }
    if factory.fleets:
        report["fleets"] = {name: _fleet_status(fleet) for name, fleet in numbered(factory.fleets).items()}
    return report


def _fleet_status(fleet: FollowedClusters) -> dict[str, object]:
    clusters = {}
    for name, health in fleet.health().items():
        resources = {resource: health_fields(state) for resource, state in health.resources.items()}
        clusters[name] = {**health_fields(health), "resources": resources}
    return {"clusters": clusters, "statistics": asdict(fleet.statistics()), "source_error": fleet.source_error}


def _shown(value: object, show: Callable[[BaseException], str]) -> object:
    """Return a value for JSON with `show` applied to each exception in it."""
    if isinstance(value, BaseException):
        return show(value)
    if isinstance(value, Mapping):
        return {name: _shown(inner, show) for name, inner in value.items()}
    return [_shown(inner, show) for inner in value] if isinstance(value, list | tuple) else value


@runtime_checkable
class Exposition(Protocol):
    """A metrics sink that can be read over HTTP."""

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """Return the body and its Content-Type, in the format that the `Accept` header requests."""
        ...


class ManagerHealth:
    """The health of a manager's parts, read from them at each request, and the checks that the program added.

    Args:
        factory: Returns the factory of the informers, or None before the manager is entered and after it is exited.
        controllers: Returns the current controllers.
        elector: Returns the elector, or None without leader election.
        metrics: The sink. `/metrics` is served if it is an `Exposition`.
        details: Show the messages of errors on `/statusz`.

    Attributes:
        parts: The collections and fleets that the program has added. They are ready once they have synced. Their inputs
            have a readiness of their own, and one unreachable cluster should not make the others unready.
        stopping: True once the manager has begun to stop.
    """

    def __init__(
        self,
        factory: Callable[[], SharedInformerFactory | None],
        controllers: Callable[[], Iterable[ManagedController]],
        elector: Callable[[], LeaderElector | None],
        metrics: Metrics | Exposition | None,
        *,
        details: bool = False,
    ) -> None:
        self._factory = factory
        self._controllers = controllers
        self._elector = elector
        self._exposition = metrics if isinstance(metrics, Exposition) else None
        self._show = describe if details else kind_of
        self._checks: dict[str, tuple[Check, bool]] = {}
        self._logged = LogOnce()
        self.parts: list[ProgramPart] = []
        self.stopping = False

    def add_check(self, name: str, check: Check, *, live: bool = False) -> None:
        """Add a check. See `Manager.add_check`."""
        if name in self._checks:
            raise ValueError(f"a check {name!r} already exists; choose another name")
        self._checks[name] = (check, live)

    def pages(self) -> dict[str, Page]:
        """Return the pages of the health server, by path."""
        pages: dict[str, Page] = {
            "/livez": lambda _: _json_answer(*self.live()),
            "/healthz": lambda _: _json_answer(*self.live()),
            "/readyz": lambda _: _json_answer(*self.ready()),
            "/statusz": lambda _: _json_answer(True, self.status()),
        }
        if (exposition := self._exposition) is not None:
            pages["/metrics"] = lambda accept: _exposed(exposition, accept)
        return pages

    def live(self) -> tuple[bool, dict[str, object]]:
        """Return True if the process should continue, with the response. Only the program's own checks can fail."""
        failed = self._failed_checks(live=True)
        return not failed, {"live": not failed, "failed": failed}

    def ready(self) -> tuple[bool, dict[str, object]]:
        """Return True if the caches follow the server and the election works, with the response.

        A replica that waits for the lead is ready, and so is one that waits for a shard: a rolling update must not wait
        for what only the end of the old replicas gives.
        """
        failed = self._failed_checks(live=False)
        factory, elector = self._factory(), self._elector()
        caches: dict[str, CacheReadiness] = {}
        if factory is None:
            failed["manager"] = "starting or exited"
        else:
            _, caches = readiness(factory)
            if reasons := _unready(caches):
                failed["caches"] = reasons
        if unsynced := [part.name for part in self.parts if not part.sync.is_done()]:
            failed["collections"] = f"not complete yet: {', '.join(unsynced)}"
        if self.stopping:
            failed["manager"] = "stopping"
        for controller in self._controllers():
            own = {f"{held.name} of {controller.name}": informer_readiness(held) for held in controller.own_informers}
            caches.update(own)
            if reason := _not_ready_reason(controller, own):
                failed[f"controller {controller.name}"] = reason
        if elector is not None and not (health := elector.health()).live:
            failed["leader election"] = kind_of(health.last_error)
        return not failed, {"ready": not failed, "failed": failed, "resources": caches}

    def status(self) -> dict[str, object]:
        """Return the state of all parts, for people to read."""
        factory, elector, controllers = self._factory(), self._elector(), list(self._controllers())
        report: dict[str, object] = {} if factory is None else {**_report(factory)}
        report["ready"], _ = self.ready()
        report["controllers"] = {controller.name: asdict(controller.statistics()) for controller in controllers}
        sections: dict[str, dict[str, Mapping[str, object]]] = {}
        for controller in controllers:
            for section, shown in controller.status_sections().items():
                sections.setdefault(section, {})[controller.name] = shown
        report.update(sections)
        if elector is not None:
            report["leader_election"] = {"is_leader": elector.is_leader, **health_fields(elector.health())}
        return {name: _shown(value, self._show) for name, value in report.items()}

    def _failed_checks(self, *, live: bool) -> dict[str, str]:
        failed = {}
        for name, (check, is_for_live) in self._checks.items():
            if is_for_live or not live:
                try:
                    problem = check()
                except Exception as error:  # a check that raises has failed
                    problem = kind_of(error)
                    if self._logged.is_news(name, describe(error)):
                        log.error("the check %r raised: %s", name, error, exc_info=error, reason="check_failed")
                else:
                    self._logged.forget(name)
                if problem:
                    failed[name] = problem
        return failed


def _not_ready_reason(controller: ManagedController, own_caches: Mapping[str, CacheReadiness]) -> str | None:
    if reason := controller.not_ready_reason() or _unready(own_caches):
        return reason
    waits = controller.statistics().running and not controller.synced
    return "it is waiting for its informers" if waits else None


def _exposed(exposition: Exposition, accept: str) -> Answer:
    body, content_type = exposition.exposition(accept)
    return Answer(200, content_type, body)


def _json_answer(good: bool, document: dict[str, object]) -> Answer:
    return Answer(200 if good else 503, "application/json", json.dumps(document, indent=2).encode() + b"\n")
