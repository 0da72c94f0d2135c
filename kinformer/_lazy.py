"""Imports of public names when they are first used, and imports that need an extra.

The public names of a package are listed in its stub.

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
    from types import TracebackType

__all__ = ["attach_stub", "needs_extra"]


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


class needs_extra:  # noqa: N801 - read as a function, and `contextlib` would slow down `import kinformer`
    """Names the extra to install if an import within it fails, because a package of the extra is missing.

    Args:
        extra: The extra of kinformer.
        *packages: The modules of its packages. Any other module that is missing is a fault of another kind.

    Raises:
        ModuleNotFoundError: It is an ImportError, and its message has the command that installs the extra.
    """

    def __init__(self, extra: str, *packages: str) -> None:
        self._extra = extra
        self._packages = packages

    def __enter__(self) -> None:
        """Begin to look at the imports."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in self._packages:
            message = f"{error.name} is not installed: pip install 'kinformer[{self._extra}]'"
            raise ModuleNotFoundError(message, name=error.name) from None
