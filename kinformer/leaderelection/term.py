"""A term: one period of leading, with the validity of the Lease, the body and the renewal task."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from kinformer._runtime.cancellation import BodyCancellation
from kinformer._runtime.clock import Clock
from kinformer._runtime.logs import get_logger
from kinformer.leaderelection.lease import Lease, LeaseOptions, LeaseValidity

__all__ = ["Term"]

log = get_logger("kinformer.leader_election", resource="coordination.k8s.io/v1/leases")


class Term:
    """One period of leading: the validity of the Lease, the body, and the renewal task."""

    __slots__ = ("_renewing", "body", "lease", "validity")

    def __init__(self, clock: Clock, options: LeaseOptions, sent: float, lease: Lease) -> None:
        self.lease = lease  # as last written by this process
        self.body = BodyCancellation()
        self.validity = LeaseValidity(clock, options, sent, lambda reason: self.body.cancel())
        self._renewing: asyncio.Task[None] | None = None

    def start_renewing(self, renewing: Coroutine[object, object, None], name: str) -> None:
        self._renewing = asyncio.create_task(renewing, name=name)
        self._renewing.add_done_callback(self._renewing_ended)
        self.validity.watch()

    def _renewing_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s ended with %s", task.get_name(), type(error).__name__, exc_info=error, reason=error)
            self.validity.lapse(f"its renewal ended with {type(error).__name__}: {error}", error)

    async def stop_renewing(self) -> None:
        self.validity.close()
        if self._renewing is not None and not self._renewing.done():
            self._renewing.cancel()
            await asyncio.wait({self._renewing})
