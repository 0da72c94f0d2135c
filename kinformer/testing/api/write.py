"""Writes: create, update, patch and apply, with all server-owned fields (registry/generic/registry).

All code here is synchronous, so writes do not interleave.
"""

from __future__ import annotations

import json
import os
import random
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kinformer.apiserver.status import (
    StatusError,
    already_exists,
    bad_request,
    cause,
    conflict,
    failure,
    forbidden,
    internal,
    invalid,
    invalid_options,
    not_found,
)
from kinformer.apiserver.storage import Stored
from kinformer.testing.admission.attributes import Attributes
from kinformer.testing.admission.plugins import Plugins
from kinformer.testing.api.replacement import ObjectReplacement, failed_precondition, version_in
from kinformer.testing.api.write_options import WriteOptions
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.rules.admission import Admission
from kinformer.testing.rules.custom_rules import fill_defaults
from kinformer.testing.rules.defaults import fill_in, first_status
from kinformer.testing.rules.metadata_rules import finalizer_warnings, invalid_value
from kinformer.testing.rules.validation import check_applied, check_kind, check_object, decode, strict_error
from kinformer.testing.store.forms import copied, decode_stored
from kinformer.testing.store.ledger import Ledger, WriteResult
from kinformer.testing.store.ownership import FieldManager, apply_fields, track_scale, track_update

__all__ = ["Writer"]

Object = dict[str, Any]
Edit = Callable[[Object], Object]

_NAME_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"  # apimachinery/pkg/util/rand
_NAME_ATTEMPTS = 8
_RANDOM = 5  # characters appended to a generateName, which is cut to make room (apiserver/pkg/storage/names)
_PREFIX = 63 - _RANDOM


class Writer:
    """Performs the creates, updates and patches of one server."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.admission = Admission(ledger)
        self.plugins = Plugins(ledger)

    # -- create ---------------------------------------------------------------------------------------------------

    def create(self, resource: ResourceType, namespace: str, body: Object, options: WriteOptions) -> WriteResult:
        """Create an object (POST)."""
        check_kind(resource, body)
        obj = self._decoded(resource, body, options)
        self._check_metadata(resource, namespace, obj)
        metadata = obj["metadata"]
        if not options.admin:
            if re.fullmatch(r"[0-9]{1,19}", version_in(metadata)):  # other strings are ignored, as by a real server
                raise internal("resourceVersion should not be set on objects to be created")
            for name in ("uid", "deletionTimestamp", "deletionGracePeriodSeconds"):
                metadata.pop(name, None)
        self._name(resource, namespace, obj)
        if resource.terminating:
            message = "create not allowed while custom resource definition is terminating"
            raise forbidden(resource.group, resource.plural, metadata.get("name", ""), message)
        self._check_namespace(resource, namespace, metadata.get("name", ""), options)
        if resource.has_status and not options.admin and not (resource.builtin and resource.kind == "Node"):
            obj.pop("status", None)  # a node keeps its status (core/node/strategy.go)
        if resource.builtin:
            fill_in(resource.kind, obj)
        self._own_new(resource, obj, options)
        status = ((resource.schema or {}).get("properties") or {}).get("status")
        if status and resource.has_status:
            # The owners are known by now, so these fields have none.
            fill_defaults({"properties": {"status": status}}, obj)
        write = self._attributes(resource, obj, None, options)
        if not (options.admin or options.internal):
            self.plugins.admit(write)
        self._first_state(resource, obj, options)
        check_object(resource, obj, warnings=options.warnings)
        if not resource.builtin:
            options.warnings += finalizer_warnings(metadata, None)
        if not (options.admin or options.internal):
            self.plugins.check(write)
        existing = self.ledger.collection(resource).get(resource.key(namespace, metadata["name"]))
        if existing is not None:
            dying = b'"deletionTimestamp":"' in existing.raw and self._is_dying(resource, existing)
            raise already_exists(resource.group, resource.plural, metadata["name"], terminating=dying)
        return WriteResult(self.ledger.save(resource, None, obj, dry_run=options.dry_run), created=True, obj=obj)

    def decode_sent(self, resource: ResourceType, namespace: str, body: Object, options: WriteOptions) -> Object:
        """Decode an object that is sent but not stored, such as a Scale. Raises a 400 `StatusError`."""
        check_kind(resource, body)
        obj = self._decoded(resource, body, options)
        self._check_metadata(resource, namespace, obj)
        return obj

    def _attributes(
        self, resource: ResourceType, obj: Object, old: Object | None, options: WriteOptions, subresource: str = ""
    ) -> Attributes:
        operation = "CREATE" if old is None else "UPDATE"
        dry_run = options.dry_run and not options.stored_later
        return Attributes(operation, resource, obj, old, subresource, dry_run, options.user, options.warnings)

    def _own_new(self, resource: ResourceType, obj: Object, options: WriteOptions) -> None:
        if options.admin and obj["metadata"].get("managedFields"):
            return  # an administrator may import objects
        obj["metadata"].pop("managedFields", None)
        track_update(resource, None, obj, options.manager, self.ledger.timestamp())

    def _is_dying(self, resource: ResourceType, stored: Stored) -> bool:
        return "deletionTimestamp" in decode_stored(resource, stored)["metadata"]

    def _check_metadata(self, resource: ResourceType, namespace: str, obj: Object) -> None:
        metadata = obj.get("metadata")
        if metadata is None:
            metadata = obj["metadata"] = {}
        if not isinstance(metadata, dict):
            raise bad_request("metadata is not an object")
        if not resource.namespaced:
            metadata.pop("namespace", None)
            return
        if metadata.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")

    def _decoded(self, resource: ResourceType, body: Object, options: WriteOptions, *, subresource: str = "") -> Object:
        """Decode an object as the server does, without unknown fields. Raises a 400 `StatusError`."""
        obj, unknown = decode(resource, body, applied=options.applied)
        if resource.builtin and not body.get("status") and subresource != "status":
            obj.pop("status", None)  # Go decodes a missing status as an empty one
        patch = "json patch " if options.json_patch else ""
        twice = options.duplicates
        if resource.builtin:
            twice = [path for path in twice if path not in unknown]
        texts = [f'{patch}duplicate field "{path}"' for path in twice]
        texts += [f'unknown field "{path}"' for path in unknown]
        if options.places and resource.builtin:
            texts.sort(key=lambda text: options.places.get(text, len(options.places)))
        if texts and options.validation == "Strict":
            raise strict_error(resource, texts)
        if options.validation == "Warn":
            options.warnings += texts
        return obj

    def _name(self, resource: ResourceType, namespace: str, obj: Object) -> None:
        metadata = obj["metadata"]
        if metadata.get("name"):
            return
        prefix = metadata.get("generateName")
        if not prefix:
            return  # validation will report it
        taken = self.ledger.collection(resource).objects
        for _ in range(_NAME_ATTEMPTS):
            name = prefix[:_PREFIX] + "".join(random.choices(_NAME_ALPHABET, k=_RANDOM))
            if resource.key(namespace, name) not in taken:
                metadata["name"] = name
                return
        raise already_exists(resource.group, resource.plural, prefix)

    def _check_namespace(self, resource: ResourceType, namespace: str, name: str, options: WriteOptions) -> None:
        if not resource.namespaced:
            return
        spaces = self.ledger.registry.find("v1/namespaces")
        space = self.ledger.collection(spaces).get(namespace)
        if space is None:
            if not options.admin:
                raise not_found("", "namespaces", namespace)
            self.create(spaces, "", {"metadata": {"name": namespace}}, options)
        elif not options.admin and self._is_dying(spaces, space):
            error = failure(
                403,
                f'{resource.plural}{"." + resource.group if resource.group else ""} "{name}" is forbidden: unable to'
                f" create new content in namespace {namespace} because it is being terminated",
                details={
                    "name": name,
                    **({"group": resource.group} if resource.group else {}),
                    "kind": resource.plural,
                    "causes": [
                        cause(
                            "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
                        )
                    ],
                },
            )
            raise error

    def _first_state(self, resource: ResourceType, obj: Object, options: WriteOptions) -> None:
        metadata = obj["metadata"]
        metadata["uid"] = (metadata.get("uid") if options.admin else None) or _new_uid()
        if not (options.admin and metadata.get("creationTimestamp")):
            metadata["creationTimestamp"] = self.ledger.timestamp()
        metadata.pop("selfLink", None)
        if resource.generation or not resource.builtin:
            metadata["generation"] = metadata.get("generation", 1) if options.admin else 1
        if resource.builtin:
            self.admission.create(resource, obj, admin=options.admin, user=options.user)
        if resource.builtin and "status" not in obj and "status" in resource.node.fields:
            obj["status"] = first_status(resource.kind, obj, resource.node.fields["status"], self.ledger.timestamp())

    # -- update ---------------------------------------------------------------------------------------------------

    def update(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        body: Object,
        options: WriteOptions,
        *,
        subresource: str = "",
    ) -> WriteResult:
        """Replace an object (PUT)."""
        check_kind(resource, body)
        obj = self._decoded(resource, body, options, subresource=subresource)
        self._check_metadata(resource, namespace, obj)
        metadata = obj["metadata"]
        if metadata.setdefault("name", name) != name:
            raise _other_name(metadata["name"], name)
        existing = self.ledger.collection(resource).get(resource.key(namespace, name))
        if existing is None:
            if resource.create_on_update and not subresource:
                if (uid := metadata.get("uid")) and not options.admin:
                    raise failed_precondition(resource, resource.key(namespace, name), "UID", uid, "")
                metadata.pop("resourceVersion", None)
                return self.create(resource, namespace, obj, options)
            raise resource.not_found(name)
        return self._replace(ObjectReplacement(resource, existing, obj, options, subresource))

    def patch(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        change: Edit,
        options: WriteOptions,
        *,
        subresource: str = "",
    ) -> WriteResult:
        """Patch an object with a function that returns the new object."""
        existing = self.ledger.stored(resource, namespace, name)
        old = decode_stored(resource, existing)
        version = old["metadata"]["resourceVersion"]
        changed = change(decode_stored(resource, existing))
        if not isinstance(changed, dict) or not isinstance(changed.get("metadata"), dict):
            raise failure(422, "the server rejected our request due to an error in our request", details={})
        obj = self._patched(resource, changed, options, subresource)
        self._check_metadata(resource, namespace, obj)
        if obj["metadata"].setdefault("name", name) != name:
            raise _other_name(obj["metadata"]["name"], name)
        if version_in(obj["metadata"]) not in ("", version):
            raise conflict(resource.group, resource.plural, name)
        # Another uid of a scale is a precondition that fails.
        if obj["metadata"].setdefault("uid", existing.uid) != existing.uid and subresource != "scale":
            causes = [invalid_value("metadata.uid", obj["metadata"]["uid"], "field is immutable")]
            causes *= 2 if resource.builtin else 3  # as often as the real server validates it
            raise invalid(resource.group, resource.kind, name, causes)
        return self._replace(ObjectReplacement(resource, existing, obj, options, subresource))

    def _patched(self, resource: ResourceType, changed: Object, options: WriteOptions, subresource: str) -> Object:
        """Decode a patched object. Raises a 422 `StatusError` if it is no longer valid for its type."""
        try:
            check_kind(resource, changed)
            return self._decoded(resource, changed, options, subresource=subresource)
        except StatusError as error:
            reason = str(error).partition(f"cannot be handled as a {resource.kind}: ")[2] or str(error)
            shown = json.dumps(changed, separators=(",", ":"), ensure_ascii=False)
            if options.patch is not None:
                shown = _go_value(options.patch)
            causes = [cause("FieldValueInvalid", f"Invalid value: {json.dumps(shown)}: {reason}", "patch")]
            raise invalid("", "", "", causes) from None

    def apply(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        applied: Object,
        options: WriteOptions,
        *,
        subresource: str = "",
    ) -> WriteResult:
        """Apply a configuration (PATCH). Creates the object if it is missing."""
        if not options.manager.name:
            causes = [cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")]
            raise invalid_options("PatchOptions", causes)
        applied = copied(applied)
        check_applied(resource, applied)
        self._check_metadata(resource, namespace, applied)
        if applied["metadata"].setdefault("name", name) != name:
            raise _other_name(applied["metadata"]["name"], name)
        manager = FieldManager(options.manager.name, "Apply", subresource)
        existing = self.ledger.collection(resource).get(resource.key(namespace, name))
        if existing is None:
            if subresource:
                raise resource.not_found(name)
            return self._apply_new(resource, namespace, applied, manager, options)
        live = decode_stored(resource, existing)
        merged = apply_fields(resource, live, applied, manager, self.ledger.timestamp(), force=options.force)
        merged, _ = decode(resource, merged, applied=True)  # with defaults for missing fields
        return self._replace(ObjectReplacement(resource, existing, merged, options, subresource, applied=True))

    def _apply_new(
        self, resource: ResourceType, namespace: str, applied: Object, manager: FieldManager, options: WriteOptions
    ) -> WriteResult:
        empty: Object = {"metadata": {}}
        merged = apply_fields(resource, empty, applied, manager, self.ledger.timestamp(), force=True)
        fields = merged["metadata"].get("managedFields")
        obj = {key: value for key, value in merged.items() if not (key == "status" and resource.has_status)}
        written = self.create(resource, namespace, obj, _rehearsal(manager, options))
        whole = decode_stored(resource, written.stored)
        whole["metadata"].pop("managedFields", None)
        if fields:
            whole["metadata"]["managedFields"] = fields
        return WriteResult(self.ledger.save(resource, None, whole, dry_run=options.dry_run), created=True)

    # -- the steps of update, patch and apply ---------------------------------------------------------------------

    def _replace(self, replacement: ObjectReplacement) -> WriteResult:
        """Carry out a replacement, in the order of the real server (registry/generic/registry/store.go)."""
        replacement.check_preconditions()
        replacement.keep_system_metadata()
        if replacement.resource.builtin:
            fill_in(replacement.resource.kind, replacement.new)
        takes_managers = replacement.take_managed_fields()
        self._track(replacement)
        replacement.keep_rest(self.ledger.timestamp())
        self._admit(replacement)
        if replacement.changes_nothing and not takes_managers:
            return WriteResult(replacement.existing)  # neither a new revision nor an event
        replacement.count_generation()
        if replacement.completes_deletion:
            return self._remove(replacement)
        options, new = replacement.options, replacement.new
        stored = self.ledger.save(replacement.resource, replacement.old, new, dry_run=options.dry_run)
        return WriteResult(stored, obj=new)

    def _admit(self, replacement: ObjectReplacement) -> None:
        """Run admission and validation. Fields that admission adds have no owner. Raises a 422 `StatusError`."""
        resource, old, new = replacement.resource, replacement.old, replacement.new
        if resource.builtin:
            self.admission.update(resource, new, old)
        before = None if replacement.options.admin else old
        options = replacement.options
        check_object(resource, new, before, subresource=replacement.subresource, warnings=options.warnings)
        if not resource.builtin:
            options.warnings += finalizer_warnings(new["metadata"], old["metadata"])
        if not (options.admin or options.internal):
            self.plugins.check(self._attributes(resource, new, old, options, replacement.subresource))

    def _track(self, replacement: ObjectReplacement) -> None:
        """Make the manager the owner of the changed fields. An apply has already done this."""
        if replacement.applied or not replacement.options.tracks_fields:
            return
        given = replacement.options.manager
        manager = FieldManager(given.name, given.operation, replacement.subresource, timed=given.timed)
        resource, old, new, now = replacement.resource, replacement.old, replacement.new, self.ledger.timestamp()
        if replacement.subresource == "scale":
            track_scale(resource, old, new, manager, now)
        else:
            track_update(resource, old, new, manager, now)

    def _remove(self, replacement: ObjectReplacement) -> WriteResult:
        """Remove an object whose last finalizer is gone.

        The response has the written object with its previous version. The event has the last stored object.
        """
        resource = replacement.resource
        self.ledger.remove(resource, replacement.old, dry_run=replacement.options.dry_run)
        return WriteResult(self.ledger.save(resource, None, replacement.new, preview=True))


def _rehearsal(manager: FieldManager, options: WriteOptions) -> WriteOptions:
    """Return the options of the dry run with which an apply creates an object."""
    later = not options.dry_run
    return replace(
        options,
        manager=manager,
        dry_run=True,
        stored_later=later,
        applied=True,
        validation="Ignore",
        duplicates=[],
    )


def _new_uid() -> str:
    """Return a random UUID, three times as fast as `str(uuid.uuid4())`."""
    digits = os.urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


def _other_name(given: str, name: str) -> StatusError:
    return bad_request(f"the name of the object ({given}) does not match the name on the URL ({name})")


def _go_value(value: Any) -> str:
    """Format a value as Go's %+v formats a map."""
    if isinstance(value, dict):
        return "map[" + " ".join(f"{name}:{_go_value(inner)}" for name, inner in sorted(value.items())) + "]"
    if isinstance(value, list):
        return "[" + " ".join(_go_value(inner) for inner in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "<nil>" if value is None else str(value)
