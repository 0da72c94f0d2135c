"""The bodies of requests: objects in any form as JSON, and the identity that is read from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Protocol, TypeGuard

import msgspec

from kinformer._runtime.json_depth import bounded
from kinformer.exceptions import MALFORMED, ConfigError
from kinformer.objects.models.typed import models_of
from kinformer.objects.object import KubeObject
from kinformer.objects.requests.encoding import encode_in_slices, refuse_faults

__all__ = ["SentObject", "refuse_changed_model"]


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str | None = None
    namespace: str | None = None
    resource_version: str | None = None
    managed_fields: list[msgspec.Raw] | None = None


class _Head(msgspec.Struct, gc=False, rename="camel"):
    api_version: str | None = None
    kind: str | None = None
    metadata: _Metadata | None = None


_decode_head: Callable[[bytes], _Head] = bounded(msgspec.json.Decoder(_Head).decode)


@dataclass(frozen=True, slots=True)
class SentObject:
    """An object to send.

    Attributes:
        raw: Its JSON.
        api_version, kind, namespace, name, resource_version: Its fields, or "".
        has_managed_fields: True if it has `metadata.managedFields`.
    """

    raw: bytes = field(repr=False)
    api_version: str
    kind: str
    namespace: str
    name: str
    resource_version: str
    has_managed_fields: bool

    @classmethod
    async def of(cls, obj: object, verb: str) -> SentObject:
        """Read an object.

        Raises:
            ConfigError: It is not an object of the API, a field of its identity has a wrong type, or its model was
                changed, which is not the object.
            TypeError: It cannot be sent as JSON. The message names the path.
        """
        raw = await _encode(obj, verb)
        try:
            head = _decode_head(raw)
        except MALFORMED as error:
            raise ConfigError(f"{verb}: {_type_name(obj)} is not an object of the API: {error}") from None
        metadata = head.metadata or _Metadata()
        return cls(
            raw,
            head.api_version or "",
            head.kind or "",
            metadata.namespace or "",
            metadata.name or "",
            metadata.resource_version or "",
            bool(metadata.managed_fields),
        )

    def __str__(self) -> str:
        key = f"{self.namespace}/{self.name}" if self.namespace and self.name else self.name
        return " ".join(part for part in (self.api_version, self.kind, key) if part) or "an object without identity"


class _OpenAPIModel(Protocol):
    """A model of kubernetes_asyncio or kubernetes."""

    attribute_map: Mapping[str, str]


class _Serializer(Protocol):
    def to_json(self, value: object, *, by_alias: bool, exclude_none: bool) -> bytes: ...
    def to_python(self, value: object, *, mode: str, by_alias: bool, exclude_none: bool) -> object: ...


async def refuse_changed_model(obj: object, verb: str) -> None:
    """Refuse an object whose model was read and changed, because the object is the old one.

    Raises:
        ConfigError: It is such an object.
    """
    if (models := models_of(obj)) is not None:
        read, stored = [await _encode(model, verb) for model in models]
        if read != stored:
            raise ConfigError(f"{verb}: the model of {obj!r} was changed, not the object; pass obj.model, or a dict")


async def _encode(obj: object, verb: str) -> bytes:
    """Return the JSON of an object. Members of a model that are None are left out, because they are not set."""
    if isinstance(obj, KubeObject):
        await refuse_changed_model(obj, verb)
        return obj.raw
    if isinstance(obj, type | str | bytes):
        raise TypeError(f"{verb}: expected a KubeObject, a dict or an instance of a model, got {_type_name(obj)}")
    pydantic: _Serializer | None = getattr(type(obj), "__pydantic_serializer__", None)
    value: object = obj
    try:
        if pydantic is not None:  # also for a pydantic dataclass, whose aliases msgspec does not know
            data = pydantic.to_json(obj, by_alias=True, exclude_none=True)
            if b"null" in data:  # perhaps for a nan, which has no JSON
                refuse_faults(pydantic.to_python(obj, mode="json", by_alias=True, exclude_none=True))
            return data
        if _is_openapi_model(obj):
            value = _plain(obj)
        elif isinstance(obj, Mapping):
            value = dict(obj)
        elif isinstance(obj, msgspec.Struct) or is_dataclass(obj):
            refuse_faults(obj)
            value = _without_none(msgspec.to_builtins(obj))
        return await encode_in_slices(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{verb}: {_type_name(obj)} cannot be sent as JSON: {error}") from error


def _is_openapi_model(obj: object) -> TypeGuard[_OpenAPIModel]:
    return hasattr(type(obj), "openapi_types") and hasattr(type(obj), "attribute_map")


def _plain(value: object) -> object:
    """Return a model as dicts, as `ApiClient.sanitize_for_serialization` does."""
    if _is_openapi_model(value):
        members = {wire: getattr(value, attribute) for attribute, wire in value.attribute_map.items()}
        return {wire: _plain(member) for wire, member in members.items() if member is not None}
    if isinstance(value, Mapping):
        return {key: _plain(member) for key, member in value.items()}
    return [_plain(member) for member in value] if isinstance(value, list | tuple) else value


def _without_none(value: object) -> object:
    if isinstance(value, dict):
        return {key: _without_none(member) for key, member in value.items() if member is not None}
    return [_without_none(member) for member in value] if isinstance(value, list) else value


def _type_name(obj: object) -> str:
    return f"a {type(obj).__name__}"
