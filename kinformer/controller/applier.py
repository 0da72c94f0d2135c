"""Server-side apply: writes a wanted state, and skips the request if the server already has it.

An entry of `metadata.managedFields` holds a tree of the fields that its manager has applied: `f:name` is a field,
`k:{...}` a list item with these keys, `v:...` a value in a set, `i:0` an item at an index, and `.` the value itself. A
leaf covers everything below it (structured-merge-diff, fieldpath/serialize.go).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from kinformer.client.client import Client
from kinformer.controller.references import version_or_zero
from kinformer.exceptions import ConfigError
from kinformer.informer.informer import SharedInformer
from kinformer.kinds.builtin import parse_resource
from kinformer.objects.meta import GroupVersionResource, meta_namespace_key
from kinformer.objects.models.typed import read_like
from kinformer.objects.object import KubeObject
from kinformer.objects.owner_references import owned_by
from kinformer.objects.requests.encoding import encode
from kinformer.verbs.bodies import refuse_changed_model

__all__ = ["Applier", "owned_fields", "projection"]

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
FieldTree = dict[str, "FieldTree"]

_decode_step = msgspec.json.Decoder().decode


def owned_fields(document: Mapping[str, Json], manager: str) -> FieldTree | None:
    """Return the tree of the fields that `manager` owns by applying them, or None if there is none."""
    metadata = document.get("metadata")
    entries = metadata.get("managedFields") if isinstance(metadata, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("subresource"):
            continue
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            tree = entry.get("fieldsV1")
            return _field_tree(tree) if isinstance(tree, dict) else None
    return None


def _field_tree(tree: dict[str, Json]) -> FieldTree:
    return {step: _field_tree(below) if isinstance(below, dict) else {} for step, below in tree.items()}


def projection(tree: FieldTree, value: Json) -> Json:
    """Return the values of the fields in `tree`, equal for two states if and only if no such field differs."""
    if not tree:
        return value
    result: dict[str, Json] = {}
    for step, below in tree.items():
        for inner in (True,) if step == "." else _values_at(step, value):
            result[step] = projection(below, inner)
    return result


def _values_at(step: str, value: Json) -> tuple[()] | tuple[Json]:
    """Return the value to which a step of a tree leads, in a tuple that is empty if there is none."""
    kind, _, name = step.partition(":")
    if kind == "f":
        return (value[name],) if isinstance(value, dict) and name in value else ()
    if not isinstance(value, list):
        return ()
    decoded = _decode_step(name)
    if kind == "v":
        return (decoded,) if decoded in value else ()
    if kind == "k":
        for element in value:
            if isinstance(element, dict) and all(element.get(key) == part for key, part in decoded.items()):
                return (element,)
        return ()
    return (value[decoded],) if kind == "i" and decoded < len(value) else ()


_APPLY = {"Content-Type": "application/apply-patch+yaml"}  # JSON is valid YAML
_SPARE = 1000  # with this many remembered objects more than twice the cache, deleted ones are forgotten

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_tree: Callable[[bytes], FieldTree] = msgspec.json.Decoder().decode


@dataclass(slots=True)
class _Applied:
    """The last state applied to an object, and the server's response."""

    uid: str
    version: int  # of the response, or of the latest state without drift
    wanted: bytes  # digest of the applied document
    tree: bytes  # our own fields, as JSON
    state: bytes  # digest of their values
    answer: KubeObject | None  # None once the cache has it


class Applier:
    """Applies objects of one resource as one field manager, and finds drift by reading the cache.

    ::

        applier = Applier(client, "apps/v1/deployments", deployments, field_manager="foo-operator")
        deployment = await applier.apply(deployment_for(foo), owner=foo)

    The first `apply` of an object makes a request, which changes nothing on the server if nothing differs. The response
    shows which fields are owned, and the values that the server gave them (defaults, or `1` for `1000m`). After that, a
    request is made only if the wanted state changes, the object is gone, or another client has changed an owned field.
    Other fields do not matter. A cache that has not seen the last apply is not mistaken for drift. For an object
    without an informer, or a single write, use `Client.apply`, which makes a request at each call.

    Args:
        client: An entered client.
        resource: The resource, such as `"apps/v1/deployments"`.
        informer: An informer of the resource with whole objects. With metadata_only, or with `fields` that omit applied
            ones, everything looks like drift.
        field_manager: The name of the controller. Never change it: fields owned by the old name would not be given up.
        force: Take over fields from other managers. True by default, as the documentation of server-side apply
            recommends for controllers: they cannot resolve a conflict, and would retry forever.

    Raises:
        ConfigError: `field_manager` is empty or longer than 128 characters, or `resource` is invalid.

    Attributes:
        requests: Requests made so far.
    """

    def __init__(
        self,
        client: Client,
        resource: str | GroupVersionResource,
        informer: SharedInformer,
        *,
        field_manager: str,
        force: bool = True,
    ) -> None:
        if not 0 < len(field_manager) <= 128:
            raise ConfigError(f"invalid field_manager={field_manager!r}: expected 1 to 128 characters")
        self._client = client
        self._resource = parse_resource(resource)
        self._informer = informer
        self._manager = field_manager
        self._params = {"fieldManager": field_manager} | ({"force": "true"} if force else {})
        self._applied: dict[str, _Applied] = {}
        self.requests = 0

    async def apply(self, wanted: Mapping[str, object], *, owner: KubeObject | None = None) -> KubeObject:
        """Set the fields of an object to their values in `wanted`.

        Args:
            wanted: The whole state that this controller wants: apiVersion, kind, metadata.name, and its fields. A field
                that was applied before and is now omitted is given up, and removed if no other manager owns it. An
                object with a model gets it back with what is returned.
            owner: The object to which the controller reference points. See `owned_by`.

        Returns:
            The server's response. If no request was needed, the cached object, or the last response if the cache has
            not received it yet.

        Raises:
            ConflictError: Another manager owns a field with another value (only with `force=False`).
            KeyFuncError: `wanted` has no name.
            TypeError: `wanted` has a value without JSON, such as nan. The message names its path.
            ValueError: `owner` cannot own the object.
            APIError, ConnectError: As in `Client.request`.
            ConfigError: The model of `wanted` was changed, and not `wanted`.
        """
        await refuse_changed_model(wanted, "apply")
        document = dict(wanted) if owner is None else owned_by(wanted, owner)
        key = meta_namespace_key(document)
        body = encode(document, ordered=True)
        digest = _digest_of(body)
        applied = self._object_without_drift(key, digest)
        if applied is None:
            applied = await self._send(key, self._path_of(document), body, digest)
        return read_like(wanted, applied)

    def forget(self, key: str) -> None:
        """Forget the state of a key, so that the next `apply` makes a request whatever the cache holds."""
        self._applied.pop(key, None)

    def _object_without_drift(self, key: str, digest: bytes) -> KubeObject | None:
        """Return the object if it is known to be in the wanted state, or None."""
        applied = self._applied.get(key)
        if applied is None or applied.wanted != digest:
            return None
        cached: KubeObject | None = self._informer.indexer.get_by_key(key)
        version = version_or_zero(cached.resource_version) if cached is not None else 0
        if applied.answer is not None and version < applied.version:
            if cached is None and self._version_seen() >= applied.version:
                return None  # it was created and deleted, and the cache has seen both
            return applied.answer
        applied.answer = None
        if cached is None or cached.uid != applied.uid:
            return None
        if version != applied.version:
            if _digest_of(_encode(projection(_decode_tree(applied.tree), cached.to_dict()))) != applied.state:
                return None
            applied.version = version
        return cached

    async def _send(self, key: str, path: str, body: bytes, digest: bytes) -> KubeObject:
        self.requests += 1
        self._applied.pop(key, None)
        response = await self._client.request("PATCH", path, body=body, params=self._params, headers=_APPLY)
        if not isinstance(response, KubeObject):
            raise TypeError(f"PATCH {path}: expected an object in the server's response, not {response!r}")
        state: dict[str, Json] = response.to_dict()
        tree = owned_fields(state, self._manager)
        version = version_or_zero(response.resource_version)
        if tree is not None and version:
            # Otherwise (a proxy that drops managedFields, an unusual store) every apply is a request.
            self._applied[key] = _Applied(
                response.uid, version, digest, _encode(tree), _digest_of(_encode(projection(tree, state))), response
            )
        if len(self._applied) > 2 * len(self._informer.indexer) + _SPARE:
            here, seen = set(self._informer.indexer.list_keys()), self._version_seen()
            self._applied = {
                other: applied for other, applied in self._applied.items() if other in here or applied.version > seen
            }
        return response

    def _path_of(self, document: Mapping[str, object]) -> str:
        given = document.get("metadata")
        metadata = given if isinstance(given, Mapping) else {}
        return self._resource.path(metadata.get("namespace"), metadata.get("name") or "")

    def _version_seen(self) -> int:
        return version_or_zero(self._informer.last_sync_resource_version)


def _digest_of(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
