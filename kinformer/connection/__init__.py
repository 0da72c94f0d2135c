"""The connection to an API server: configuration, credentials, requests and discovery.

May import: `objects` and below. aiohttp and kubernetes_asyncio are imported only here and in `listwatch`. Reading
order: connection, config, transport, aiohttp_internals, body, responses.
"""
