"""The Containerfiles of examples, as far as they can be looked at without building them."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {path.parent.name: path for path in sorted((ROOT / "examples").glob("*/Containerfile"))}
PROGRAMS = {"operator": "website_operator.py", "fastapi_cluster": "main.py", "shards": "restart_watch.py"}


@pytest.fixture(params=PROGRAMS)
def file(request: pytest.FixtureRequest) -> Path:
    return FILES[request.param]


def test_each_of_them_is_looked_at() -> None:
    assert FILES.keys() == PROGRAMS.keys()


def stages(file: Path) -> list[list[tuple[str, str]]]:
    """The instructions of each stage: a name in capitals, and the rest of the line."""
    found: list[list[tuple[str, str]]] = []
    for line in file.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, _, rest = line.partition(" ")
        assert name in ("FROM", "WORKDIR", "COPY", "RUN", "USER", "ENTRYPOINT"), line
        if name == "FROM":
            found.append([])
        found[-1].append((name, rest))
    return found


def copied(stage: list[tuple[str, str]]) -> list[tuple[list[str], str]]:
    """What a stage copies of the checkout, and where to."""
    words = [shlex.split(rest) for name, rest in stage if name == "COPY"]
    return [(one[:-1], one[-1]) for one in words if not one[0].startswith("--from")]


def test_all_that_it_copies_is_there_from_the_top_of_the_checkout(file: Path) -> None:
    build, final = stages(file)
    sources = [source for stage in (build, final) for names, _ in copied(stage) for source in names]
    assert len(sources) == 5
    for source in sources:
        assert (ROOT / source).exists(), source
    assert f"-f {file.relative_to(ROOT)}" in file.read_text()


def test_the_second_stage_takes_what_the_first_has_made_and_starts_the_program_that_it_copied(file: Path) -> None:
    build, final = stages(file)
    assert build[0][1].endswith(" AS wheel")
    assert build[0][1].split()[0] == final[0][1], "a wheel is made and installed by one Python"
    (made,) = [rest for name, rest in build if name == "RUN"]
    (taken,) = [rest for name, rest in final if name == "COPY" and rest.startswith("--from=wheel")]
    directory = made.split("--wheel-dir ")[1].split()[0]
    assert taken.split()[1:] == [directory, directory]
    ((program,), target), *more = copied(final)
    assert not more
    (entry,) = [json.loads(rest) for name, rest in final if name == "ENTRYPOINT"]
    name = PROGRAMS[file.parent.name]
    assert Path(program).name == name
    if entry[0] == "uvicorn":
        assert (entry[entry.index("--app-dir") + 1], entry[-1]) == (target.rstrip("/"), f"{Path(name).stem}:app")
    else:
        assert entry == ["python", "-u", target + name]
    (user,) = [rest for name, rest in final if name == "USER"]
    assert all(part.isdigit() for part in user.split(":"))


def test_the_image_has_what_the_program_imports(file: Path) -> None:
    (install,) = [rest for name, rest in stages(file)[1] if name == "RUN"]
    extras = install.split("[")[1].split("]")[0].split(",")
    tree = ast.parse((file.parent / PROGRAMS[file.parent.name]).read_text())
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}
    imported |= {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    others = {name for name in imported if name.split(".")[0] not in sys.stdlib_module_names}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    installed = {"kinformer"} | {re.split(r"[^\w-]", requirement)[0].replace("-", "_") for requirement in needed}
    assert {name.split(".")[0] for name in others} <= installed


@pytest.mark.tools
@pytest.mark.process
def test_what_the_first_stage_copies_is_enough_to_make_a_wheel_with_all_of_the_package(
    file: Path, tmp_path: Path
) -> None:
    pytest.importorskip("hatchling")
    source, wheels = tmp_path / "src", tmp_path / "wheels"
    source.mkdir()
    for names, target in copied(stages(file)[0]):
        for name in names:
            where = source / name if target == "./" else source / target
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, where, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, where)
    program = "import sys; from hatchling.build import build_wheel; build_wheel(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", program, str(wheels)], cwd=source, check=True, capture_output=True, timeout=90
    )
    (wheel,) = wheels.glob("kinformer-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
    for path in (ROOT / "kinformer").rglob("*.py"):
        assert str(path.relative_to(ROOT)) in packed
    assert {"kinformer/py.typed", "kinformer/__init__.pyi"} <= packed
