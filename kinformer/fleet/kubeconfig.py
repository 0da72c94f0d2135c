"""The contexts of a kubeconfig as a source of clusters."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path

import anyio.to_thread

from kinformer._runtime.clock import YieldBudget
from kinformer.client.client import Client
from kinformer.connection.config import ClientKeywords
from kinformer.connection.kubeconfig import context_digests, kubeconfig_files
from kinformer.exceptions import ConfigError
from kinformer.fleet.sources import ClusterNames, Desired, WantedCluster

__all__ = ["KubeconfigContexts", "name_of_context"]

Signature = list[tuple[int, int, int] | None]


def name_of_context(context: str) -> str:
    """Return the cluster name for a context: the context's own, with `_` for each slash."""
    return context.replace("/", "_")


class KubeconfigContexts:
    """The contexts of a kubeconfig, each of them a cluster.

    Args:
        path: The file. None uses the files of KUBECONFIG, or else `~/.kube/config`.
        cluster_of: Returns the cluster name for a context, or None to leave it out.
        poll: Seconds between two checks of the files.
        client_options: Options of the clients.
    """

    metrics = None

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        *,
        cluster_of: Callable[[str], str | None],
        poll: float,
        client_options: ClientKeywords,
    ) -> None:
        self._path = path
        self._files = kubeconfig_files(path)
        self._cluster_of = cluster_of
        self._poll = poll
        self._client_options = client_options

    @property
    def description(self) -> str:
        """The source in words, with the names of the files."""
        return f"the kubeconfig {', '.join(map(str, self._files))}"

    async def states(self) -> AsyncIterator[Desired | Exception]:
        """Yield the contexts at first and after each change of the files, or a ConfigError if they cannot be read."""
        before: Signature | None = None
        while True:
            signature = await anyio.to_thread.run_sync(_signature, self._files)
            if signature != before:
                before = signature
                try:
                    yield await self._desired(await anyio.to_thread.run_sync(context_digests, self._path))
                except ConfigError as error:
                    yield error
            await asyncio.sleep(self._poll)

    async def _desired(self, digests: dict[str, str]) -> Desired:
        clusters: dict[str, WantedCluster] = {}
        names = ClusterNames(self._cluster_of)
        budget = YieldBudget()
        for context, digest in digests.items():
            if budget.exhausted():
                await budget.pause()
            name = names.name_of(context, context, f"{self.description}, context {context!r}")
            if name is not None:
                make = partial(Client.from_kubeconfig, self._path, context=context, **self._client_options)
                clusters[name] = WantedCluster(make, digest)
        return Desired(clusters, names.failures)


def _signature(files: list[Path]) -> Signature:
    """Return values that differ after a change of the files: times, sizes and inodes."""
    signature: Signature = []
    for file in files:
        try:
            status = file.stat()
        except OSError:
            signature.append(None)
        else:
            signature.append((status.st_mtime_ns, status.st_size, status.st_ino))
    return signature
