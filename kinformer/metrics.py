"""The port to a metrics library: what informers, queues and controllers ask of a sink.

A sink makes *instruments* once, and these are called in the hot path; what can be read at any time (a depth, an age)
is a gauge that the sink reads when it exports, so that it costs nothing in between. Names are those of the field
(client-go and component-base: ``workqueue_*``; controller-runtime: ``controller_runtime_*``), so that dashboards and
alerts that exist go on working.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

__all__ = ["Metrics", "Reading"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The series that one owner has of one metric, at one moment.

    Attributes:
        name: The name of the metric; that of a counter ends in ``_total``.
        text: A description of the metric.
        kind: A counter only rises, unless it starts again at 0.
        labels: The names of the labels.
        values: The values of the labels, and the figure, of each series.
    """

    name: str
    text: str
    kind: Literal["counter", "gauge"]
    labels: tuple[str, ...]
    values: Sequence[tuple[tuple[str, ...], float]]


@runtime_checkable
class Metrics(Protocol):
    """What a program passes as ``metrics=``. Every method may be called again with the same name and labels."""

    def counter(self, name: str, text: str, labels: Mapping[str, str]) -> Callable[[float], None]:
        """A callable that adds to a counter. The same name and labels give the same counter; it starts at 0.

        Args:
            name: With its ``_total``.
            text: What it counts.
            labels: Name to value; all counters of one name have the same label names.
        """
        ...

    def histogram(
        self, name: str, text: str, labels: Mapping[str, str], buckets: Sequence[float]
    ) -> Callable[[float], None]:
        """A callable that takes one observation; `buckets` are upper bounds in the unit that the name ends in."""
        ...

    def gauge(self, name: str, text: str, labels: Mapping[str, str], read: Callable[[], float]) -> Callable[[], None]:
        """Export what `read` gives at each export, until the callable that is returned has been called.

        A newer gauge of the same name and labels takes the place of an older one, whose end then changes nothing.
        """
        ...

    def collector(self, owner: str, read: Callable[[str], Iterable[Reading]]) -> Callable[[], None]:
        """Export the readings that `read` gives at each export, until the callable that is returned has been called.

        For owners with series that come and go, such as an informer with its handlers. `read` is called from whatever
        thread the sink exports in.

        Args:
            owner: What the owner is called. Where another owner of this name is exported already it is a number longer
                (``v1/pods#2``), so that no two series are the same.
            read: Called with that name, to be used as the value of a label; once before this returns, so that the owner
                knows it.
        """
        ...
