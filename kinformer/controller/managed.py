"""The protocol by which a manager runs any kind of controller and reports on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kinformer.controller.metrics import ControllerStatistics
from kinformer.informer.informer import SharedInformer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["ManagedController", "health_fields"]


@runtime_checkable
class ManagedController(Protocol):
    """A controller that `Manager.add` accepts: a `Controller`, or another class with these members."""

    @property
    def name(self) -> str:
        """The name in logs, metrics and responses to probes, unique within a manager."""
        ...

    @property
    def synced(self) -> bool:
        """True if reconciles have begun."""
        ...

    @property
    def runs_in_every_replica(self) -> bool:
        """True if it runs even while this replica does not lead."""
        ...

    @property
    def own_informers(self) -> tuple[SharedInformer, ...]:
        """The informers that `run` enters and exits, on which no factory reports."""
        ...

    async def run(self) -> None:
        """Reconcile until cancelled."""
        ...

    def statistics(self) -> ControllerStatistics:
        """Return the current figures."""
        ...

    def not_ready_reason(self) -> str | None:
        """Return the reason why it is not ready (apart from its informers), or None if it is."""
        ...

    def status_sections(self) -> Mapping[str, Mapping[str, object]]:
        """Return its additions to `/statusz`, by section name, as values for JSON.

        A value may be an exception. Its message is shown only if the manager has `details`, and else its class.
        """
        ...


def health_fields(health: DataclassInstance) -> dict[str, object]:
    """Return the fields of a health dataclass by name, each as it is."""
    return {field.name: getattr(health, field.name) for field in fields(health)}
