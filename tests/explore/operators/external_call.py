"""A call that is not idempotent: an Order is charged, and charged again if the process ends before it is noted.

aws-controllers-k8s/community#2062: "Controllers Interrupted During Reconcile Create Duplicate Resources".
"""

from __future__ import annotations

from kinformer import Client, Controller, Request, SharedInformerFactory
from kinformer.controller import write_status
from kinformer.testing.explore import ClusterState, World
from tests.explore.operators.custom import custom, definition
from tests.explore.operators.external import Bank

FINDS = "each_order_is_charged_once"
STORY = r"orders/status default/\w"
ORDERS = "example.com/v1/orders"


class Operator:
    def __init__(self, bank: Bank, *, mended: bool) -> None:
        self.bank = bank
        self.mended = mended

    async def run(self, client: Client) -> None:
        async with SharedInformerFactory(client) as factory:
            orders = factory.for_resource(ORDERS)

            async def reconcile(request: Request) -> None:
                order = orders.by_key.get(request.key)
                if order is None or order.path("status.charged", False):
                    return
                await self.bank.charge(order.uid, key=order.uid if self.mended else "")
                await write_status(client, ORDERS, order, {"charged": True})

            await Controller(reconcile).for_(orders).run()


def declare(world: World, *, mended: bool) -> None:
    bank = Bank()

    def each_order_is_charged_once(state: ClusterState) -> None:
        charged = [order for order, _ in bank.charges]
        assert len(charged) == len(set(charged)), "an order is charged twice"
        for order in state.list(ORDERS):
            assert order["metadata"]["uid"] in charged
            assert order["status"]["charged"]

    world.apply(definition("Order"))
    world.run(Operator(bank, mended=mended).run)
    world.script(world.create(custom("Order", "a")), world.create(custom("Order", "b")))
    world.script(world.patch(ORDERS, "default/a", {"metadata": {"labels": {"seen": "yes"}}}))
    world.eventually(each_order_is_charged_once)
