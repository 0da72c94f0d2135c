"""An existing cluster, given by its kubeconfig, instead of a server that tests start themselves."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self

import yaml

from kinformer.connection.kubeconfig import load_kubeconfig
from kinformer.exceptions import ConfigError
from kinformer.testing.clusters.crd_install import install
from kinformer.testing.kinds.crd_files import read_crds
from kinformer.testing.logins import write_secret

if TYPE_CHECKING:
    from kinformer.client.client import Client

__all__ = ["ExistingCluster"]

CRD_TIMEOUT = 60.0  # seconds. The cluster may be remote and busy
FILES = ("certificate-authority", "client-certificate", "client-key", "tokenFile")


class ExistingCluster:
    """`async with ExistingCluster() as cluster`: the cluster of a kubeconfig's context, as a `ClusterServer`.

    The cluster does not belong to the test, so it cannot be compacted or restarted, and has no test users.

    Args:
        kubeconfig: The file, by default the file in KUBECONFIG, or else `~/.kube/config`.
        context: The name of the context, by default the file's current one.

    Raises:
        ConfigError: The file or the context cannot be read, or KUBECONFIG names several files.
    """

    def __init__(self, kubeconfig: str | os.PathLike[str] | None = None, *, context: str | None = None) -> None:
        self._file = _file(kubeconfig)
        self._context = context
        self._connection = load_kubeconfig(self._file, context=context)
        self._folder: Path | None = None

    @property
    def url(self) -> str:
        return self._connection.server

    @property
    def ca_file(self) -> Path | None:
        """The PEM file of the kubeconfig's authority, or None if it relies on the system's authorities."""
        authority = self._connection.tls.ca
        if authority is None or self._folder is None:
            return None
        return self._folder / "ca.crt"

    def token(self, user: str | None = None) -> str | None:
        """Raise `ConfigError`, because the kubeconfig defines the login. Use `client()` or `kubeconfig()`."""
        raise ConfigError(
            f"{self._file}: tokens of an existing cluster are not available; use client() or kubeconfig()"
        )

    def client(self, user: str | None = None) -> Client:
        from kinformer.client.client import Client

        self._no_users(user)
        return Client.from_kubeconfig(self._file, context=self._context)

    def kubeconfig(self, path: str | os.PathLike[str], user: str | None = None) -> Path:
        """Write a copy of the kubeconfig with the context as its current one, and return its path."""
        self._no_users(user)
        config = yaml.safe_load(self._file.read_text(encoding="utf-8"))
        if self._context is not None:
            config["current-context"] = self._context
        for section, inner in (("clusters", "cluster"), ("users", "user")):
            for entry in config.get(section) or ():
                for name in FILES:
                    if value := (entry.get(inner) or {}).get(name):
                        entry[inner][name] = str(self._file.parent / value)  # relative to the original file
        target = Path(path)
        write_secret(target, yaml.safe_dump(config, sort_keys=False).encode())
        return target

    async def install_crds(self, *sources: str | os.PathLike[str] | Mapping[str, Any]) -> None:
        crds = read_crds(*sources)
        async with self.client() as client:
            await install(client, crds, CRD_TIMEOUT)

    async def compact(self) -> int:
        """Raise RuntimeError, because a test must not compact an existing cluster."""
        self._refuse("compacted")

    async def restart(self, downtime: float = 0.0) -> None:
        """Raise RuntimeError, because a test must not restart an existing cluster."""
        self._refuse("restarted")

    def _refuse(self, what: str) -> NoReturn:
        raise RuntimeError(f"{self.url} is an existing cluster, which must not be {what} by a test")

    def _no_users(self, user: str | None) -> None:
        if user is not None:
            raise ConfigError(f"no user {user!r}: an existing cluster has only the user of its kubeconfig")

    async def __aenter__(self) -> Self:
        self._folder = Path(tempfile.mkdtemp(prefix="kinformer-cluster-"))
        if self._connection.tls.ca is not None:
            (self._folder / "ca.crt").write_bytes(self._connection.tls.ca.read())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder)


def _file(kubeconfig: str | os.PathLike[str] | None) -> Path:
    named = os.fspath(kubeconfig) if kubeconfig is not None else os.environ.get("KUBECONFIG") or "~/.kube/config"
    if os.pathsep in named and not Path(named).exists():
        raise ConfigError(f"KUBECONFIG: {named!r} names several files; name the one to test against")
    return Path(named).expanduser().absolute()
