"""A finalizer that is removed before the clean-up: a crash between the two leaves the thing in the cloud.

The order, and that the clean-up has to be seen done: open-cluster-management-io/work#16, pingcap/tidb-operator#6532.
"""

from __future__ import annotations

from kinformer import Client, Controller, Request, SharedInformerFactory
from kinformer.controller import Finalizer
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition, names
from tests.explore.operators.external import Cloud

FINDS = "no_record_is_left"
STORY = r"patch example.com/v1/records default/a: 200"
RECORDS = "example.com/v1/records"


class Operator:
    def __init__(self, dns: Cloud, *, mended: bool) -> None:
        self.dns = dns
        self.mended = mended

    async def run(self, client: Client) -> None:
        finalizer = Finalizer(client, RECORDS, "example.com/dns")
        async with SharedInformerFactory(client) as factory:
            records = factory.for_resource(RECORDS)

            async def reconcile(request: Request) -> None:
                record = records.by_key.get(request.key)
                if record is None:
                    return  # gone, and cleaned up
                if record.deletion_timestamp is None:
                    record = await finalizer.add(record)
                    await self.dns.make(record.name, record.uid)
                elif not finalizer.is_on(record):
                    return
                elif self.mended:
                    await self.dns.delete(record.name)
                    await finalizer.remove(record)
                else:
                    await finalizer.remove(record)
                    await self.dns.delete(record.name)

            await Controller(reconcile).for_(records).run()


def declare(world: World, *, mended: bool) -> None:
    dns = Cloud()

    def no_record_is_left(state: ClusterState) -> None:
        assert set(dns.buckets) == names(state.list(RECORDS)), f"{set(dns.buckets)}"

    world.apply(definition("Record"))
    world.run(Operator(dns, mended=mended).run)
    world.script(world.create(custom("Record", "a")), world.create(custom("Record", "b")))
    world.script(world.delete(RECORDS, "default/a"))
    world.eventually(no_record_is_left)
