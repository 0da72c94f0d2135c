"""Embedded servers as the clusters of a fleet, and their kubeconfigs."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from kinformer.testing import APIServer
from tests.support.kube import config_map

CONFIG_MAPS = "v1/configmaps"


@asynccontextmanager
async def clusters(*names: str) -> AsyncIterator[dict[str, APIServer]]:
    """Run a server for each name, each with a ConfigMap of this name in `default`."""
    async with AsyncExitStack() as stack:
        servers = {name: await stack.enter_async_context(APIServer()) for name in names}
        for name, server in servers.items():
            server.create(config_map(name))
        yield servers


def kubeconfig(servers: Mapping[str, APIServer | str], *, current: str = "", user: Any = None) -> dict[str, Any]:
    """Return a kubeconfig with a context for each server, or URL."""
    urls = {name: server if isinstance(server, str) else server.url for name, server in servers.items()}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": url}} for name, url in urls.items()],
        "users": [{"name": "me", "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in urls],
        "current-context": current or next(iter(urls), ""),
    }


def write(path: Path, content: object) -> None:
    """Write a kubeconfig in the place of another, in one step."""
    text = content if isinstance(content, str) else json.dumps(content)
    new = path.with_suffix(".new")
    new.write_text(text, encoding="utf-8")
    new.rename(path)


def secret(name: str, content: object, *, key: str = "kubeconfig", namespace: str = "default") -> dict[str, Any]:
    """Return a Secret with a kubeconfig."""
    text = content if isinstance(content, str) else json.dumps(content)
    data = {key: base64.b64encode(text.encode()).decode()}
    metadata = {"name": name, "namespace": namespace, "labels": {"cluster": "true"}}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
