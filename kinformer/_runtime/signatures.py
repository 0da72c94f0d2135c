"""The check of a callback when it is passed: that it can be called, and with the arguments that it will get.

A wrong callback fails here, in the line that passes it, instead of at each event, in a log.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial

__all__ = ["check_callback", "is_coroutine_function", "name_of", "takes", "takes_by_name"]


def check_callback(
    callback: object, option: str, arguments: str, owner: str, *, keywords: str = "", plain: bool = False
) -> None:
    """Raise TypeError unless `callback` can be called with these arguments; one without a known signature is accepted.

    Args:
        callback: The function, or another callable.
        option: The parameter that it was passed as, for the text.
        arguments: The names of the positional arguments that it will be called with, such as `"old, new"`.
        owner: The thing that it is passed to, such as `"informer v1/pods"`.
        keywords: The names of keyword arguments that it will be called with, too.
        plain: Its result is used at once, so it must not be a coroutine function.

    Raises:
        TypeError: The text names the owner, the option, the callback and its arguments.
    """
    named = _split(keywords)
    call = f"({', '.join(filter(None, (arguments, *(f'{name}=...' for name in named))))})"
    if not callable(callback):
        raise TypeError(f"{owner}: {option}={callback!r} is not callable; pass a function that takes {call}")
    name = f"{option}={name_of(callback)}"
    if plain and is_coroutine_function(inspect.unwrap(callback)):
        raise TypeError(f"{owner}: {name} is a coroutine function, whose result would be lost; pass a plain function")
    try:
        # That of the callable itself: a decorator may pass on other arguments than it takes.
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
    """True if calling it gives a coroutine: a coroutine function, a partial of one, or an object with such a call."""
    return inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(getattr(callback, "__call__", None))  # noqa: B004


def takes(callback: object, name: str) -> bool:
    """True if a callback takes a keyword argument of this name, and so does the function that it decorates.

    False if its signature is not known.
    """
    return callable(callback) and all(_takes(callback, name, follow_wrapped=follow) for follow in (False, True))


def takes_by_name(callback: object, name: str) -> bool:
    """True if a callback has a parameter of this name that is passed by name alone: no other meaning was intended."""
    try:
        parameters = inspect.signature(callback).parameters if callable(callback) else {}
    except (TypeError, ValueError):
        return False
    return name in parameters and parameters[name].kind is inspect.Parameter.KEYWORD_ONLY


def _takes(callback: Callable[..., object], name: str, *, follow_wrapped: bool) -> bool:
    try:
        parameters = inspect.signature(callback, follow_wrapped=follow_wrapped).parameters
    except (TypeError, ValueError):
        return False
    named = parameters.get(name)
    if named is not None and named.kind is not named.VAR_POSITIONAL:
        return named.kind is not named.POSITIONAL_ONLY
    return any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def name_of(callback: object) -> str:
    """Return the name of a callback: of a function its qualified name, of another object that of its class."""
    callback = inspect.unwrap(callback) if callable(callback) else callback
    if isinstance(callback, partial):
        return name_of(callback.func)
    name = getattr(callback, "__qualname__", None)
    return type(callback).__qualname__ if name is None else str(name)


def _shown(signature: inspect.Signature) -> str:
    """Return the parameters without their annotations, which would make the line long."""
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))
