"""The interface to metrics libraries: informers, queues and controllers report to a sink.

A sink creates *instruments* once, which are then called in the hot path. A value that can be read at any time (a
depth, an age) is a gauge that the sink reads on export, so that it costs nothing in between. Names follow client-go
and component-base (``workqueue_*``) and controller-runtime (``controller_runtime_*``), so that existing dashboards and
alerts keep working.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

__all__ = ["MetricFamily", "Metrics", "exports", "upstream_labels"]

_RESOURCE = re.compile(r"(?:(?P<before>[^/]+)/)?(?P<version>v\d\w*)/(?P<resource>[^/#]+)(?:#\d+)?")
_GROUPS = ("apps", "autoscaling", "batch", "extensions", "policy")  # the groups of Kubernetes without a dot


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """The series of one metric of one owner at one moment.

    Attributes:
        name: The name. For a counter, including ``_total``.
        text: The description.
        kind: The kind. A counter only increases, except for a restart at 0.
        labels: The names of the labels.
        values: For each series, the values of the labels and the number.
    """

    name: str
    text: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    values: Sequence[tuple[tuple[str, ...], float]]


@runtime_checkable
class Metrics(Protocol):
    """A sink, passed as ``metrics=``. Each method may be called again with the same name and labels."""

    def counter(self, name: str, text: str, labels: Mapping[str, str]) -> Callable[[float], None]:
        """Return a function that adds to a counter, which starts at 0.

        The same name and labels return the same counter.

        Args:
            name: The name, with its ``_total``.
            text: The description.
            labels: A mapping of name to value. All counters with one name have the same label names.
        """
        ...

    def histogram(
        self, name: str, text: str, labels: Mapping[str, str], buckets: Sequence[float]
    ) -> Callable[[float], None]:
        """Return a function that records one observation.

        `buckets` are upper bounds in the unit at the end of the name.
        """
        ...

    def gauge(self, name: str, text: str, labels: Mapping[str, str], read: Callable[[], float]) -> Callable[[], None]:
        """Export the result of `read` at each export, until the returned function is called.

        A newer gauge with the same name and labels replaces an older one. Ending the older one then has no effect.
        """
        ...

    def collector(self, owner: str, read: Callable[[str], Iterable[MetricFamily]]) -> Callable[[], None]:
        """Export the readings returned by `read` at each export, until the returned function is called.

        It is for owners with series that change, such as an informer with its handlers. `read` is called in the sink's
        export thread.

        Args:
            owner: The name of the owner. If another owner with this name is already exported, a number is appended
                (``v1/pods#2``), so that no two series are the same.
            read: Called with that name, for use as a label value. It is called once before this returns, so that the
                owner knows the name.
        """
        ...


def exports(sink: Metrics, name: str) -> bool:
    """Return True if a sink has a method `exports` that returns True for this name.

    :meta private:
    """
    asked = getattr(sink, "exports", None)
    return asked is not None and bool(asked(name))


def upstream_labels(owner: str) -> dict[str, str]:
    """Return the labels of client-go's metrics for the informer with this name, such as `"east/apps/v1/deployments#2"`.

    :meta private:
    """
    match = _RESOURCE.search(owner)
    group, version, resource = "", "", owner
    if match is not None:
        before, version, resource = match["before"] or "", match["version"], match["resource"]
        group = before if "." in before or before in _GROUPS else ""  # otherwise it is the name of a cluster
    return {"name": owner, "group": group, "version": version, "resource": resource}
