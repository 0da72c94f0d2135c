"""The interface of the servers to test against, so that a test, a fixture or a helper takes any of them."""

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
    """An API server that tests talk to: `APIServer` and `ControlPlane` both are one.

    ::

        async def test_it(kube_apiserver: ClusterServer) -> None:
            async with kube_apiserver.client() as client: ...

    It is entered once. Everything else differs between the two: the embedded server is written to directly
    (`create`, `update`, `delete`), misbehaves on request (`faults`, `pause`) and keeps a log of its `requests`; the
    real one has two processes that can be stopped and killed.
    """

    @property
    def url(self) -> str:
        """Scheme, host and port; the same until it is left, restarts included. RuntimeError before it is entered."""
        ...

    @property
    def ca_file(self) -> Path | None:
        """The PEM file that verifies an `https` URL; None if the URL is plain `http`."""
        ...

    def token(self, user: str | None = None) -> str | None:
        """The bearer token of a user, by default one with all rights; None if none is needed.

        Raises:
            ConfigError: `users` did not name this user.
        """
        ...

    def client(self, user: str | None = None) -> Client:
        """A client for a user, by default one with all rights. To be entered, like every `Client`.

        Raises:
            ConfigError: `users` did not name this user.
        """
        ...

    def kubeconfig(self, path: str | os.PathLike[str], user: str | None = None) -> Path:
        """Write a kubeconfig for a user, readable by its owner alone (it may hold a token), and return its path."""
        ...

    async def install_crds(self, *sources: str | os.PathLike[str] | Mapping[str, Any]) -> None:
        """Create, or replace, CustomResourceDefinitions; all their versions are served when it returns.

        Args:
            sources: Files, folders or dicts.

        Raises:
            ConfigError: a source cannot be read or holds no CustomResourceDefinition.
            APIError: the server refuses one.
        """
        ...

    async def compact(self) -> int:
        """Forget all history before the present revision, and return that revision.

        A watch from before it gets its 410 after the next `restart()` at the latest.
        """
        ...

    async def restart(self, downtime: float = 0.0) -> None:
        """Cut all connections, stay away for `downtime` seconds, and come back on the same URL with the same data."""
        ...

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
