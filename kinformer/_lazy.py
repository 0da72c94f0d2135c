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

__all__ = ["PLACES", "attach_stub", "needs_extra"]

_MODULES = (
    "client informer cache processor objects conditions kinds exceptions watching derived fleet controller workqueue "
    "leaderelection manager listening watchcache sharding blocking metrics snapshot list_watcher listwatch reflector "
    "queue contrib.fastapi contrib.arrow contrib.prometheus contrib.opentelemetry contrib.problems contrib.changes "
    "contrib.backends cli.dashboard testing testing.faults testing.explore"
)
PLACES = ("kinformer", *map("kinformer.{}".format, _MODULES.split()))
"""The packages and modules that public names are imported from. An error names the first that has the name."""


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
            raise _no_name(package, name)
        # A name may be a module of the package itself, as `faults` of `kinformer.testing` is.
        value: object = import_module(f"{module}.{name}") if module == package else getattr(import_module(module), name)
        vars(sys.modules[package])[name] = value
        return value

    def list_names() -> list[str]:
        own = vars(sys.modules[package])
        return [*load(), *(name for name in own if name.startswith("__") and name.endswith("__"))]

    return get_attribute, list_names


def _no_name(package: str, name: str) -> Exception:
    """Return the error for a name that a package lacks. It says where the name is, if that is public."""
    from importlib.util import find_spec

    # A `from` import ignores the message of an AttributeError, so it gets an ImportError. importlib asks first, for it.
    is_imported = sys._getframe(2).f_code.co_name == "_handle_fromlist"
    is_module = is_imported and find_spec(f"{package}.{name}")
    place = "" if is_module or name.startswith("_") else _place_of(name)
    if place and is_imported:
        return ImportError(f"cannot import name {name!r} from {package!r}; it is in {place}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}" + (f"; it is in {place}" if place else ""))


def _place_of(name: str) -> str:
    from contextlib import suppress

    root = sys.modules["kinformer"]
    for place in PLACES:
        path = root.__path__[0] + place.removeprefix("kinformer").replace(".", "/")
        for file in (f"{path}/__init__.pyi", f"{path}/__init__.py", f"{path}.py"):
            with suppress(OSError):
                text = root.__spec__.loader.get_data(file).decode()  # type: ignore[union-attr]
                if f" {name} as {name}\n" in text or f'"{name}"' in text.partition("__all__ = [")[2].partition("]")[0]:
                    return place
    return ""


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

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] in self._packages:
            message = f"{error.name} is not installed: pip install 'kinformer[{self._extra}]'"
            raise ModuleNotFoundError(message, name=error.name) from None
