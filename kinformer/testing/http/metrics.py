"""The server's metrics, under kube-apiserver's names: answered requests, open watches, and objects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from kinformer.testing.api.request import RequestInfo

__all__ = ["METRICS_TYPE", "RequestMetrics"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores"
Labels = tuple[tuple[str, str], ...]

_VERBS = {"create": "POST", "update": "PUT", "patch": "PATCH", "delete": "DELETE", "deletecollection": "DELETE"}
_APPLY = "application/apply-patch"
_HELP = {
    "apiserver_longrunning_requests": (
        "gauge",
        (
            "[STABLE] Gauge of all active long-running apiserver requests broken out by verb, group, version, resource,"
            " scope and component. Not all requests are tracked this way."
        ),
    ),
    "apiserver_request_total": (
        "counter",
        (
            "[STABLE] Counter of apiserver requests broken out for each verb, dry run value, group, version, resource,"
            " scope, component, and HTTP response code."
        ),
    ),
    "apiserver_resource_objects": (
        "gauge",
        (
            "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a fetching error, the"
            " value will be -1."
        ),
    ),
}


class RequestMetrics:
    """Counts the requests of one server."""

    def __init__(self) -> None:
        self._total: Counter[Labels] = Counter()
        self._open: Counter[Labels] = Counter()

    def count(self, info: RequestInfo, params: Mapping[str, str], content_type: str, status: int) -> None:
        """Count a request when its response begins."""
        verb = _verb(info, content_type)
        dry_run = params.get("dryRun", "")
        self._total[("code", str(status)), ("component", "apiserver"), ("dry_run", dry_run), *_place(info, verb)] += 1

    @contextmanager
    def in_progress(self, info: RequestInfo) -> Iterator[None]:
        """Count a watch as open while the block runs. Other requests are short and not counted."""
        if info.verb != "watch":
            yield
            return
        labels = (("component", "apiserver"), *_place(info, "WATCH"))
        self._open[labels] += 1
        try:
            yield
        finally:
            self._open[labels] -= 1

    def text(self, objects: Iterable[tuple[str, str, int]]) -> str:
        """Return all metrics in Prometheus' text format.

        Args:
            objects: Group, resource and number of the objects of each kind.
        """
        stored: dict[Labels, int] = {(("group", group), ("resource", name)): count for group, name, count in objects}
        values: dict[str, Mapping[Labels, int]] = {
            "apiserver_longrunning_requests": self._open,
            "apiserver_request_total": self._total,
            "apiserver_resource_objects": stored,
        }
        return "".join(line for name, readings in values.items() for line in _family(name, readings))


def _family(name: str, values: Mapping[Labels, int]) -> Iterator[str]:
    kind, help_text = _HELP[name]
    yield f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"
    for labels, value in sorted(values.items()):
        listed = ",".join(f'{label}="{_escaped(label_value)}"' for label, label_value in labels)
        yield f"{name}{{{listed}}} {value}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _verb(info: RequestInfo, content_type: str) -> str:
    if info.verb == "patch" and content_type.startswith(_APPLY):
        return "APPLY"
    return _VERBS.get(info.verb, info.verb.upper())


def _place(info: RequestInfo, verb: str) -> Labels:
    """Return the labels of a request's target, in alphabetical order (endpoints/metrics, CleanScope)."""
    scope = ""
    if info.name or info.verb == "create":
        scope = "resource"
    elif info.namespace:
        scope = "namespace"
    elif info.plural:
        scope = "cluster"
    named = {
        "group": info.group,
        "resource": info.plural,
        "scope": scope,
        "subresource": info.subresource,
        "verb": verb,
        "version": info.version,
    }
    return tuple(named.items())
