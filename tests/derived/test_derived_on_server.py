"""Derived collections over informers of a factory, on the embedded server."""

from __future__ import annotations

import pytest

from kinformer import Client, SharedInformerFactory, StoppedError
from kinformer.derived import mapped
from kinformer.testing import MakePod


async def test_a_factory_enters_what_it_is_given_and_leaves_it_before_the_informers(
    client: Client, make_pod: MakePod
) -> None:
    await make_pod("web-1")
    async with SharedInformerFactory(client) as factory:
        names = factory.add(mapped(factory.for_resource("v1/pods"), lambda pod: pod.name))
        lengths = factory.add(mapped(names, len))
        await lengths.wait_synced(10)
        assert list(lengths.lister) == [5]
    assert lengths.health().state == "stopped"
    with pytest.raises(StoppedError, match="was exited"):
        lengths.add_event_handler(on_add=print)
