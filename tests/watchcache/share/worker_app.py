"""An application for real web servers with several workers, which share one cache.

KUBERNETES_URL is the server, and SOCKET the path of the socket. `/` answers what this worker has and is.
"""

from __future__ import annotations

import json
import os
from typing import Any

from kinformer import Client, SharedInformerFactory
from kinformer.watchcache import Share


class App:
    """An ASGI application."""

    def __init__(self) -> None:
        self.share = Share(os.environ["SOCKET"])  # before the fork, if the server loads it first
        self.factory: SharedInformerFactory | None = None

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif self.factory is not None:
            maps = self.factory.for_resource("v1/configmaps")
            told = {
                "pid": os.getpid(),
                "role": self.share.role,
                "holder": self.share.holder,
                "names": sorted(obj.name for obj in maps.lister.list()),
            }
            headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": json.dumps(told).encode()})

    async def _live(self, receive: Any, send: Any) -> None:
        await receive()
        async with (
            Client.from_url(os.environ["KUBERNETES_URL"]) as client,
            SharedInformerFactory(client, share=self.share) as self.factory,
        ):
            self.factory.for_resource("v1/configmaps")
            await self.factory.wait_for_cache_sync(10)
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})


app = App()
