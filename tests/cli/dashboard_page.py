"""A dashboard on a server, and the scripts that read its page in a browser.

Internals: the board of a dashboard, since only `kinformer dashboard` makes one that can open resources.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from kinformer import Backoff, SharedInformerFactory
from kinformer.cli.coverage import Scope
from kinformer.cli.dashboard import cluster_app
from kinformer.cli.dashboard.board import board_of
from kinformer.cli.dashboard.catalogue import Catalogue
from kinformer.contrib.fastapi import kinformer_lifespan
from kinformer.contrib.problems import Problems
from kinformer.kinds import is_namespaced
from kinformer.testing import APIServer
from tests.support.web_server import serving

NAMES = "[...document.querySelectorAll('#body .row')].filter(r => !r.hidden).map(r => r.cells[0].textContent)"
PODS = 'kinformer.store.count("v1/pods")'
NAMESPACES = "[...document.getElementById('namespace').options].map(option => option.value)"
SORTED = "[...document.querySelectorAll('#head [aria-sort$=cending]')].map(cell => cell.dataset.column)"
CHOSEN = "document.getElementById('namespace').value"
TROUBLE = "document.getElementById('trouble').hidden ? '' : document.getElementById('trouble').textContent"
WITHHELD = "document.getElementById('withheld').hidden ? '' : document.getElementById('withheld').innerText"
LINK = "document.getElementById('link').textContent"
BODY = "document.getElementById('detail-body').textContent"
OPENED = "document.getElementById('detail').hidden ? '' : document.getElementById('detail-name').textContent"
FOCUS = "document.activeElement.id || document.activeElement.className"

Open = Callable[..., Any]


@asynccontextmanager
async def serving_dashboard(
    server: APIServer,
    resources: Sequence[str] = ("v1/pods", "v1/nodes"),
    *,
    picks: bool = False,
    problems: bool = False,
    grace: float | None = 0,
    user: str | None = None,
    namespace: str | None = None,
    derive: Callable[[SharedInformerFactory], object] = lambda _: None,
    **options: Any,
) -> AsyncIterator[str]:
    """The URL of a dashboard; with `picks` its page can open other resources too, as that of the command can.

    With `problems` it follows the problems too, as that of the command does, after `grace` seconds instead of the grace
    times of the rules. `derive` gives derived collections to the factory.
    """

    @asynccontextmanager
    async def setup() -> AsyncIterator[SharedInformerFactory]:
        backoff = Backoff(initial=0.02, maximum=0.1)
        async with (
            server.client(user) as client,
            SharedInformerFactory(client, backoff=backoff) as factory,
            AsyncExitStack() as stack,
        ):
            for resource in resources:
                scoped = namespace is not None and is_namespaced(resource)
                factory.for_resource(resource, **({"namespace": namespace} if scoped else {}))
            derive(factory)
            if picks or problems:
                board = await board_of(factory, Catalogue(client, factory, namespace))
            if problems:
                scope = Scope(client, factory, namespace)
                await scope.update()
                found = await stack.enter_async_context(Problems(factory, namespace=namespace, grace=grace))
                board.show(found, scope)
            yield factory

    async with serving(cluster_app(lifespan=kinformer_lifespan(setup)), **options) as url:
        yield url
