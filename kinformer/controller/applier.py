"""Server-side apply: writes a wanted state, and skips the request if the server has it already.

An entry of `metadata.managedFields` holds a tree of the fields that its manager has applied: `f:name` is a field,
`k:{...}` an item of a list by its keys, `v:...` a value of a set, `i:0` an item by its index, `.` the value itself; a
leaf covers everything below it (structured-merge-diff, fieldpath/serialize.go).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from kinformer.client.client import Client
from kinformer.exceptions import ConfigError
from kinformer.informer.informer import SharedInformer
from kinformer.objects.meta import GroupVersionResource, meta_namespace_key, version_number
from kinformer.objects.object import KubeObject
from kinformer.objects.owner_references import owned_by

__all__ = ["Applier", "owned_fields", "projection"]

_MISSING = object()
_decode = msgspec.json.Decoder().decode


def owned_fields(document: Mapping[str, Any], manager: str) -> dict[str, Any] | None:
    """The tree of what `manager` owns by applying it; None where the object does not say."""
    for entry in (document.get("metadata") or {}).get("managedFields") or ():
        if entry.get("manager") == manager and entry.get("operation") == "Apply" and not entry.get("subresource"):
            tree = entry.get("fieldsV1")
            return tree if isinstance(tree, dict) else None
    return None


def projection(tree: Mapping[str, Any], value: Any) -> Any:
    """What stands in the fields of `tree`: equal for two states of an object if and only if no such field differs."""
    if not tree:
        return value
    result: dict[str, Any] = {}
    for step, below in tree.items():
        found = True if step == "." else _step(step, value)
        if found is not _MISSING:
            result[step] = projection(below, found)
    return result


def _step(step: str, value: Any) -> Any:
    kind, _, name = step.partition(":")
    if kind == "f":
        return value[name] if isinstance(value, dict) and name in value else _MISSING
    if not isinstance(value, list):
        return _MISSING
    wanted = _decode(name)
    if kind == "v":
        return wanted if wanted in value else _MISSING
    if kind == "k":
        for item in value:
            if isinstance(item, dict) and all(item.get(key) == part for key, part in wanted.items()):
                return item
        return _MISSING
    return value[wanted] if kind == "i" and wanted < len(value) else _MISSING


_APPLY = {"Content-Type": "application/apply-patch+yaml"}  # JSON is YAML, too
_SPARE = 1000  # remembered objects beyond twice those in the cache, before those that are gone are forgotten

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode_tree = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True)
class _Applied:
    """What was applied last to an object, and what the server made of it."""

    uid: str
    version: int  # of the answer, or of the latest state that was found to have no drift
    wanted: bytes  # digest of what was applied
    tree: bytes  # the fields that are ours, as JSON
    state: bytes  # digest of what stood in them
    answer: KubeObject | None  # until the cache has it


class Applier:
    """Applies objects of one resource as one field manager, and sees through the cache when one has drifted.

    ::

        applier = Applier(client, "apps/v1/deployments", deployments, field_manager="foo-operator")
        deployment = await applier.apply(deployment_for(foo), owner=foo)

    The first `apply` of an object makes a request, which changes nothing on the server if nothing differs, and from
    whose answer it learns which fields are its own and what the server has made of them (defaults, `1000m` become
    `1`). From then on there is a request only if what is wanted changes, if the object is gone, or if somebody has
    changed one of these fields; the fields of others do not matter. A cache that has not seen the last apply is not
    mistaken for drift.

    Args:
        client: An entered one.
        resource: `"apps/v1/deployments"`.
        informer: One that follows the resource, whole objects: with metadata_only, or fields that leave out what is
            applied, everything looks like drift.
        field_manager: The name of the controller; the same for ever, or fields of the old name are never given up.
        force: Take fields over from other managers. True, as the documentation of server-side apply asks of
            controllers: they cannot resolve a conflict, and would retry for ever.

    Raises:
        ConfigError: No field manager, or no resource.
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
            raise ConfigError(f"Applier(field_manager={field_manager!r}): 1 to 128 characters are needed")
        self._client = client
        self._resource = GroupVersionResource.parse(resource)
        self._informer = informer
        self._manager = field_manager
        self._params = {"fieldManager": field_manager} | ({"force": "true"} if force else {})
        self._applied: dict[str, _Applied] = {}
        self.requests = 0
        """Requests made so far."""

    async def apply(self, wanted: Mapping[str, Any], *, owner: KubeObject | None = None) -> KubeObject:
        """Have the object be as `wanted` says, as far as it says anything; what it said before and no longer, goes.

        Args:
            wanted: The whole of what this controller wants: apiVersion, kind, metadata.name, and its fields. A field
                that is left out this time is given up, and removed if nobody else owns it.
            owner: Gets a controller reference; see `owned_by`.

        Returns:
            The server's answer, or, where no request was needed, the object in the cache.

        Raises:
            ConflictError: With `force=False`: another manager owns a field with another value.
            KeyFuncError: `wanted` has no name.
            ValueError: `owner` cannot own it.
            APIError, ConnectError: As `Client.request`.
        """
        document = dict(wanted) if owner is None else owned_by(wanted, owner)
        key = meta_namespace_key(document)
        digest = _digest(document)
        known = self._unchanged(key, digest)
        return known if known is not None else await self._request(key, document, digest)

    def forget(self, key: str) -> None:
        """The next `apply` of this key makes a request, whatever the cache says."""
        self._applied.pop(key, None)

    def _unchanged(self, key: str, digest: bytes) -> KubeObject | None:
        """The object, if it is known to be as it should be."""
        applied = self._applied.get(key)
        if applied is None or applied.wanted != digest:
            return None
        cached: KubeObject | None = self._informer.indexer.get_by_key(key)
        version = _version(cached.resource_version) if cached is not None else 0
        if applied.answer is not None and version < applied.version:
            if cached is None and self._seen() >= applied.version:
                return None  # the cache has seen it come and go
            return applied.answer
        applied.answer = None
        if cached is None or cached.uid != applied.uid:
            return None
        if version != applied.version:
            if _digest(projection(_decode_tree(applied.tree), cached.to_dict())) != applied.state:
                return None
            applied.version = version
        return cached

    async def _request(self, key: str, document: dict[str, Any], digest: bytes) -> KubeObject:
        metadata = document.get("metadata") or {}
        path = self._resource.path(metadata.get("namespace"), metadata.get("name"))
        self.requests += 1
        self._applied.pop(key, None)
        answer = await self._client.request("PATCH", path, body=document, params=self._params, headers=_APPLY)
        if not isinstance(answer, KubeObject):
            raise TypeError(f"PATCH {path}: the server answered with no object: {answer!r}")
        state = answer.to_dict()
        tree = owned_fields(state, self._manager)
        version = _version(answer.resource_version)
        if tree is not None and version:
            # Without them (a proxy that drops managedFields, a store of another kind) every apply is a request.
            self._applied[key] = _Applied(
                answer.uid, version, digest, _encode(tree), _digest(projection(tree, state)), answer
            )
        if len(self._applied) > 2 * len(self._informer.indexer) + _SPARE:
            here, seen = set(self._informer.indexer.list_keys()), self._seen()
            self._applied = {
                one: applied for one, applied in self._applied.items() if one in here or applied.version > seen
            }
        return answer

    def _seen(self) -> int:
        return _version(self._informer.last_sync_resource_version)


def _digest(value: Any) -> bytes:
    return hashlib.blake2b(_encode(value), digest_size=16).digest()


def _version(resource_version: str) -> int:
    try:
        return version_number(resource_version)
    except ValueError:
        return 0
