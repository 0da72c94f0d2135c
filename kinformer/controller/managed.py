"""The protocol by which a manager runs a controller and reports on it, whatever kind of controller it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kinformer.controller.metrics import ControllerStatistics
from kinformer.exceptions import describe
from kinformer.informer.informer import SharedInformer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["ManagedController", "health_as_json"]


@runtime_checkable
class ManagedController(Protocol):
    """A controller that `Manager.add` takes: a `Controller`, or another class with these members."""

    @property
    def name(self) -> str:
        """The name in the log, in metrics and in the answers to probes; unique within a manager."""
        ...

    @property
    def synced(self) -> bool:
        """True if reconciles have begun."""
        ...

    @property
    def runs_in_every_replica(self) -> bool:
        """True if it runs whether or not this replica leads."""
        ...

    @property
    def own_informers(self) -> tuple[SharedInformer, ...]:
        """The informers that `run` enters and leaves, so that no factory reports on them."""
        ...

    async def run(self) -> None:
        """Reconcile until cancelled."""
        ...

    def statistics(self) -> ControllerStatistics:
        """Return the figures of this moment."""
        ...

    def not_ready_reason(self) -> str | None:
        """Return why it is not ready, apart from its informers; None if nothing is wrong."""
        ...

    def status_sections(self) -> Mapping[str, Mapping[str, object]]:
        """Return its own additions to `/statusz`, by the name of the section, as JSON can have them."""
        ...


def health_as_json(health: DataclassInstance) -> dict[str, object]:
    """Return the fields of a health dataclass as JSON can have them: an error becomes one line of text."""
    values = {field.name: getattr(health, field.name) for field in fields(health)}
    return {name: describe(value) if isinstance(value, BaseException) else value for name, value in values.items()}
