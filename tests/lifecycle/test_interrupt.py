"""Ctrl-C in a plain program: the informers are left in order, and nothing is printed if the program expects it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.process, pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")]

PROGRAM = """
import asyncio, contextlib
from kinformer import Client, SharedInformerFactory
from kinformer.testing import APIServer

async def main():
    async with APIServer() as server, Client.from_url(server.url) as client, SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods")
        pods.add_event_handler(on_add=lambda pod: None)
        await factory.wait_for_cache_sync(timeout=30)
        try:
            print("synced", flush=True)
            await asyncio.Event().wait()
        finally:
            print("left", flush=True)

with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
"""


def test_ctrl_c_ends_a_program_that_expects_it_without_a_traceback() -> None:
    command = [sys.executable, "-W", "default", "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "synced\n"
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=30)
    assert (process.returncode, output, errors) == (0, "left\n", "")
