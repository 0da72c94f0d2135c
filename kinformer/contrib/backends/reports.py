"""Reports of a pool: its health and its counts at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from kinformer import InformerHealth

__all__ = ["NOT_ENTERED", "BackendsHealth", "BackendsStatistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendsHealth:
    """The health of a pool at one moment.

    Attributes:
        live: True if the cache follows the API server, so that the snapshot is current.
        synced: True if the first list is in the cache, and each backend of it was probed once.
        reason: Why it is not live or not synced, has no backend, or ignores its probes. Otherwise "". It has the
            classes of errors, without their messages.
        backends: The number of backends in the snapshot.
        ready: The number of backends that Kubernetes calls ready.
        failing: The number of ready backends that fail their probe.
        all_failed: True while no backend passes its probe, so that `when_all_fail` decides.
        cache: The health of the cache, with the last error.
    """

    live: bool
    synced: bool
    reason: str
    backends: int
    ready: int
    failing: int
    all_failed: bool
    cache: InformerHealth


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendsStatistics:
    """Counts of a pool since it was entered.

    Attributes:
        changes: The number of changes of the snapshot.
        probes: The number of probes that were started.
        probe_failures: The number of probes that raised, returned False or took too long.
        probe_timeouts: The number of probes that took too long.
        all_failed: How often it happened that no backend passed its probe any more.
    """

    changes: int
    probes: int
    probe_failures: int
    probe_timeouts: int
    all_failed: int


NOT_ENTERED = InformerHealth(state="starting", synced=False, live=False)
