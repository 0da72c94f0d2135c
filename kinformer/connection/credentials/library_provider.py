"""The old `auth-provider` `gcp` of kubeconfigs, by kubernetes_asyncio."""

from __future__ import annotations

import asyncio
import json
from typing import Protocol

import anyio.to_thread

from kinformer.connection.credentials.credential import REREAD, AuthProvider, reason_of
from kinformer.exceptions import CredentialError

__all__ = ["LibraryProvider"]


class _Configuration(Protocol):
    """The Configuration of kubernetes_asyncio."""

    api_key: dict[str, str]


class _Loader(Protocol):
    """The KubeConfigLoader of kubernetes_asyncio."""

    async def load_and_set(self, client_configuration: _Configuration, /) -> object: ...


class LibraryProvider(AuthProvider):
    """The old `auth-provider` `gcp`, as far as kubernetes_asyncio renews it.

    It is checked once a minute, and immediately after a 401. Renewed tokens stay in memory, because the kubeconfig
    is never written. The first use imports kubernetes_asyncio (about 0.6 s and 40 MB), in a thread.

    Args:
        kubeconfig: A kubeconfig with one context, cluster and user, as a dict.
        where: The file and field, for messages.
    """

    def __init__(self, kubeconfig: dict[str, object], *, where: str) -> None:
        self._kubeconfig = kubeconfig
        super().__init__(self._load, where)
        self._loader: _Loader | None = None
        self._configuration: _Configuration | None = None
        self._looked_at = 0.0
        self._authorization: str | None = None

    async def authorization(self) -> str | None:
        if self._loader is None or asyncio.get_running_loop().time() - self._looked_at >= REREAD:
            await self._flight.get()
        return self._authorization

    async def _load(self) -> None:
        try:
            if self._loader is None:
                await anyio.to_thread.run_sync(self._prepare)
            assert self._loader is not None
            assert self._configuration is not None
            await self._loader.load_and_set(self._configuration)
        except Exception as error:  # noqa: BLE001 - any exception of a provider concerns this field
            self.failure = f"{self._where}: no credential: gcp: {_reason(error)}"
            raise CredentialError(self.failure) from None
        self.failure = ""
        self._looked_at = asyncio.get_running_loop().time()
        self._authorization = self._configuration.api_key.get("BearerToken")

    def _prepare(self) -> None:
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config.kube_config import KubeConfigLoader

        self._configuration = Configuration()
        self._loader = KubeConfigLoader(config_dict=self._kubeconfig)


def _reason(error: Exception) -> str:
    """Return the field of the config and the reason. Other messages and the cause may quote the token."""
    match error:
        case KeyError() | TypeError() | UnicodeError() | json.JSONDecodeError():
            return "cmd-path did not print the JSON of gcloud, with credential.access_token and credential.token_expiry"
        case OSError():
            return f"cmd-path cannot be run: {reason_of(error)}"
        case ValueError():
            return "cmd-path and cmd-args must be set to run gcloud, and expiry must be a time"
    name = type(error).__name__
    # Only these two have messages that quote no secret.
    return str(error) if name in ("ConfigException", "ModuleNotFoundError") else name
