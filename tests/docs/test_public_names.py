"""The public names: each is written once, found by every way to import it, and enough for what is built on them."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

import kinformer
from kinformer import (
    Client,
    Controller,
    EventStream,
    HandlerRegistration,
    SharedInformer,
    SharedInformerFactory,
)
from tests.docs import public_names
from tests.docs.public_names import DOORS

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "kinformer"


def imports_of(path: Path) -> Iterator[tuple[str, str]]:
    """Each name that a file imports by `from`, with its module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            yield from (((node.module or "") if not node.level else "." * node.level, one.name) for one in node.names)


# `kinformer.contrib` has no name of its own, but says where names are.
STUBS = [
    door
    for door in (*DOORS, "kinformer.contrib")
    if (PACKAGE.parent / door.replace(".", "/") / "__init__.pyi").is_file()
]


def stub_of(door: str) -> list[tuple[str, str]]:
    """The names of a package's stub, each with the module that it is imported from."""
    return list(imports_of(PACKAGE.parent / door.replace(".", "/") / "__init__.pyi"))


def test_the_root_has_at_most_sixty_names() -> None:
    assert len(kinformer.__all__) <= 60


def test_names_are_those_of_the_committed_list() -> None:
    listed = public_names.LIST.read_text(encoding="utf-8").splitlines()
    assert public_names.lines() == listed, "is it meant? Then: python -m tests.docs.public_names"


def test_each_package_with_a_stub_is_listed_and_each_stub_is_used() -> None:
    stubs = {
        path.parent.relative_to(PACKAGE.parent).as_posix().replace("/", ".") for path in PACKAGE.rglob("__init__.pyi")
    }
    assert stubs == set(STUBS)


@pytest.mark.parametrize("door", STUBS)
def test_the_public_names_of_a_package_are_those_of_its_stub(door: str) -> None:
    package = import_module(door)
    assert package.__all__ == sorted(name for _, name in stub_of(door))
    assert [name for name in sorted(dir(package)) if not name.startswith("__")] == package.__all__
    for module, name in stub_of(door):
        found = getattr(package, name)
        if not isinstance(found, ModuleType):
            assert found is getattr(import_module(module), name)
            assert getattr(found, "__module__", module) in (module, "typing"), f"{name} is defined in another module"
            # `check_fences` belongs to those who use it: its module has no public name of its own.
            # `kinformer.conditions` is the door of what kinds wait for, `kinformer.client` that of the connection too.
            elsewhere = name == "check_fences" or module.startswith(("kinformer.kinds.cond", "kinformer.connection."))
            assert door == "kinformer" or module.startswith(door) or elsewhere


def test_each_public_name_is_imported_from_one_package_and_perhaps_from_the_root() -> None:
    owners: dict[int, list[str]] = defaultdict(list)
    for door in DOORS[1:]:
        for name in public_names.names_of(door):
            found = getattr(import_module(door), name)
            if getattr(found, "__name__", name) == name:  # not an alias
                owners[id(found)].append(f"{door}.{name}")
    assert [places for places in owners.values() if len(places) > 1] == []
    alone = [name for name in kinformer.__all__ if id(getattr(kinformer, name)) not in owners]
    assert alone == ["Backoff"]  # its package, which has no other public name, is private


@pytest.mark.parametrize("door", ["kinformer", "kinformer.testing", "kinformer.controller"])
def test_a_name_that_is_not_public_is_no_attribute(door: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{re.escape(door)}' has no attribute 'nothing'"):
        import_module(door).nothing  # noqa: B018


def refusal(statement: str) -> str:
    """The message of the error that a statement ends with."""
    with pytest.raises((ImportError, AttributeError)) as raised:
        exec(statement, {"kinformer": kinformer})
    return str(raised.value)


def test_an_error_for_a_name_of_another_package_says_where_it_is() -> None:
    wrong = "cannot import name 'owned_by' from 'kinformer.controller'"
    assert refusal("from kinformer.controller import owned_by") == f"{wrong}; it is in kinformer.objects"
    wrong = "module 'kinformer' has no attribute 'EventRecorder'"
    assert refusal("kinformer.EventRecorder") == f"{wrong}; it is in kinformer.controller"
    assert refusal("from kinformer.informer import Client").endswith("; it is in kinformer")
    assert refusal("from kinformer.contrib import Problems").endswith("; it is in kinformer.contrib.problems")
    assert not hasattr(kinformer, "EventRecorder")


def test_every_public_name_is_found_from_a_package_that_lacks_it() -> None:
    places = {name: place for place in reversed(DOORS) for name in public_names.names_of(place)}
    for name, place in places.items():  # the first that has it
        with pytest.raises(AttributeError, match=rf"; it is in {re.escape(place)}$"):
            getattr(import_module("kinformer.contrib"), name)


def test_a_submodule_with_the_name_of_something_public_elsewhere_is_imported() -> None:
    exec("from kinformer.controller import status")
    assert "status" in public_names.names_of("kinformer.testing.faults")


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
    assert [name for name in brought if name.startswith("kinformer")] == ["kinformer", "kinformer._lazy"]


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


def test_internal_methods_are_not_offered() -> None:
    internal = {"crash", "refuse_leaving", "refuse_inside_handlers", "start_tasks", "leave", "mailbox", "runner"}
    for public in (SharedInformer, SharedInformerFactory, EventStream, HandlerRegistration, Client, Controller):
        assert public_names.members_of(public) & internal == set()


# --- what is built on the public names -----------------------------------------------------------------------------


def test_the_command_line_and_contrib_use_public_names_alone() -> None:
    public = {door: set(public_names.names_of(door)) for door in DOORS}
    public["kinformer"].add("__version__")
    public["kinformer._lazy"] = {"attach_stub", "needs_extra"}  # they name what is missing, or where it is
    private = []
    for path in sorted([*(PACKAGE / "cli").rglob("*.py"), *(PACKAGE / "contrib").rglob("*.py")]):
        for module, name in imports_of(path):
            assert not module.startswith("."), f"{path}: a relative import"
            package, _, inner = module.partition(".")
            if package != "kinformer" or inner.partition(".")[0] in ("cli", "contrib"):
                continue
            if name not in public.get(module, ()) and inner.partition(".")[0] not in ("objects", "kinds"):
                private.append(f"{path.relative_to(ROOT)}: {module}.{name}")
    assert not private


def test_the_rest_of_the_package_imports_names_where_they_are_defined() -> None:
    """A module that took them from the root would need, to be imported, what is above it."""
    above = {"cli", "contrib"}
    files = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in above]
    assert len(files) > 200
    assert not [path for path in files if any(module == "kinformer" for module, _ in imports_of(path))]
