"""Reads and writes of single objects, as methods of `Client`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from kinformer.connection.connection import Connection
from kinformer.connection.discovery import forget_version
from kinformer.exceptions import APIError, ConfigError, DecodeError, NotFoundError
from kinformer.listwatch.presence import explained
from kinformer.objects.accessors import string_at, table_at
from kinformer.objects.excerpts import excerpt_of
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.models.typed import Model, read_like
from kinformer.objects.object import KubeObject
from kinformer.objects.types import ModelT
from kinformer.verbs.bodies import SentObject
from kinformer.verbs.targets import Target, about, target_of, target_of_key

__all__ = ["ClientVerbs"]

_PATCHES = {
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_METHODS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "create": ("POST", {}),
    "replace": ("PUT", {}),
    "apply": ("PATCH", {"Content-Type": "application/apply-patch+yaml"}),  # JSON is valid YAML
}
_POLICIES = ("background", "foreground", "orphan")
_LONGEST_MANAGER = 128  # characters (apimachinery, pkg/apis/meta/v1/validation)
_UNSUPPORTED = 415

Answer = KubeObject | Mapping[str, object]


class ClientVerbs(Connection):
    """The base class of `Client` with the verbs of single objects."""

    async def get(
        self,
        resource: str | GroupVersionResource,
        key: str,
        *,
        model: type[ModelT] | None = None,
        subresource: str | None = None,
    ) -> KubeObject[ModelT]:
        """Return an object from the server: `await client.get("v1/pods", "default/web-1")`.

        Args:
            resource: The resource, such as `"v1/pods"`.
            key: `"namespace/name"`, or `"name"` if the resource has no namespaces.
            model: The type of `obj.model`, as in `for_resource`.
            subresource: A subresource, such as `"scale"`.

        Raises:
            NotFoundError: There is no such object, or no such resource. The message names the nearest resource.
            ConfigError: The resource, key or model is invalid.
            APIError, ConnectError, DecodeError: As for `request`.
        """
        reads_as = None if model is None else Model(model, str(resource))
        target = await target_of_key(self, "get", resource, key)
        obj = _object_in(await _send(self, target, "GET", target.path(subresource)), target)
        if not obj.key:
            raise DecodeError(f"{target}: expected an object with a name, got {excerpt_of(obj.raw)}")
        return obj if reads_as is None else reads_as.read(obj)

    async def create(self, obj: object, *, subresource: str | None = None, dry_run: bool = False) -> KubeObject:
        """Create an object, and return it as the server stored it, with the model of a KubeObject that has one.

        The request is never sent again after its connection was lost, because the object may have been created.

        Args:
            obj: A KubeObject, a dict, or an instance of a model, with apiVersion, kind and, unless it is
                cluster-scoped, `metadata.namespace`. Members of a model that are None are left out. A KubeObject is
                sent as it was read: make changes in its `to_dict()`.
            subresource: A subresource that takes such an object, such as `"eviction"`.
            dry_run: True to let the server check and complete the object without storing it.

        Raises:
            AlreadyExistsError: There is an object with this name.
            ConfigError: A field is missing or wrong, or the server has no such kind. The message names it.
            TypeError: The object cannot be sent as JSON.
            APIError, ConnectError, DecodeError: As for `request`.
        """
        document = await SentObject.of(obj, "create")

        return await _write(self, "create", obj, document, subresource, _params(dry_run=dry_run))

    async def replace(self, obj: object, *, subresource: str | None = None, dry_run: bool = False) -> KubeObject:
        """Replace an object that was read before, and return its new state, with its model if it has one.

        Fields that are missing from `obj` are removed, which includes fields that a model does not have.

        Args:
            obj: As for `create`, with the resourceVersion that was read.
            subresource: A subresource, such as `"status"`.
            dry_run: As for `create`.

        Raises:
            ConflictError: The object was changed after it was read.
            ConfigError, TypeError, APIError, ConnectError, DecodeError: As for `create`.
        """
        document = await SentObject.of(obj, "replace")

        return await _write(self, "replace", obj, document, subresource, _params(dry_run=dry_run))

    async def apply(
        self,
        obj: object,
        *,
        field_manager: str,
        force: bool = False,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> KubeObject:
        """Create an object, or set the fields of an existing one, by server-side apply. Return its new state.

        Each call is a request. `kinformer.controller.Applier` makes none if a cache shows that nothing has changed.

        Args:
            obj: As for `create`, with the wanted fields only. A field that this manager applied before and that is
                missing now is given up.
            field_manager: The owner of the fields, always the same for one program.
            force: True to take over fields from other managers.
            subresource, dry_run: As for `replace`.

        Raises:
            ConflictError: Another manager owns a field with another value (only without `force`).
            ConfigError: As for `create`, or the object has managedFields, as one that was read.
            TypeError, APIError, ConnectError, DecodeError: As for `create`.
        """
        if not isinstance(field_manager, str) or not 0 < len(field_manager) <= _LONGEST_MANAGER:
            raise ConfigError(f"apply: invalid field_manager={field_manager!r}: expected 1 to 128 characters")
        document = await SentObject.of(obj, "apply")
        params = {**_params(dry_run=dry_run), "fieldManager": field_manager, **({"force": "true"} if force else {})}
        return await _write(self, "apply", obj, document, subresource, params)

    async def patch(
        self,
        resource: str | GroupVersionResource,
        key: str,
        patch: Mapping[str, object] | Sequence[Mapping[str, object]],
        *,
        type: Literal["merge", "json", "strategic"] = "merge",  # noqa: A002 - the word of the API
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> KubeObject:
        """Change fields of an object, and return its new state.

        ::

            await client.patch("apps/v1/deployments", "default/web", {"spec": {"replicas": 3}})

        Args:
            resource, key: As for `get`.
            patch: The changes. In a merge patch, None removes a field. A resourceVersion in `metadata` must match.
            type: `"merge"`, `"json"` (a list of operations), or `"strategic"`, which built-in resources support.
            subresource, dry_run: As for `replace`.

        Raises:
            NotFoundError: There is no such object, or no such resource. The message names the nearest resource.
            ConfigError: An argument is invalid, or the resource supports no strategic patches.
            APIError, ConnectError, DecodeError: As for `request`.
        """
        if type not in _PATCHES:
            raise ConfigError(f"patch: invalid type={type!r}: expected 'merge', 'json' or 'strategic'")
        body = _patch_body(patch, type)
        target = await target_of_key(self, "patch", resource, key)
        headers = {"Content-Type": _PATCHES[type]}
        try:
            answer = await _send(
                self,
                target,
                "PATCH",
                target.path(subresource),
                body=body,
                params=_params(dry_run=dry_run),
                headers=headers,
            )
        except APIError as error:
            if error.status != _UNSUPPORTED or type != "strategic":
                raise
            message = f"{target}: type='strategic' is not supported by custom resources; use 'merge', 'json' or apply"
            raise ConfigError(message) from error
        return _object_in(answer, target)

    async def delete(
        self,
        resource: str | GroupVersionResource,
        key: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Literal["background", "foreground", "orphan"] | None = None,
        subresource: str | None = None,
        dry_run: bool = False,
    ) -> KubeObject | None:
        """Delete an object.

        Args:
            resource, key: As for `get`.
            uid, resource_version: Delete the object only if it still has these.
            propagation: What happens to the objects that it owns. None is the server's default for the resource.
            subresource, dry_run: As for `replace`.

        Returns:
            The object, if the server returns it. It still exists if it has a deletionTimestamp and finalizers or a
            grace period. None if the server returns only that it was deleted.

        Raises:
            NotFoundError: There is no such object, or no such resource. The message names the nearest resource.
            ConflictError: It has another uid or resourceVersion.
            ConfigError: An argument is invalid.
            APIError, ConnectError, DecodeError: As for `request`.
        """
        policy = None if propagation is None else str(propagation).lower()
        if policy is not None and policy not in _POLICIES:
            expected = "'background', 'foreground' or 'orphan'"
            raise ConfigError(f"delete: invalid propagation={propagation!r}: expected {expected}")
        for name, value in (("uid", uid), ("resource_version", resource_version)):
            if value is not None and not (isinstance(value, str) and value):
                raise ConfigError(f"delete: invalid {name}={value!r}: expected a non-empty string")
        target = await target_of_key(self, "delete", resource, key)
        given = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {name: value for name, value in given.items() if value is not None}
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            **({"preconditions": preconditions} if preconditions else {}),
            **({"propagationPolicy": policy.capitalize()} if policy else {}),
            **({"dryRun": ["All"]} if dry_run else {}),
        }
        answer = await _send(self, target, "DELETE", target.path(subresource), body=options)
        return answer if isinstance(answer, KubeObject) else None


def _patch_body(patch: object, form: str) -> object:
    """Return a patch as it is sent. Raises ConfigError if it is not of this form."""
    if form == "json" and isinstance(patch, Sequence) and not isinstance(patch, str | bytes):
        return list(patch)
    if form != "json" and isinstance(patch, Mapping):
        return patch if isinstance(patch, KubeObject) else dict(patch)
    expected = "a list of operations" if form == "json" else "a dict"
    raise ConfigError(f"patch: expected {expected} for type={form!r}, got a {type(patch).__name__}")


def _params(*, dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _check_metadata(document: SentObject, verb: str) -> None:
    if not document.name:
        raise ConfigError(f"{verb} {document}: metadata.name is missing")
    if verb == "replace" and not document.resource_version:
        raise ConfigError(
            f"replace {document}: metadata.resourceVersion is missing; pass an object that was read, or use patch "
            "or apply"
        )
    if verb == "apply" and document.has_managed_fields:
        raise ConfigError(
            f"apply {document}: metadata.managedFields must not be set; apply the fields that you want, not an "
            "object that was read"
        )


async def _write(
    client: Connection, verb: str, obj: object, document: SentObject, subresource: str | None, params: Mapping[str, str]
) -> KubeObject:
    """Send an object to the resource of its kind. After a 404 of the resource, ask again which resource that is."""
    method, headers = _METHODS[verb]
    to_collection = method == "POST" and subresource is None

    async def send(target: Target) -> KubeObject:
        if not to_collection:
            _check_metadata(document, verb)
        path = target.resource.path(target.namespace) if to_collection else target.path(subresource)
        answer = await _send(client, target, method, path, body=document.raw, params=params, headers=headers)
        return read_like(obj, _object_in(answer, target))

    target = await target_of(client, verb, document, subresource=subresource)
    try:
        return await send(target)
    except NotFoundError as error:
        if error.details.get("name"):
            raise  # the object or its namespace is not there
        forget_version(client, target.resource)
        now = await target_of(client, verb, document, subresource=subresource)
        if now == target:
            raise
        return await send(now)


async def _send(
    client: Connection,
    target: Target,
    method: str,
    path: str,
    *,
    body: object = None,
    params: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send a request. A 404 gets the whole key, or the nearest resource that the server has."""
    try:
        return await client.request(method, path, body=body, params=params, headers=headers)
    except NotFoundError as error:
        if error.details.get("name"):
            raise about(error, str(target)) from None
        raise await explained(client, target.resource, error) from None


def _object_in(answer: Answer, target: Target) -> KubeObject:
    """Return the object in a response. A review, and the Status of an eviction, have no name."""
    if isinstance(answer, KubeObject):
        return answer
    raw = msgspec.json.encode(answer)
    api_version, kind = string_at(answer, "apiVersion"), string_at(answer, "kind")
    if not api_version or not kind:
        raise DecodeError(f"{target}: expected an object in the response, got {excerpt_of(raw)}")
    labels = {name: value for name, value in table_at(answer, "metadata", "labels").items() if isinstance(value, str)}
    namespace, version = string_at(answer, "metadata", "namespace"), string_at(answer, "metadata", "resourceVersion")
    return KubeObject("", namespace, string_at(answer, "metadata", "uid"), version, api_version, kind, labels, (), raw)
