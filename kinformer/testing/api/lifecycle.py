"""Does the work of the namespace and CRD controllers, immediately after each write."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from kinformer.apiserver.storage import Stored
from kinformer.testing.api.delete import CLEANUP, DeleteOptions, Deleter
from kinformer.testing.api.write import Writer
from kinformer.testing.api.write_options import WriteOptions
from kinformer.testing.kinds.crd_files import DEFINITIONS
from kinformer.testing.kinds.crds import established_status, schemas_of, types_of
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.rules.admission import PROTECTION
from kinformer.testing.rules.custom_rules import fill_defaults, prune, prune_nulls
from kinformer.testing.store.forms import decode_stored, to_stored
from kinformer.testing.store.ownership import FieldManager

__all__ = ["Lifecycle"]

Object = dict[str, Any]


class Lifecycle:
    """Reacts to the writes of one server. `initializing` is `Features.initializing`."""

    def __init__(self, writer: Writer, deleter: Deleter, initializing: float = 0.0) -> None:
        self._initializing = initializing
        self._writer = writer
        self._deleter = deleter
        self._ledger = writer.ledger
        self._registry = self._ledger.registry
        self._served: dict[str, list[ResourceType]] = {}  # by name of the CRD
        self._schemas: dict[str, tuple[str, dict[str, Any]]] = {}  # the schemas that objects were last read with
        self._emptying: set[str] = set()  # namespaces and definitions, distinguished by the dots in a definition's name
        self._ledger.on_change.append(self._handle_change)

    def _handle_change(self, resource: ResourceType, old: Object | None, new: Object | None) -> None:
        if resource.builtin and resource.kind == "Namespace":
            if new is not None and new["metadata"].get("deletionTimestamp"):
                self._empty_namespace(new["metadata"]["name"])
        elif resource.builtin and resource.kind == "CustomResourceDefinition":
            self._definition_changed(resource, old, new)
        elif new is not None and resource.builtin and resource.kind in PROTECTION:
            self._remove_finalizer(resource, new, PROTECTION[resource.kind])  # as if the object were unused
        elif new is None and old is not None:
            if not resource.builtin:
                self._empty_definition(f"{resource.plural}.{resource.group}")
            if resource.namespaced:
                self._continue_emptying(old["metadata"].get("namespace", ""))

    def _remove_finalizer(self, resource: ResourceType, obj: Object, mark: str) -> None:
        """Remove the finalizer of a deleted object, as its controller would when nothing uses it."""
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp") or mark not in (metadata.get("finalizers") or []):
            return

        def free(obj: Object) -> Object:
            obj["metadata"]["finalizers"] = [name for name in obj["metadata"]["finalizers"] if name != mark]
            return obj

        options = WriteOptions(FieldManager("kube-controller-manager"), internal=True)
        self._writer.patch(resource, metadata.get("namespace", ""), metadata["name"], free, options)

    # -- namespaces -----------------------------------------------------------------------------------------------

    def _empty_namespace(self, namespace: str) -> None:
        """Delete the contents of a terminating namespace, then the namespace unless objects with finalizers remain."""
        if namespace in self._emptying:
            return
        self._emptying.add(namespace)
        try:
            # Pods first, and nothing else until they are gone, because they may need the rest to terminate (KEP-5080).
            left = self._delete_all(self._registry.find("v1/pods"), namespace)
            if not left:
                for resource in list(self._registry):
                    if resource.namespaced and resource.is_storage:
                        left += self._delete_all(resource, namespace)
        finally:
            self._emptying.discard(namespace)
        if not left:
            self._remove_namespace(namespace)

    def _delete_all(self, resource: ResourceType, namespace: str) -> int:
        collection = self._ledger.collection(resource)
        for stored in list(collection.snapshot().within(namespace).items):
            self._deleter.delete(resource, stored.namespace, stored.name, DeleteOptions(admin=True))
        return len(collection.snapshot().within(namespace).items)

    def _continue_emptying(self, namespace: str) -> None:
        """Continue to empty a terminating namespace after one of its objects is gone."""
        if namespace in self._emptying:
            return
        spaces = self._registry.find("v1/namespaces")
        stored = self._ledger.collection(spaces).get(namespace)
        if stored is None or b'"deletionTimestamp"' not in stored.raw:
            return
        if decode_stored(spaces, stored)["metadata"].get("deletionTimestamp"):
            self._empty_namespace(namespace)

    def _remove_namespace(self, namespace: str) -> None:
        spaces = self._registry.find("v1/namespaces")
        stored = self._ledger.collection(spaces).get(namespace)
        if stored is None:
            return
        space = decode_stored(spaces, stored)
        # As `/finalize` does: a terminating namespace without finalizers is removed (registry/core/namespace/storage).
        if space["metadata"].get("finalizers"):
            return
        self._ledger.remove(spaces, space)

    # -- custom resource definitions ------------------------------------------------------------------------------

    def _definition_changed(self, resource: ResourceType, old: Object | None, new: Object | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        if new is None:
            self._unserve(name)
            return
        if old is None or old.get("spec") != new.get("spec") or name not in self._served:
            self._establish(resource, name, new)
        if new["metadata"].get("deletionTimestamp"):
            self._empty_definition(name)

    def _establish(self, resource: ResourceType, name: str, new: Object) -> None:
        self._serve(name, new)
        status = established_status(new, self._ledger.timestamp())
        if new.get("status") != status:
            manager = FieldManager("kube-apiserver")
            body = {**new, "status": status}
            metadata = new["metadata"]
            body["metadata"] = {key: value for key, value in metadata.items() if key != "resourceVersion"}
            self._writer.update(resource, "", name, body, WriteOptions(manager, internal=True), subresource="status")

    def _empty_definition(self, name: str) -> None:
        """Delete the instances of a terminating definition, then remove it unless instances with finalizers remain."""
        definitions = self._registry.find(DEFINITIONS)
        stored, types = self._ledger.collection(definitions).get(name), self._served.get(name)
        if stored is None or not types or name in self._emptying:
            return
        crd = decode_stored(definitions, stored)
        if not crd["metadata"].get("deletionTimestamp"):
            return
        for resource in types:
            resource.terminating = True
        self._emptying.add(name)
        try:
            left = self._delete_all(types[-1], "")
        finally:
            self._emptying.discard(name)
        if not left:
            self._remove_finalizer(definitions, crd, CLEANUP)

    def refresh(self) -> None:
        """Serve the stored definitions after they changed without a write, because the server went back in time."""
        resource = self._registry.find(DEFINITIONS)
        collection = self._ledger.collection(resource)
        for name in [name for name in self._served if collection.get(name) is None]:
            for served in self._served.pop(name):
                self._registry.remove_type(served)
        for stored in collection.snapshot().items:
            self._schemas.pop(stored.name, None)  # a later object may have another definition
            self._serve(stored.name, decode_stored(resource, stored))

    def _serve(self, name: str, crd: Object) -> None:
        before = self._served.get(name, [])
        for resource in before:
            self._registry.remove_type(resource)
        types = self._served[name] = types_of(crd)
        for resource in types:
            resource.terminating = "deletionTimestamp" in crd["metadata"]
            self._registry.add_type(resource)
        self._read_anew(name, types, schemas_of(crd))
        if before:  # editing a definition ends the watches of its kinds (customresource_handler.go)
            self._ledger.collection(types[0] if types else before[0]).end_watches()
            if self._initializing:
                until = asyncio.get_running_loop().time() + self._initializing
                for resource in types:
                    resource.initializing_until = until

    def _read_anew(self, name: str, types: list[ResourceType], schemas: dict[str, Any]) -> None:
        """Apply the current definition to stored objects: add its defaults, and drop unknown fields.

        A server does this whenever it reads from the store, with the schema of the stored version.
        """
        if not types or self._schemas.get(name) == (types[0].storage_version, schemas):
            return
        self._schemas[name] = (types[0].storage_version, schemas)
        collection = self._ledger.collection(types[0])

        def read(written: Stored) -> Stored:
            obj = msgspec.json.decode(written.raw)
            schema = schemas.get(obj["apiVersion"])
            if schema:
                prune(schema, obj)
                prune_nulls(schema, obj)
                fill_defaults(schema, obj)
            shown = to_stored(types[0], {**obj, "apiVersion": types[0].storage_version})
            return written if shown.raw == written.raw else shown

        if collection.objects:
            collection.read_anew(read)

    def _unserve(self, name: str) -> None:
        types = self._served.pop(name, [])
        self._schemas.pop(name, None)
        for resource in types:
            if resource.is_storage or resource is types[-1]:
                self._drop_instances(resource)
        for resource in types:
            self._registry.remove_type(resource)
        if types:
            self._ledger.collection(types[0]).end_watches()

    def _drop_instances(self, resource: ResourceType) -> None:
        """Remove all instances with their definition. Each gets a DELETED event."""
        collection = self._ledger.collection(resource)
        for stored in list(collection.snapshot().items):
            self._ledger.remove(resource, decode_stored(resource, stored))
