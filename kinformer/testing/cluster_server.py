"""The common interface of test servers, so that tests, fixtures and helpers work with any of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from kinformer.client.client import Client

__all__ = ["ClusterServer"]


class ClusterServer(Protocol):
    """An API server to test against, implemented by `APIServer` and `ControlPlane`.

    ::

        async def test_it(kube_apiserver: ClusterServer) -> None:
            async with kube_apiserver.client() as client: ...

    It can be entered once. The two servers have nothing else in common. The embedded server can be written to
    directly (`create`, `update`, `delete`), misbehaves on request (`faults`, `pause`) and keeps a log of its
    `requests`. The real one has two processes that can be stopped and killed.
    """

    @property
    def url(self) -> str:
        """Scheme, host and port, unchanged by restarts. Raises RuntimeError before the server is entered."""
        ...

    @property
    def ca_file(self) -> Path | None:
        """The PEM file that verifies an `https` URL, or None if the URL is plain `http`."""
        ...

    def token(self, user: str | None = None) -> str | None:
        """Return the bearer token of a user, by default one with all rights, or None if no token is needed.

        Raises:
            ConfigError: `users` did not name this user.
        """
        ...

    def client(self, user: str | None = None) -> Client:
        """Return a client for a user, by default one with all rights. Enter it like any `Client`.

        Raises:
            ConfigError: `users` did not name this user.
        """
        ...

    def kubeconfig(self, path: str | os.PathLike[str], user: str | None = None) -> Path:
        """Write a kubeconfig for a user, readable by its owner alone (it may hold a token), and return its path."""
        ...

    async def install_crds(self, *sources: str | os.PathLike[str] | Mapping[str, Any]) -> None:
        """Create or replace CustomResourceDefinitions. All their versions are served when this returns.

        Args:
            sources: Files, folders or dicts.

        Raises:
            ConfigError: A source cannot be read or contains no CustomResourceDefinition.
            APIError: The server refuses a definition.
        """
        ...

    async def compact(self) -> int:
        """Discard all history before the current revision, and return that revision.

        A watch from an older revision gets a 410, at the latest after the next `restart()`.
        """
        ...

    async def restart(self, downtime: float = 0.0) -> None:
        """Close all connections, stay down for `downtime` seconds, and return on the same URL with the same data.

        Informers come back after their backoff, which grows with each restart: see `APIServer.restart`.
        """
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
