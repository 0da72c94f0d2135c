"""Models: the JSON of an object as an instance of a type of the user's choice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from kinformer.exceptions import DecodeError

__all__ = ["decode_as"]

T = TypeVar("T")

_decode_any = msgspec.json.Decoder().decode


def decode_as(raw: bytes, type: type[T], source: object) -> T:  # noqa: A002 - the word of msgspec and pydantic
    """A new instance of `type`, made of JSON.

    `type` is anything that msgspec decodes to (Struct, dataclass, TypedDict ...), a pydantic model (it has
    `model_validate_json`), or a model of kubernetes_asyncio (it has `openapi_types` and `attribute_map`).

    Raises:
        DecodeError: the JSON does not fit the type; the message names `source`, `__cause__` has the details.
    """
    kind: Any = type
    decode: Callable[[bytes], Any]
    try:
        if hasattr(kind, "openapi_types") and hasattr(kind, "attribute_map"):
            decode = _openapi_builder(kind)
        else:
            decode = getattr(kind, "model_validate_json", None) or _decoder_of(kind)
        return cast("T", decode(raw))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise DecodeError(f"{source!r} does not fit {type!r}: {error}") from error


@lru_cache(maxsize=256)  # a decoder holds its type, so only so many
def _decoder_of(kind: Any) -> Callable[[bytes], Any]:
    return msgspec.json.Decoder(kind).decode


def _openapi_builder(model: Any) -> Callable[[bytes], Any]:
    """As ApiClient.deserialize of kubernetes_asyncio, which needs a response, and an ApiClient with its session."""
    # Imported here, since the models cost 0.6 s and 60 MB.
    from kubernetes_asyncio.client import Configuration, models

    # What a server sends is not to be refused by a client's validation; and one configuration for all, since a model
    # without one makes its own, 50 of them for a Pod.
    configuration = Configuration()
    configuration.client_side_validation = False

    def build(value: Any, kind: Any) -> Any:
        if value is None:
            return None
        if isinstance(kind, str):
            if kind.startswith("list["):
                return [build(element, kind[5:-1]) for element in value]
            if kind.startswith("dict("):
                element_kind = kind[5:-1].split(", ", 1)[1]
                return {key: build(element, element_kind) for key, element in value.items()}
            if kind == "datetime":
                return msgspec.convert(value, datetime)
            kind = getattr(models, kind, None)
            if kind is None:  # str, int, float, bool, object: JSON has given it its type
                return value
        fields = {
            attribute: build(value[kind.attribute_map[attribute]], field_kind)
            for attribute, field_kind in kind.openapi_types.items()
            if kind.attribute_map[attribute] in value
        }
        return kind(local_vars_configuration=configuration, **fields)

    def decode(raw: bytes) -> Any:
        return build(_decode_any(raw), model)

    return decode
