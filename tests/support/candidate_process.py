"""A candidate in a process of its own: leads when it can, and says on stdout when it did.

    python -m tests.support.candidate_process URL-OR-KUBECONFIG LEASE IDENTITY

A line is `act TIME` (on CLOCK_BOOTTIME, which all processes of a machine share) for each moment at which it acted as
the leader, `sent` after a write that the server took, `refused` after one that was not sent, `lost` after a lost lead.
SIGUSR1 blocks its event loop for `BLOCK` seconds.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time

from kinformer import Client, KinformerError, LeaderElector, LeadershipLostError
from kinformer._runtime.clock import SYSTEM
from tests.support.line_process import say

LEASE = {"lease_duration": 1.5, "renew_deadline": 1.0, "retry_period": 0.2}
BLOCK = 4.0  # two leases of 1.5 s, which a Lease says as 2
CONFIG_MAP = "/api/v1/namespaces/default/configmaps/written-by-leaders"


def block() -> None:
    say("blocked", SYSTEM.boot())
    end = time.monotonic() + BLOCK
    while time.monotonic() < end:
        time.sleep(0.05)


async def lead(client: Client, elector: LeaderElector) -> None:
    async with elector.leading():
        while True:
            now = SYSTEM.boot()  # before the question: who is stopped in between has not acted
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
