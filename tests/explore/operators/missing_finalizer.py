"""A missing finalizer: a Bucket has its thing in a cloud, which is left over if no process runs when it is deleted.

coryodaniel/bonny#72.
"""

from __future__ import annotations

from kinformer import Client, Controller, Request, SharedInformerFactory
from kinformer.controller import Finalizer
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition
from tests.explore.operators.external import Cloud

FINDS = "the_cloud_has_what_people_want"
STORY = r"people     deletes example.com/v1/buckets default/a"
BUCKETS = "example.com/v1/buckets"


class Operator:
    def __init__(self, cloud: Cloud, *, mended: bool) -> None:
        self.cloud = cloud
        self.mended = mended

    async def run(self, client: Client) -> None:
        finalizer = Finalizer(client, BUCKETS, "example.com/cloud")
        async with SharedInformerFactory(client) as factory:
            buckets = factory.for_resource(BUCKETS)

            async def reconcile(request: Request) -> None:
                bucket = buckets.by_key.get(request.key)
                if bucket is None:
                    await self.cloud.delete(request.name)  # if it is gone while this runs
                elif bucket.deletion_timestamp is not None:
                    await self.cloud.delete(request.name)
                    await finalizer.remove(bucket)
                else:
                    if self.mended:
                        bucket = await finalizer.add(bucket)
                    await self.cloud.make(request.name, bucket.uid)

            await Controller(reconcile).for_(buckets).run()


def declare(world: World, *, mended: bool) -> None:
    cloud = Cloud()

    def the_cloud_has_what_people_want(state: ClusterState) -> None:
        wanted = {bucket["metadata"]["name"]: bucket["metadata"]["uid"] for bucket in state.list(BUCKETS)}
        assert cloud.buckets == wanted, f"{set(cloud.buckets)} instead of {set(wanted)}"

    world.apply(definition("Bucket"))
    world.run(Operator(cloud, mended=mended).run)
    world.script(world.create(custom("Bucket", "a")), world.create(custom("Bucket", "b")))
    world.script(world.delete(BUCKETS, "default/a"))
    world.eventually(the_cloud_has_what_people_want)
