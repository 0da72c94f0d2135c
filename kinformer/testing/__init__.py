"""API servers for tests: `APIServer` runs in this process, `ControlPlane` runs the real binaries.

::

    from kinformer.testing import APIServer, ControlPlane, faults

`ClusterServer` is the protocol that both implement. Names are imported when they are first used, so that the pytest
plugin adds nothing to a run that does not use its fixtures. Each is written once, with its module, in
``__init__.pyi``, as those of `kinformer` are.
"""

from __future__ import annotations

import re
from importlib import import_module

# The package's own loader reads the file, in a zip archive too.
_STUB = __spec__.loader.get_data(f"{__path__[0]}/__init__.pyi").decode()

_module_of = {name: module for module, name in re.findall(r"^from (\S+) import \w+ as (\w+)$", _STUB, re.MULTILINE)}

__all__ = sorted(_module_of)  # pyright: ignore[reportUnsupportedDunderAll] - type checkers read the stub


def __getattr__(name: str) -> object:
    if name not in _module_of:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _module_of[name]
    is_module = module == __name__  # `faults`, which importing it makes an attribute of this package
    value: object = import_module(f"{module}.{name}") if is_module else getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *(name for name in globals() if name.startswith("__") and name.endswith("__"))]
