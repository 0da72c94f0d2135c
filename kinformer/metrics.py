"""The port to a metrics library: the interface through which informers, queues and controllers report to a sink.

A sink makes *instruments* once, and these are called in the hot path. A value that can be read at any time (a depth, an
age) is a gauge that the sink reads when it exports, so that it costs nothing in between. Names are those of the field
(client-go and component-base: ``workqueue_*``; controller-runtime: ``controller_runtime_*``), so that existing
dashboards and alerts go on working.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

__all__ = ["MetricFamily", "Metrics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily:
    """The series of one metric of one owner, at one moment.

    Attributes:
        name: The name; that of a counter includes its ``_total``.
        text: The description.
        kind: A counter only rises, except for a restart at 0.
        labels: The names of the labels.
        values: For each series the values of the labels, and the number.
    """

    name: str
    text: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    values: Sequence[tuple[tuple[str, ...], float]]


@runtime_checkable
class Metrics(Protocol):
    """A sink, which a program passes as ``metrics=``. Each method may be called again with the same name and labels."""

    def counter(self, name: str, text: str, labels: Mapping[str, str]) -> Callable[[float], None]:
        """Make a callable that adds to a counter. The same name and labels return the same counter; it starts at 0.

        Args:
            name: The name, with its ``_total``.
            text: The description.
            labels: Name to value; all counters of one name have the same label names.
        """
        ...

    def histogram(
        self, name: str, text: str, labels: Mapping[str, str], buckets: Sequence[float]
    ) -> Callable[[float], None]:
        """Make a callable that takes one observation; `buckets` are upper bounds in the unit that ends the name."""
        ...

    def gauge(self, name: str, text: str, labels: Mapping[str, str], read: Callable[[], float]) -> Callable[[], None]:
        """Export the result of `read` at each export, until the returned callable is called.

        A newer gauge of the same name and labels replaces an older one, whose end then changes nothing.
        """
        ...

    def collector(self, owner: str, read: Callable[[str], Iterable[MetricFamily]]) -> Callable[[], None]:
        """Export the readings that `read` returns at each export, until the returned callable is called.

        It is for owners with series that come and go, such as an informer with its handlers. `read` is called in the
        thread in which the sink exports.

        Args:
            owner: The name of the owner. If another owner of this name is exported already a number is appended
                (``v1/pods#2``), so that no two series are the same.
            read: Called with that name, to be used as the value of a label; once before this returns, so that the owner
                knows it.
        """
        ...
