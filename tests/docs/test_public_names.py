"""The public names: each is written once, found by every way to import it, and enough for what is built on them."""

from __future__ import annotations

import ast
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import kinformer
import kinformer.testing
from kinformer import (
    Client,
    Controller,
    EventStream,
    HandlerRegistration,
    SharedInformer,
    SharedInformerFactory,
)
from tests.docs import public_members

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kinformer"


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """Each name that a file imports by `from`, with its module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (((node.module or "") if not node.level else "." * node.level, one.name) for one in node.names)


DOORS = ("kinformer", "kinformer.conditions", "kinformer.testing")

STUB = [(module, name) for module, name in imports_of(PACKAGE / "__init__.pyi") if module.startswith("kinformer.")]


def test_the_public_names_are_those_of_the_stub() -> None:
    assert kinformer.__all__ == sorted(name for _, name in STUB)
    assert len(set(kinformer.__all__)) == len(kinformer.__all__) > 90
    assert set(kinformer.__all__) <= set(dir(kinformer))


def test_dir_shows_the_public_names_alone() -> None:
    for package in (kinformer, kinformer.testing):
        assert [name for name in sorted(dir(package)) if not name.startswith("__")] == sorted(package.__all__)


def test_each_public_name_is_what_its_module_defines() -> None:
    for module, name in STUB:
        found = getattr(kinformer, name)
        assert found is getattr(import_module(module), name)
        assert getattr(found, "__module__", module) in (module, "typing"), f"{name} is defined in another module"


def test_a_name_that_is_not_public_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="module 'kinformer' has no attribute 'nothing'"):
        kinformer.nothing  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match=r"module 'kinformer\.testing' has no attribute 'nothing'"):
        kinformer.testing.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_the_public_names_for_tests_are_those_of_their_stub() -> None:
    stub = list(imports_of(PACKAGE / "testing/__init__.pyi"))
    assert kinformer.testing.__all__ == sorted(name for _, name in stub)
    assert set(kinformer.testing.__all__) <= set(dir(kinformer.testing))
    for module, name in stub:
        found = getattr(kinformer.testing, name)
        assert found is getattr(import_module(module), name)
        if not isinstance(found, ModuleType):
            assert getattr(found, "__module__", module) == module, f"{name} is defined in another module"


def in_a_new_interpreter(program: str, *, path: Path = ROOT) -> str:
    """What a program prints that finds kinformer in `path`, and nothing else that is not installed."""
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(path)!r})\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.process
def test_a_star_brings_every_name_and_nothing_else() -> None:
    program = "names = {}; exec('from kinformer import *', names); print(*sorted(set(names) - {'__builtins__'}))"
    assert in_a_new_interpreter(program).split() == kinformer.__all__


@pytest.mark.process
def test_the_import_alone_brings_no_other_module() -> None:
    program = "before = set(sys.modules); import kinformer; print(*sorted(set(sys.modules) - before))"
    brought = in_a_new_interpreter(program).split()
    assert {name.partition(".")[0] for name in brought} <= {"__future__", "importlib", "kinformer", "warnings"}
    assert [name for name in brought if name.startswith("kinformer")] == ["kinformer"]


@pytest.mark.process
def test_names_are_found_in_a_zip_archive(tmp_path: Path) -> None:
    archive = tmp_path / "kinformer.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        for file in PACKAGE.rglob("*"):
            if file.suffix in (".py", ".pyi"):
                packed.write(file, file.relative_to(ROOT))
    program = "import kinformer; print(kinformer.__file__); print(kinformer.GroupVersionResource.parse('v1/pods'))"
    assert in_a_new_interpreter(program, path=archive).split() == [f"{archive}/kinformer/__init__.py", "v1/pods"]
    program = "from kinformer.testing import Features, faults; print(Features().initializing, faults.reset().kind)"
    assert in_a_new_interpreter(program, path=archive).split() == ["0.0", "reset"]


def test_completion_offers_the_members_that_are_on_the_list() -> None:
    listed = public_members.LIST.read_text(encoding="utf-8").splitlines()
    assert public_members.lines() == listed, "is it meant? Then: python -m tests.docs.public_members"


def test_internal_methods_are_not_offered() -> None:
    internal = {"crash", "refuse_leaving", "refuse_inside_handlers", "start_tasks", "leave", "mailbox", "runner"}
    for public in (SharedInformer, SharedInformerFactory, EventStream, HandlerRegistration, Client, Controller):
        assert public_members.members_of(public) & internal == set()


# --- what is built on the public names -----------------------------------------------------------------------------


def test_the_command_line_and_contrib_use_public_names_alone() -> None:
    public = {name: set(import_module(name).__all__) for name in DOORS}
    public["kinformer"].add("__version__")
    private = []
    for path in sorted([*(PACKAGE / "cli").rglob("*.py"), *(PACKAGE / "contrib").rglob("*.py")]):
        for module, name in imports_of(path):
            assert not module.startswith("."), f"{path}: a relative import"
            package, _, inner = module.partition(".")
            if package != "kinformer" or inner.partition(".")[0] in ("cli", "contrib"):
                continue
            if name not in public.get(module, ()):
                private.append(f"{path.relative_to(ROOT)}: {module}.{name}")
    assert not private


def test_the_rest_of_the_package_imports_names_where_they_are_defined() -> None:
    """A module that took them from the root would need, to be imported, what is above it."""
    above = {"cli", "contrib"}
    files = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in above]
    assert len(files) > 200
    assert not [path for path in files if any(module == "kinformer" for module, _ in imports_of(path))]
