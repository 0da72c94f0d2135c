"""The connection to an API server: configuration, credentials, requests and discovery.

May import: `objects` and below. aiohttp's client and kubernetes_asyncio are imported here alone, except by
`watchcache.proxy`, which streams the answers of the server.
Reading order: connection, config, transport, aiohttp_internals, body, responses, then any other.
Tests: tests/client.
"""
