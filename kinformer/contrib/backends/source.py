"""The source of a pool: the EndpointSlices of a Service, or the Pods with certain labels."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypedDict, get_args

from kinformer import LabelSelector, SharedInformer, SharedInformerFactory
from kinformer.contrib.backends.backend import Family, Listing
from kinformer.contrib.backends.endpoints import POD_FIELDS, backends_of_pod, backends_of_slice
from kinformer.derived import DerivedCollection, mapped
from kinformer.exceptions import ConfigError
from kinformer.objects import NoModel

__all__ = ["BackendSource"]

_SERVICE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SERVICE_NAME = "kubernetes.io/service-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSource:
    """The objects that a pool is computed from, and the rules by which it takes their addresses and ports.

    Raises:
        ConfigError: A value is invalid.
        SelectorError: The selector does not parse.
    """

    factory: SharedInformerFactory
    service: str | None
    selector: str | Mapping[str, str] | LabelSelector | None
    namespace: str | None
    port: str | int | None
    family: Family | None

    def __post_init__(self) -> None:
        if (self.service is None) == (self.selector is None):
            raise ConfigError("expected either service='namespace/name' or selector='app=web'")
        if self.service is None:
            LabelSelector.parse(self.selector)
        elif not _SERVICE.fullmatch(self.service):
            raise ConfigError(f"service: expected 'namespace/name', got {self.service!r}")
        elif self.namespace is not None:
            raise ConfigError("namespace: only with selector=, because service= has the namespace in it")
        port = self.port
        if port == "" or isinstance(port, bool) or (isinstance(port, int) and not 0 < port < 65536):
            raise ConfigError(f"port: expected a name or a number from 1 to 65535, got {port!r}")
        if self.family not in (None, *get_args(Family)):
            raise ConfigError(f"family: expected one of {', '.join(get_args(Family))}, got {self.family!r}")

    @property
    def words(self) -> str:
        """The Service or the selector, for names and messages."""
        return self.service or str(LabelSelector.parse(self.selector))

    @asynccontextmanager
    async def following(self, name: str) -> AsyncIterator[DerivedCollection[Listing]]:
        """Follow the objects. Yields the backends of each, by its key."""
        informer = self._informer()
        read = backends_of_slice if self.service is not None else backends_of_pod
        try:
            async with mapped(informer, read(self.port, self.family), name=name) as collection:
                yield collection
        finally:
            await self.factory.release(informer)

    def _informer(self) -> SharedInformer[NoModel]:
        """Return the informer of the objects. Defaults of the factory that would hide some of them do not apply."""
        everything = _Unfiltered(
            field_selector=None, shard_selector=None, metadata_only=False, transform=None, namespaces=None
        )
        if self.service is not None:
            namespace, _, service = self.service.partition("/")
            resource, labels = "discovery.k8s.io/v1/endpointslices", {_SERVICE_NAME: service}
            return self.factory.for_resource(
                resource, namespace=namespace, label_selector=labels, fields=None, **everything
            )
        if self.namespace is not None:
            return self.factory.for_resource(
                "v1/pods", namespace=self.namespace, label_selector=self.selector, fields=POD_FIELDS, **everything
            )
        del everything["namespaces"]  # the factory's
        return self.factory.for_resource("v1/pods", label_selector=self.selector, fields=POD_FIELDS, **everything)


class _Unfiltered(TypedDict, total=False):
    field_selector: None
    shard_selector: None
    metadata_only: bool
    transform: None
    namespaces: None
