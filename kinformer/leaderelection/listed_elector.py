"""An elector for one of several Leases, which a candidate reads by one list."""

from __future__ import annotations

import asyncio

from kinformer._runtime.cancellation import shielded_from_scopes
from kinformer.exceptions import AlreadyExistsError, ConflictError
from kinformer.leaderelection.claim import Claim, Written
from kinformer.leaderelection.leader_election import LeaderElector
from kinformer.leaderelection.lease import Lease

__all__ = ["ListedElector"]


class ListedElector(LeaderElector):
    """A `LeaderElector` that takes its Lease at once or not at all, as a list shows it. `leading()` follows.

    It keeps the guarantee of a `LeaderElector`. It is stricter in one point: a Lease that others have deleted, or whose
    record they have changed, is lost. With one Lease, a candidate that believed such a change conflicts with the holder
    in it. With several, it may have taken another one.
    """

    _taken: Written | None = None

    def observe(self, lease: Lease) -> float:
        """Record the Lease of a list that has just arrived. Return when it expires, on the boot clock."""
        self._note_contact()
        self._observe(lease)
        return self._observation.expires

    async def try_acquire(self, lease: Lease | None, asked: float) -> bool:
        """Take the Lease unless another candidate may hold it, or is faster.

        If this is cancelled or fails, the Lease is released if it may have been written.

        Args:
            lease: The Lease in the last list, or None if it was not there.
            asked: When that list was requested, on the boot clock.

        Returns:
            True if it was taken. `leading()` or `give_up()` must follow within `renew_deadline`.

        Raises:
            KinformerError: The request failed.
        """
        claim = Claim()
        try:
            self._taken = await self._take(lease, asked, claim)
        except (ConflictError, AlreadyExistsError):
            self._taken = None
        except (Exception, asyncio.CancelledError):
            await self._withdraw(claim)
            raise
        return self._taken is not None

    @shielded_from_scopes
    async def give_up(self) -> None:
        """Release the Lease that `try_acquire` has taken."""
        taken, self._taken = self._taken, None
        if taken is not None:
            await self._release_lease(taken[1], self._clock.boot() + self._options.renew_deadline)

    async def _acquire(self) -> Written:
        taken, self._taken = self._taken, None
        if taken is None:
            raise RuntimeError(f"{self!r}: call try_acquire() before leading()")
        return taken

    def _reason_lost(self, lease: Lease | None) -> str:
        if reason := super()._reason_lost(lease):
            return reason
        return "" if lease is not None and self._own_renewals.wrote(lease) else "others changed or deleted the Lease"
