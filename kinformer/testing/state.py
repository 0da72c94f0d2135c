"""The state of an embedded server, with synchronous methods that tests call directly, with all rights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import msgspec

from kinformer._runtime.clock import SYSTEM, Clock
from kinformer.apiserver.status import StatusError, bad_request
from kinformer.apiserver.storage import Storage
from kinformer.exceptions import AlreadyExistsError, APIError, ConfigError
from kinformer.kinds.builtin import parse_kind
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.requests.encoding import encode
from kinformer.testing.api.delete import DeleteOptions, Deleter
from kinformer.testing.api.lifecycle import Lifecycle
from kinformer.testing.api.write import Writer
from kinformer.testing.api.write_options import WriteOptions
from kinformer.testing.features import Features
from kinformer.testing.generate import load, replica_sets
from kinformer.testing.kinds.builtin_schemas import object_meta
from kinformer.testing.kinds.builtins import builtin_types
from kinformer.testing.kinds.crd_files import CRD_KIND, DEFINITIONS, read_crds, read_objects
from kinformer.testing.kinds.resources import Registry, ResourceType, Subresource
from kinformer.testing.kinds.schema import custom_node
from kinformer.testing.store.forms import decode_stored
from kinformer.testing.store.ledger import Ledger
from kinformer.testing.store.ownership import FieldManager

if TYPE_CHECKING:
    from kinformer.testing.controllers.kubelet import Fate

__all__ = ["State"]

NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")
MANAGER = "kinformer-testing"
_MANAGER = FieldManager(MANAGER)
_ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
Object = dict[str, Any]


class State:
    """Objects, kinds and the effects of writes, without HTTP. The four initial namespaces of a cluster exist."""

    def __init__(self, clock: Clock = SYSTEM, features: Features | None = None) -> None:
        self._features = features or Features()
        self._storage = Storage()
        self._registry = Registry(builtin_types())
        self._ledger = Ledger(self._storage, self._registry, clock)
        self._writer = Writer(self._ledger)
        self._deleter = Deleter(
            self._ledger, self._writer.admission, self._writer.plugins, versions=self._features.delete_versions
        )
        self._lifecycle = Lifecycle(self._writer, self._deleter, self._features.initializing)
        for name in NAMESPACES:
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def create(self, obj: Mapping[str, Any]) -> Object:
        """Create an object, including its status, and return it as stored.

        A given uid, creationTimestamp or generation is kept. A missing namespace is created. Raises the `APIError`
        that a client would get.
        """
        resource = self._type_of(obj)
        namespace = (obj.get("metadata") or {}).get("namespace") or ("default" if resource.namespaced else "")
        body = _as_sent(obj)
        if "resourceVersion" in (body.get("metadata") or {}):
            body["metadata"] = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
        try:
            written = self._writer.create(resource, namespace, body, self._admin())
        except StatusError as error:
            raise error.to_api_error() from None
        return written.obj or self._object(resource, written.stored)

    def apply(self, *sources: str | os.PathLike[str] | Mapping[str, Any]) -> list[Object]:
        """Create objects, or replace those that exist, definitions first, and return them as stored.

        Args:
            sources: Dicts, YAML files, or folders of such files.

        Raises:
            ConfigError: A source cannot be read, or an object, which the message names, is refused.
        """
        applied = []
        for obj in sorted(read_objects(*sources), key=lambda obj: obj.get("kind") != CRD_KIND):
            write = self.register_crd if obj.get("kind") == CRD_KIND else self._create_or_update
            try:
                applied.append(write(obj))
            except APIError as error:
                name = (obj.get("metadata") or {}).get("name")
                raise ConfigError(f"{obj.get('kind')} {name}: {error}") from error
        return applied

    def _create_or_update(self, obj: Mapping[str, Any]) -> Object:
        try:
            return self.create(obj)
        except AlreadyExistsError:
            return self.update(obj)

    def update(self, obj: Mapping[str, Any]) -> Object:
        """Replace an object, including its status (kept if not given). No resourceVersion is needed.

        A given resourceVersion is not compared. Raises the `APIError` that a client would get.
        """
        resource = self._type_of(obj)
        metadata = obj.get("metadata") or {}
        namespace = metadata.get("namespace") or ("default" if resource.namespaced else "")
        try:
            written = self._writer.update(resource, namespace, metadata.get("name", ""), _as_sent(obj), self._admin())
        except StatusError as error:
            raise error.to_api_error() from None
        return written.obj or self._object(resource, written.stored)

    def delete(self, resource: Any, namespace: str | None, name: str) -> Object:
        """Delete an object without a grace period, and return its last state.

        An object with finalizers stays, with a deletionTimestamp. Raises the `APIError` that a client would get.
        """
        served = self._registry.find(resource)
        try:
            written = self._deleter.delete(
                served, (namespace or "") if served.namespaced else "", name, DeleteOptions(admin=True)
            )
            return self._object(served, written.stored)
        except StatusError as error:
            raise error.to_api_error() from None

    def get(self, resource: Any, namespace: str | None, name: str) -> Object | None:
        """Return an object as stored, or None."""
        served = self._registry.find(resource)
        stored = self._ledger.collection(served).get(served.key(namespace or "", name))
        return None if stored is None else self._object(served, stored)

    def list(self, resource: Any, namespace: str | None = None) -> list[Object]:
        """Return all objects of a resource, in key order."""
        served = self._registry.find(resource)
        items = self._ledger.collection(served).snapshot().within(namespace or "").items
        return [self._object(served, stored) for stored in items]

    def generate(self, resource: Any, count: int, *, nodes: int = 500) -> Iterator[int]:
        """Add generated pods (8 KB) or configmaps (1 KB), without history. Iterate to the end. It yields its progress.

        Their namespaces and the ReplicaSets that own the pods are created. Their nodes, named `node-000` and so on, are
        not. Raises ValueError for other kinds.
        """
        served = self._registry.find(resource)
        yield from load(self._storage, served, count, nodes)
        if served.plural == "pods":
            for owner in replica_sets(count):
                metadata = owner["metadata"]
                if self.get("apps/v1/replicasets", metadata["namespace"], metadata["name"]) is None:
                    self.create(owner)
        spaces = {stored.namespace for stored in self._ledger.collection(served).objects.values()}
        for name in sorted(spaces):
            if self.get("v1/namespaces", None, name) is None:
                self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    @property
    def resource_version(self) -> str:
        """The newest resourceVersion."""
        return str(self._storage.revision)

    def _admin(self) -> WriteOptions:
        return WriteOptions(_MANAGER, admin=True, validation="Ignore")

    def _type_of(self, obj: Mapping[str, Any]) -> ResourceType:
        api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
        resource = self._registry.of_kind(api_version, kind)
        if resource is None:
            raise bad_request(
                f'no matches for kind "{kind}" in version "{api_version}"; register it, or its CRD, first'
            ).to_api_error()
        return resource

    def _object(self, resource: ResourceType, stored: Any) -> Object:
        return decode_stored(resource, stored)

    def register(self, api_version: str, kind: str, plural: str, *, namespaced: bool = True) -> None:
        """Serve a custom kind immediately, without a CRD object. It has a status subresource and accepts any fields.

        Raises:
            ConfigError: A name is invalid, such as a resource where the kind is expected.
        """
        parse_kind(kind, "kind")
        resource = GroupVersionResource.parse(f"{api_version}/{plural}")
        self._registry.add_type(
            ResourceType(
                group=resource.group,
                version=resource.version,
                plural=resource.resource,
                kind=kind,
                namespaced=namespaced,
                subresources=(Subresource("status", kind),),
                builtin=False,
                unconditional_update=False,
                node=custom_node({}, object_meta(), root=True),
            )
        )

    def register_crd(self, crd: Mapping[str, Any]) -> Object:
        """Create or replace a CustomResourceDefinition. Its kinds are served when this returns.

        A version is served unless it sets `served: false`. A version without a schema, which a real server would
        refuse, accepts any fields.
        """
        crd = _as_sent(crd)
        for version in (crd.get("spec") or {}).get("versions") or []:
            version.setdefault("served", True)
            version.setdefault("schema", {"openAPIV3Schema": dict(_ANYTHING)})
        spaces = self._registry.find(DEFINITIONS)
        name = (crd.get("metadata") or {}).get("name", "")
        exists = self._ledger.collection(spaces).get(name) is not None
        self.update(crd) if exists else self.create(crd)
        stored = self._ledger.stored(spaces, "", name)
        return self._object(spaces, stored)

    def run_controllers(
        self,
        *,
        startup: float = 0.1,
        runtime: float = 0.1,
        shutdown: float = 0.1,
        outcome: Callable[[Mapping[str, Any]], Fate | None] | None = None,
        seed: int = 0,
    ) -> AbstractAsyncContextManager[None]:
        """Run small versions of a cluster's controllers on this server, from entering to exiting.

        ::

            async with server.run_controllers():
                await client.wait_for("apps/v1/deployments", "default/web", is_deployment_rolled_out)

        They are those of Deployments, ReplicaSets, Jobs, EndpointSlices and owner references, a scheduler, and kubelets
        that run pods without containers. A pod gets a node if there are Nodes. Their writes are not in `requests`, and
        faults do not strike them. They act in the order of the changes, in virtual time too.

        Args:
            startup: Seconds from the start of a pod until it is ready.
            runtime: Seconds that a pod runs whose `restartPolicy` is not `Always`, such as that of a Job.
            shutdown: Seconds that a deleted pod takes to end, if its grace period is not shorter.
            outcome: Decides what becomes of a pod, given as a dict: `"Running"` (and ready), `"Succeeded"`, `"Failed"`,
                `"Unready"`, or `"Waiting"` for an image that cannot be pulled. None leaves it to the `restartPolicy`.
            seed: The seed of the names of pods.
        """
        from kinformer.testing.controllers.manager import running

        return running(
            self._writer,
            self._deleter,
            startup=startup,
            runtime=runtime,
            shutdown=shutdown,
            outcome=outcome,
            seed=seed,
        )

    async def install_crds(self, *sources: str | os.PathLike[str] | Mapping[str, Any]) -> None:
        """Call `register_crd` for each definition in files, folders (see `read_crds`) and dicts.

        Raises:
            ConfigError: A source cannot be read or contains no CustomResourceDefinition.
        """
        for crd in read_crds(*sources):
            self.register_crd(crd)


def _as_sent(obj: Mapping[str, Any]) -> Object:
    """Return an object as the server would receive it. Raises TypeError for a value without JSON, such as nan."""
    document: Object = msgspec.json.decode(encode(dict(obj)))
    return document
