"""The HTTP client: configuration, credentials, connections, requests and discovery.

May import: `objects` and below. aiohttp and kubernetes_asyncio are imported only here and in `listwatch`. Reading
order: client, config, transport, aiohttp_internals, body, responses.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
