"""Loops that were closed without leaving what ran on them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap

import pytest

from kinformer import SharedInformer
from tests.support.memory_source import MemorySource

CLOSED = """
    import asyncio, os
    from kinformer import Controller, Reflector, SharedInformer, Store, meta_namespace_key
    from tests.support.memory_source import MemorySource

    source = MemorySource()
    source.set("a")
    informer = SharedInformer(source)
    reflector = Reflector(source, Store(meta_namespace_key))
    loop = asyncio.new_event_loop()
    running = loop.create_task(reflector.run())
    controller = Controller(lambda request: asyncio.sleep(0), name="test").for_(informer)
    reconciling = loop.create_task(controller.run())
    loop.run_until_complete(informer.__aenter__())
    loop.run_until_complete(informer.wait_synced(timeout=5))
    loop.run_until_complete(asyncio.sleep(0.1))
    assert informer.health().live and reflector.health().live and controller.synced
    loop.close()
    for health in (informer.health(), reflector.health()):
        assert (health.live, health.state) == (False, "stopped"), health
    assert not controller.synced
    assert [obj.name for obj in informer.lister] == ["a"]
    print("as it should be", flush=True)
    os._exit(0)  # the abandoned tasks are not the question
"""


@pytest.mark.process
def test_an_informer_whose_loop_was_closed_is_not_live_although_it_was_never_left() -> None:
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(CLOSED)], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.stdout == "as it should be\n", run.stderr


async def test_another_loop_may_read_and_is_refused_everything_else() -> None:
    source = MemorySource()
    source.set("a")
    refused: list[str] = []

    async with SharedInformer(source) as informer:
        await informer.wait_synced(timeout=5)

        async def other() -> None:
            assert len(informer.lister) == 1
            assert informer.health().live
            for call in (
                lambda: informer.wait_synced(timeout=1),
                lambda: informer.wait_for_resource_version("99999"),
                lambda: informer.__aexit__(None, None, None),
            ):
                with pytest.raises(RuntimeError, match="belongs to another event loop") as caught:
                    await call()
                refused.append(str(caught.value))
            with pytest.raises(RuntimeError, match="belongs to another event loop"):
                informer.add_event_handler(on_add=print)

        await asyncio.to_thread(lambda: asyncio.run(other()))
        assert len(refused) == 3
        assert informer.health().live


def test_an_informer_of_a_loop_that_has_ended_says_so_and_still_reads() -> None:
    source = MemorySource()
    source.set("a")
    informer = SharedInformer(source)

    async def main() -> None:
        async with informer:
            await informer.wait_synced(timeout=5)

    asyncio.run(main())
    assert [obj.name for obj in informer.lister] == ["a"]
    assert not informer.health().live
    with pytest.raises(RuntimeError, match="has already been entered; create a new one"):
        asyncio.run(informer.__aenter__())
