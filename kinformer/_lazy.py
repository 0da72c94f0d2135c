"""Public names that are imported when they are first used, listed in the stub of their package.

Such a package has an ``__init__.pyi`` with a line for each name, `from module import name as name`. Type checkers and
editors read that file, and so does `attach_stub`: each name is written once. (PEP 562)
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # importing `typing` for it would take longer than everything else here
if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec

__all__ = ["attach_stub"]


def attach_stub(spec: ModuleSpec | None) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and `__dir__` of a package whose public names are those of its stub.

    The stub is read when the first name is used, by the package's own loader, which finds it in a zip archive too.

    Args:
        spec: The `__spec__` of the package.
    """
    assert spec is not None
    package = spec.name
    module_of: dict[str, str] = {}

    def load() -> dict[str, str]:
        if not module_of:
            stub = f"{spec.submodule_search_locations[0]}/__init__.pyi"  # type: ignore[index]
            for line in spec.loader.get_data(stub).decode().splitlines():  # type: ignore[union-attr]
                if line.startswith("from "):
                    _, module, _, _, _, name = line.split()
                    module_of[name] = module
        return module_of

    def get_attribute(name: str) -> object:
        if name == "__all__":
            return sorted(load())
        module = None if name.startswith("__") else load().get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        # A name may be a module of the package itself, as `faults` of `kinformer.testing` is.
        value: object = import_module(f"{module}.{name}") if module == package else getattr(import_module(module), name)
        vars(sys.modules[package])[name] = value
        return value

    def list_names() -> list[str]:
        own = vars(sys.modules[package])
        return [*load(), *(name for name in own if name.startswith("__") and name.endswith("__"))]

    return get_attribute, list_names
