"""Candidates for a lead as real processes, and what must be true of all that they said.

    python -m tests.support.candidates URL-OR-KUBECONFIG LEASE IDENTITY

runs one. It leads when it can, and says so on stdout: `act TIME` (on CLOCK_BOOTTIME, which all processes of a machine
share) for each moment at which it acted as the leader, `sent` after a write that the server took, `refused` after one
that was not sent, `lost` after a lost lead. SIGUSR1 blocks its event loop for `BLOCK` seconds.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from itertools import pairwise

from kinformer import Client, KinformerError, LeaderElector
from kinformer.exceptions import LeadershipLostError
from tests.support.line_process import LineProcess, boot_time, say
from tests.support.waiting import until

LEASE = {"lease_duration": 1.5, "renew_deadline": 1.0, "retry_period": 0.2}
BLOCK = 4.0  # two leases of 1.5 s, which a Lease says as 2
CONFIG_MAP = "/api/v1/namespaces/default/configmaps/written-by-leaders"


class Candidate(LineProcess):
    """A process that leads when it can: this module, or another program that says the same words."""

    @classmethod
    async def of_kinformer(cls, name: str, server: str) -> Candidate:
        """Start this module for a URL or the path of a kubeconfig."""
        return await cls.start(name, sys.executable, "-m", "tests.support.candidates", server, "lock", name)

    @property
    def acts(self) -> list[float]:
        """When it acted as the leader."""
        return [float(line[1]) for line in self.lines if line[0] == "act"]

    async def says(self, word: str, more: int = 1) -> None:
        """Wait until it has said a word some more times."""
        wanted = self.count(word) + more
        await until(lambda: self.count(word) >= wanted, 30, what=f"{self.name} says {word}")


def check_never_both(*candidates: Candidate) -> None:
    """Fail if a candidate acted between two acts of one lead of another."""
    acts = sorted((at, candidate.name) for candidate in candidates for at in candidate.acts)
    changes = [acts[0][1], *(name for (_, before), (_, name) in pairwise(acts) if before != name)]
    for candidate in candidates:  # one that acted again after another had lost the lead in between, and knew it
        assert changes.count(candidate.name) <= candidate.count("lost") + 1, changes


# --- in the process ---------------------------------------------------------------------------------------------------


def block() -> None:
    say("blocked", boot_time())
    end = time.monotonic() + BLOCK
    while time.monotonic() < end:
        time.sleep(0.05)


async def lead(client: Client, elector: LeaderElector) -> None:
    async with elector.leading():
        while True:
            now = boot_time()  # before the question: who is stopped in between has not acted
            if elector.is_leader:
                say("act", now)
            try:
                body = {"data": {"writer": elector.identity}}
                await client.request("PATCH", CONFIG_MAP, body=body, params={"fieldManager": elector.identity})
                say("sent")
            except LeadershipLostError:
                say("refused")
            except KinformerError as error:
                say("failed", type(error).__name__)
            await asyncio.sleep(0.02)


async def main(server: str, lease: str, identity: str) -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, block)
    async with Client.from_url(server) if "://" in server else Client.from_kubeconfig(server) as client:
        elector = LeaderElector(client, namespace="default", name=lease, identity=identity, **LEASE)
        say("ready")
        while True:
            try:
                await lead(client, elector)
            except LeadershipLostError as error:
                say("lost", error)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
