"""Checks of arguments: that a callback can be called with the arguments it will receive, and that options exist.

A wrong callback or keyword fails in the line that passes it, instead of at each event, in a log. Options are kept as
one frozen Struct, with a `TypedDict` of its fields for the keywords of public functions, which `shows_options` lists.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Mapping
from functools import partial
from inspect import Parameter
from typing import Any, TypeVar, cast

import msgspec

__all__ = [
    "check_callback",
    "is_coroutine_function",
    "keywords_of",
    "name_of",
    "options_of",
    "shows_options",
    "takes",
    "takes_by_name",
]

OptionsT = TypeVar("OptionsT", bound=msgspec.Struct)
FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])
K = TypeVar("K")


def check_callback(
    callback: object, option: str, arguments: str, owner: str, *, keywords: str = "", plain: bool = False
) -> None:
    """Raise TypeError unless `callback` can be called with these arguments. An unknown signature is accepted.

    Args:
        callback: The function, or another callable.
        option: The name of the parameter that it was passed as, for the message.
        arguments: The names of the positional arguments that it will receive, such as `"old, new"`.
        owner: The object that it is passed to, such as `"informer v1/pods"`.
        keywords: The names of the keyword arguments that it will receive.
        plain: True if its result is used at once, so it must not be a coroutine function.

    Raises:
        TypeError: It cannot. The message names the owner, the option, the callback and its arguments.
    """
    named = _split(keywords)
    call = f"({', '.join(filter(None, (arguments, *(f'{name}=...' for name in named))))})"
    if not callable(callback):
        raise TypeError(f"{owner}: {option}={callback!r} is not callable; pass a function that takes {call}")
    name = f"{option}={name_of(callback)}"
    if plain and is_coroutine_function(inspect.unwrap(callback)):
        raise TypeError(f"{owner}: {name} is a coroutine function, whose result would be lost; pass a plain function")
    try:
        # The callable's own signature, because a decorator may pass on other arguments than it takes.
        signature = inspect.signature(callback, follow_wrapped=False)
    except (TypeError, ValueError):  # a callable in C without a signature
        return
    try:
        signature.bind(*_split(arguments), **dict.fromkeys(named, True))
    except TypeError as error:
        raise TypeError(f"{owner}: {name} is called with {call}, but takes {_shown(signature)}: {error}") from None


def _split(names: str) -> list[str]:
    return [name for name in names.split(", ") if name]


def is_coroutine_function(callback: object) -> bool:
    """True if calling it returns a coroutine: a coroutine function, a partial of one, or an async `__call__`."""
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(getattr(callback, "__call__", None))  # noqa: B004


def takes(callback: object, name: str) -> bool:
    """True if a callback, and the function that it decorates, accept a keyword argument of this name.

    False if its signature is not known.
    """
    return callable(callback) and all(_takes(callback, name, follow_wrapped=follow) for follow in (False, True))


def takes_by_name(callback: object, name: str) -> bool:
    """True if a callback has a keyword-only parameter of this name, which cannot have been meant for anything else."""
    named = _parameters(callback).get(name)
    return named is not None and named.kind is named.KEYWORD_ONLY


def _takes(callback: object, name: str, *, follow_wrapped: bool) -> bool:
    parameters = _parameters(callback, follow_wrapped=follow_wrapped)
    named = parameters.get(name)
    if named is not None and named.kind is not named.VAR_POSITIONAL:
        return named.kind is not named.POSITIONAL_ONLY
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())


def _parameters(callback: Any, *, follow_wrapped: bool = True) -> Mapping[str, Parameter]:
    """Return the parameters of a callable by name, or nothing if its signature is not known."""
    try:
        return inspect.signature(callback, follow_wrapped=follow_wrapped).parameters
    except (TypeError, ValueError):
        return {}


def name_of(callback: object) -> str:
    """Return the qualified name of a function, or of the class of any other callable."""
    callback = inspect.unwrap(callback) if callable(callback) else callback
    if isinstance(callback, partial):
        return name_of(callback.func)
    name = getattr(callback, "__qualname__", None)
    return type(callback).__qualname__ if name is None else str(name)


def _shown(signature: inspect.Signature) -> str:
    """Return the signature without annotations, which would make the line long."""
    plain = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def options_of(kind: type[OptionsT], owner: str, keywords: Mapping[str, Any]) -> OptionsT:
    """Return a Struct of options with values from keywords.

    Args:
        kind: The Struct.
        owner: The function that was called, for the error.
        keywords: Values for some or all fields.

    Raises:
        TypeError: A keyword is not an option.
    """
    options = sorted(kind.__struct_fields__)
    for keyword in keywords:
        if keyword not in options:
            raise TypeError(f"{owner}: unexpected keyword {keyword!r}; known options: {', '.join(options)}")
    return kind(**keywords)


def keywords_of(options: object, kind: type[K]) -> K:
    """Return the options that `kind`, a `TypedDict`, has, as keywords."""
    return cast("K", {name: getattr(options, name) for name in kind.__annotations__})


def shows_options(
    kind: type[msgspec.Struct], *, without: Container[str] = (), unset: str = ""
) -> Callable[[FunctionT], FunctionT]:
    """Return a decorator for a function with `**options`, whose signature then lists them with their defaults.

    `help()`, `inspect.signature` and notebooks read the signature. Calls of the function are not affected.

    Args:
        kind: The Struct of the options. Its own come before those of its bases. A function that takes the options of
            several has a decorator for each, in reverse order.
        without: Options that the function does not take.
        unset: Shown instead of each default, if an option that is not passed has its value from elsewhere.
    """

    def decorate(function: FunctionT) -> FunctionT:
        signature = inspect.signature(function)
        shown = {name: named for name, named in signature.parameters.items() if named.kind is not named.VAR_KEYWORD}
        for name, default, annotation in _options(kind):
            if name not in shown and name not in without:
                default = _Words(unset) if unset else default
                shown[name] = Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        function.__signature__ = signature.replace(parameters=list(shown.values()))  # type: ignore[attr-defined]
        return function

    return decorate


def _options(kind: type[msgspec.Struct]) -> Iterator[tuple[str, object, str]]:
    """Yield the name, the default and the annotation of each option, the class's own before those of its bases."""
    defaults = dict(zip(kind.__struct_fields__, kind.__struct_defaults__, strict=True))
    for owner in kind.__mro__:
        for name, annotation in inspect.get_annotations(owner).items():
            make = getattr(defaults[name], "factory", None)  # of a `msgspec.field(default_factory=...)`
            yield name, make() if make else defaults[name], annotation


class _Words(str):
    """A default that is shown as these words, without quotes."""

    __slots__ = ()
    __repr__ = str.__str__
