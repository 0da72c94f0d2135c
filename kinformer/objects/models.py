"""Models: the JSON of an object as an instance of a type of the user's choice."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec

from kinformer.exceptions import ConfigError, DecodeError

__all__ = ["check_model", "decode_as"]

T = TypeVar("T")

Decode = Callable[[bytes], Any]

_decode_any = msgspec.json.Decoder().decode


def decode_as(raw: bytes, type: type[T], source: object) -> T:  # noqa: A002 - the word of msgspec and pydantic
    """A new instance of `type`, made of JSON.

    `type` is anything that msgspec decodes to (Struct, dataclass, TypedDict ...), a pydantic model or dataclass (it has
    `__pydantic_validator__`), or a model of kubernetes_asyncio (it has `openapi_types` and `attribute_map`).

    Raises:
        DecodeError: the JSON does not fit the type; the message names `source` and the field, `__cause__` has the
            details. What pydantic says is in `__context__` instead, because it quotes the object: a traceback in a log
            is no place for what stands in a Secret.
    """
    try:
        return cast("T", _decoder_of(cast("Any", type))(raw))
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        text = f"{source} does not fit {_name_of(type)}: {_reason(error)}"
        if hasattr(error, "errors"):
            raise DecodeError(text) from None
        raise DecodeError(text) from error


def check_model(model: Any) -> None:
    """Refuse what no object can be decoded as, before the first of them comes.

    Raises:
        ConfigError: This is no such type.
    """
    try:
        if not callable(model):
            raise TypeError("it is no type")
        _decoder_of(model)
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise ConfigError(
            f"model={model!r}: a msgspec Struct, a dataclass, a TypedDict, a pydantic model or a model of "
            f"kubernetes_asyncio is needed: {error}"
        ) from error


@lru_cache(maxsize=256)  # a decoder holds its type, so only so many
def _decoder_of(kind: Any) -> Decode:
    if hasattr(kind, "openapi_types") and hasattr(kind, "attribute_map"):
        return _openapi_decoder(kind)
    if hasattr(kind, "model_validate_json"):
        return cast("Decode", kind.model_validate_json)
    if hasattr(kind, "__pydantic_validator__"):  # its dataclasses, which msgspec would fill past their validation
        return cast("Decode", kind.__pydantic_validator__.validate_json)
    return msgspec.json.Decoder(kind).decode


def _name_of(kind: Any) -> str:
    return str(getattr(kind, "__qualname__", kind))


def _reason(error: Exception) -> str:
    """The words of an error, with the field; of pydantic's without the value that it quotes."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    found = errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{one['msg']} - at `{'.'.join(['$', *map(str, one['loc'])])}`" for one in found)


# --- models of kubernetes_asyncio --------------------------------------------------------------------------


class _Misfit(ValueError):
    """A value that is not what its place is for; the path grows on the way out."""

    def __init__(self, expected: str, value: Any) -> None:
        self.path: list[str] = []
        self._text = f"Expected `{expected}`, got `{type(value).__name__}`"

    def __str__(self) -> str:
        return f"{self._text} - at `{'.'.join(['$', *self.path])}`"


_PRIMITIVES: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (float, int),
    "bool": (bool,),
    "bytes": (str,),
    "date": (str,),
    "datetime": (str,),
}


def _openapi_decoder(model: Any) -> Decode:
    """As ApiClient.deserialize of kubernetes_asyncio, which needs a response, and an ApiClient with its session."""
    # Imported here, since the models cost 0.6 s and 60 MB.
    from kubernetes_asyncio.client import Configuration, models

    # What a server sends is not to be refused by a client's validation; and one configuration for all, since a model
    # without one makes its own, 50 of them for a Pod.
    configuration = Configuration()
    configuration.client_side_validation = False

    def build(value: Any, kind: Any) -> Any:
        if value is None or kind == "object":
            return value
        if isinstance(kind, str):
            if kind.startswith("list["):
                return [inside(str(at), element, kind[5:-1]) for at, element in enumerate(_needs(list, value))]
            if kind.startswith("dict("):
                element_kind = kind[5:-1].split(", ", 1)[1]
                return {key: inside(key, element, element_kind) for key, element in _needs(dict, value).items()}
            if kind in _PRIMITIVES:
                return _primitive(value, kind)
            kind = getattr(models, kind, None)
            if kind is None:  # a type that they name and do not have
                return value
        _needs(dict, value)
        fields = {
            attribute: inside(wire, value[wire], field_kind)
            for attribute, field_kind in kind.openapi_types.items()
            if (wire := kind.attribute_map[attribute]) in value
        }
        return kind(local_vars_configuration=configuration, **fields)

    def inside(step: str, value: Any, kind: Any) -> Any:
        try:
            return build(value, kind)
        except _Misfit as misfit:
            misfit.path.insert(0, step)
            raise

    def decode(raw: bytes) -> Any:
        return build(_decode_any(raw), model)

    return decode


def _needs(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise _Misfit(kind.__name__, value)
    return value


def _primitive(value: Any, kind: str) -> Any:
    if isinstance(value, bool) and kind != "bool":
        raise _Misfit(kind, value)
    if not isinstance(value, _PRIMITIVES[kind]):
        if kind == "str" and isinstance(value, int | float):
            return str(value)  # a quantity that was written as a number; upstream does the same
        raise _Misfit(kind, value)
    if kind in ("date", "datetime"):
        try:
            return msgspec.convert(value, datetime if kind == "datetime" else date)
        except msgspec.ValidationError:
            raise _Misfit(kind, value) from None
    return value
