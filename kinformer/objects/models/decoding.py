"""Models: decodes the JSON of an object as an instance of a given type."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Protocol, TypeGuard, TypeVar, cast

import msgspec

from kinformer.exceptions import ConfigError, DecodeError
from kinformer.objects.types import JSON

__all__ = ["check_model", "decode_as"]

T = TypeVar("T")

Decode = Callable[[bytes], object]

_decode_any: Callable[[bytes], JSON] = msgspec.json.Decoder().decode


def decode_as(raw: bytes, type: type[T], source: object) -> T:  # noqa: A002 - the word of msgspec and pydantic
    """Decode JSON as a new instance of `type`.

    `type` is any type that msgspec decodes (Struct, dataclass, TypedDict ...), a pydantic model or dataclass (it has
    `__pydantic_validator__`, as the models of kubernetes from 37 on), or a model of kubernetes_asyncio or an earlier
    kubernetes (it has `openapi_types` and `attribute_map`), whose parts come from the same package.

    Raises:
        DecodeError: The JSON does not match the type. The message names `source` and the field, and `__cause__` has
            the details. A pydantic error is in `__context__` instead, because it quotes the object, and the data of a
            Secret must not appear in logged tracebacks.
    """
    try:
        return cast("T", _decoder_of(cast("object", type))(raw))
    except (ValueError, msgspec.MsgspecError, TypeError, AttributeError, RecursionError) as error:
        message = f"{source} does not fit {_name_of(type)}: {_reason(error)}"
        if hasattr(error, "errors"):
            raise DecodeError(message) from None
        raise DecodeError(message) from error


def check_model(model: object) -> None:
    """Check that objects can be decoded as a type, before the first one arrives.

    Raises:
        ConfigError: Objects cannot be decoded as this type.
    """
    try:
        if not callable(model):
            raise TypeError("not a type")
        _decoder_of(model)
    except (TypeError, ValueError, NameError, AttributeError) as error:
        raise ConfigError(
            f"model={model!r}: expected a msgspec Struct, a dataclass, a TypedDict, a pydantic model or a model of "
            f"kubernetes_asyncio: {error}"
        ) from error


class _OpenAPIModel(Protocol):
    """A model of kubernetes_asyncio."""

    openapi_types: Mapping[str, str]
    attribute_map: Mapping[str, str]

    def __call__(self, *, local_vars_configuration: object, **fields: object) -> object: ...


def _is_openapi_model(kind: object) -> TypeGuard[_OpenAPIModel]:
    return hasattr(kind, "openapi_types") and hasattr(kind, "attribute_map")


@lru_cache(maxsize=256)  # bounded, because a decoder keeps its type alive
def _decoder_of(kind: object) -> Decode:
    # A pydantic model, or a pydantic dataclass, which msgspec would fill without validating it.
    validate: Decode | None = getattr(kind, "model_validate_json", None)
    validator = getattr(kind, "__pydantic_validator__", None)
    validate = validate or getattr(validator, "validate_json", None)
    if validate is None and _is_openapi_model(kind):
        return _openapi_decoder(kind)
    return validate or msgspec.json.Decoder(kind).decode


def _name_of(kind: object) -> str:
    return str(getattr(kind, "__qualname__", kind))


def _reason(error: Exception) -> str:
    """Return the message of an error with the field. For pydantic, without the quoted value."""
    errors = getattr(error, "errors", None)
    if errors is None:
        return str(error)
    problems = errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(f"{problem['msg']} - at `{'.'.join(['$', *map(str, problem['loc'])])}`" for problem in problems)


# --- models of OpenAPI generators --------------------------------------------------------------------------


class _Misfit(ValueError):
    """A value has the wrong type. Its path grows as the exception propagates through the levels of the document."""

    def __init__(self, expected: str, value: object) -> None:
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


def _openapi_decoder(model: _OpenAPIModel) -> Decode:
    """Return a decoder like kubernetes_asyncio's ApiClient.deserialize, which needs no response and ApiClient."""
    models = _package_of(model)
    # A client's validation must not reject a server's data. All models share one configuration, because otherwise each
    # creates its own, which makes 50 for a Pod.
    configuration = models.Configuration()
    configuration.client_side_validation = False

    def build(value: JSON, kind: str) -> object:
        if value is None or kind == "object":
            return value
        if kind.startswith("list["):
            return [inside(str(at), element, kind[5:-1]) for at, element in enumerate(_needs(list, value))]
        if kind.startswith("dict("):
            element_kind = kind[5:-1].split(", ", 1)[1]
            return {key: inside(key, element, element_kind) for key, element in _needs(dict, value).items()}
        if kind in _PRIMITIVES:
            return _primitive(value, kind)
        nested = getattr(models, kind, None)
        return value if nested is None else build_model(value, nested)  # some packages lack a model

    def build_model(value: JSON, kind: _OpenAPIModel) -> object:
        document = _needs(dict, value)
        fields = {
            attribute: inside(wire, document[wire], field_kind)
            for attribute, field_kind in kind.openapi_types.items()
            if (wire := kind.attribute_map[attribute]) in document
        }
        return kind(local_vars_configuration=configuration, **fields)

    def inside(step: str, value: JSON, kind: str) -> object:
        try:
            return build(value, kind)
        except _Misfit as misfit:
            misfit.path.insert(0, step)
            raise

    def decode(raw: bytes) -> object:
        value = _decode_any(raw)
        return None if value is None else build_model(value, model)

    return decode


def _package_of(model: _OpenAPIModel) -> ModuleType:
    """Return the package of a model, or of the model that it derives from. It was imported with that."""
    for base in getattr(model, "__mro__", ()):
        package, separator, _ = base.__module__.partition(".models.")
        if separator:
            return import_module(package)
    return import_module("kubernetes_asyncio.client")


def _needs(kind: type[T], value: object) -> T:
    if not isinstance(value, kind):
        raise _Misfit(kind.__name__, value)
    return value


def _primitive(value: JSON, kind: str) -> object:
    if isinstance(value, bool) and kind != "bool":
        raise _Misfit(kind, value)
    if not isinstance(value, _PRIMITIVES[kind]):
        if kind == "str" and isinstance(value, int | float):
            return str(value)  # a quantity written as a number, handled as upstream
        raise _Misfit(kind, value)
    if kind in ("date", "datetime"):
        try:
            return msgspec.convert(value, datetime if kind == "datetime" else date)
        except msgspec.ValidationError:
            raise _Misfit(kind, value) from None
    return value
