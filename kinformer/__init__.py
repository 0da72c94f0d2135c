"""Kubernetes informers for asyncio.

An informer lists a resource once, watches it from there, keeps an indexed copy in memory, and tells
handlers what changed. Start with `Client` and `SharedInformerFactory`; ``docs/architecture.md`` shows how
a line of a watch becomes a call of a handler.

Names are imported when they are first used, so that ``import kinformer`` costs a program only what it uses.
Each is written once, with its module, in ``__init__.pyi``: type checkers and editors read that file, and so does
this module.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"


def _modules_by_name() -> dict[str, str]:
    """Return the public names of the stub, each with the module that defines it.

    The package's own loader reads the file, in a zip archive too. Neither `re` nor `pkgutil` is used: importing one of
    them takes ten times as long as everything else here.
    """
    words = iter(__spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode().split())
    found, module = {}, ""
    for word in words:
        if word == "from":
            module = next(words)
        elif word == "as":
            found[next(words).rstrip(",")] = module
    return found


_module_of = _modules_by_name()

__all__ = sorted(_module_of)  # pyright: ignore[reportUnsupportedDunderAll] - type checkers read the stub


def __getattr__(name: str) -> object:
    if name not in _module_of:
        raise AttributeError(f"module 'kinformer' has no attribute {name!r}")
    value: object = getattr(import_module(_module_of[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__") and name.endswith("__"))]
