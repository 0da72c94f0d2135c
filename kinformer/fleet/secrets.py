"""The Secrets of a hub cluster, each with a kubeconfig, as a source of clusters."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import NamedTuple

import anyio.to_thread

from kinformer._runtime.clock import YieldBudget
from kinformer.client.client import Client
from kinformer.connection.config import ClientKeywords
from kinformer.connection.kubeconfig import load_kubeconfig, parse_kubeconfig
from kinformer.exceptions import ConfigError
from kinformer.fleet.sources import ClusterNames, Desired, WantedCluster
from kinformer.informer.collection import Collection, core_of, wait_until_synced
from kinformer.metrics import Metrics
from kinformer.objects.accessors import string_at
from kinformer.objects.object import KubeObject

__all__ = ["SecretClusters"]

_BATCH = 1000  # the most changes that are handled together

# The fields of a kubeconfig that use the machine that reads it: files, and programs to run.
_LOCAL = {
    "clusters": ("cluster", ("certificate-authority",)),
    "users": ("user", ("exec", "auth-provider", "tokenFile", "client-certificate", "client-key")),
}


class _Parsed(NamedTuple):
    """A Secret, the digest of its kubeconfig, and the result of parsing it."""

    secret: KubeObject
    digest: str
    result: WantedCluster | ConfigError


class SecretClusters:
    """Secrets with a kubeconfig, each of them a cluster.

    Args:
        secrets: The Secrets, which their owner enters.
        key: The key of the kubeconfig in `data`.
        cluster_of: Returns the cluster name for a Secret, or None to leave it out.
        trusted: True to accept kubeconfigs that name files of this machine, or programs to run.
        client_options: Options of the clients.

    Attributes:
        secrets: See above.
    """

    def __init__(
        self,
        secrets: Collection[KubeObject],
        *,
        key: str,
        cluster_of: Callable[[KubeObject], str | None],
        trusted: bool,
        client_options: ClientKeywords,
    ) -> None:
        self.secrets = secrets
        self._key = key
        self._cluster_of = cluster_of
        self._trusted = trusted
        self._client_options = client_options
        self._parsed: dict[str, _Parsed] = {}  # by key, so that a Secret is parsed again only after a change

    @property
    def description(self) -> str:
        """The source in words, with the name of the collection."""
        return f"the Secrets of {self.secrets.name}"

    @property
    def metrics(self) -> Metrics | None:
        """The metrics sink of the Secrets, if there is one."""
        core = core_of(self.secrets)
        sink: Metrics | None = None if core is None else core.sink
        return sink

    async def states(self) -> AsyncIterator[Desired | Exception]:
        """Yield the clusters at first and after each change of a Secret."""
        async with self.secrets.events(queue_size=None, name="fleet") as stream:
            await wait_until_synced(self.secrets)
            yield await self._desired()
            while await stream.read(_BATCH):
                yield await self._desired()

    async def _desired(self) -> Desired:
        secrets = sorted(self.secrets.lister.list(), key=lambda secret: str(secret.key))
        clusters: dict[str, WantedCluster] = {}
        names = ClusterNames(self._cluster_of)
        failures = names.failures
        budget = YieldBudget()
        for secret in secrets:
            if budget.exhausted():
                await budget.pause()
            where = f"Secret {secret.key}"
            name = names.name_of(secret, secret.key, where)
            if name is None:
                continue
            result = await self._wanted(secret, where)
            if isinstance(result, WantedCluster):
                clusters[name] = result
            else:
                failures[name] = result
        for key in self._parsed.keys() - {secret.key for secret in secrets}:
            del self._parsed[key]
        return Desired(clusters, failures)

    async def _wanted(self, secret: KubeObject, where: str) -> WantedCluster | ConfigError:
        parsed = self._parsed.get(secret.key)
        if parsed is not None and parsed.secret is secret:
            return parsed.result
        value = string_at(secret, "data", self._key)
        if not value:
            return ConfigError(f"{where}: data.{self._key}: is missing")
        digest = hashlib.sha256(value.encode()).hexdigest()
        if parsed is not None and parsed.digest == digest:
            self._parsed[secret.key] = parsed._replace(secret=secret)
            return parsed.result
        try:
            # In a thread: the YAML of a large kubeconfig takes tens of milliseconds.
            content = await anyio.to_thread.run_sync(_content, value, f"{where}: data.{self._key}", self._trusted)
            make = partial(Client.from_kubeconfig, content, **self._client_options)
            result: WantedCluster | ConfigError = WantedCluster(make, digest)
        except Exception as error:  # noqa: BLE001 - it is this Secret's
            result = error if isinstance(error, ConfigError) else ConfigError(f"{where}: {type(error).__name__}")
        self._parsed[secret.key] = _Parsed(secret, digest, result)
        return result


def _content(value: str, where: str, trusted: bool) -> dict[str, object]:
    """Return the kubeconfig in a value of a Secret.

    Raises:
        ConfigError: It is not a kubeconfig, or it uses this machine and is not trusted.
    """
    try:
        document = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ConfigError(f"{where}: is not base64") from None
    content = parse_kubeconfig(document, where)
    if not trusted:
        _refuse_local(content, where)
    try:
        load_kubeconfig(content)  # so that an error has the name of the Secret
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return content


def _refuse_local(content: dict[str, object], where: str) -> None:
    """Raise ConfigError if a kubeconfig names files of this machine, or programs to run on it."""
    for section, (part, names) in _LOCAL.items():
        entries = content.get(section)
        for entry in entries if isinstance(entries, list) else []:
            body = entry.get(part) if isinstance(entry, dict) else None
            for name in names:
                if isinstance(body, dict) and body.get(name):
                    fault = f"{where}: {section}[{entry.get('name')}].{part}.{name}: uses local files or programs"
                    raise ConfigError(f"{fault}; pass trusted=True if everyone who can write these Secrets may do that")
