"""The wheel and the sdist in empty virtual environments, by path: the README's commands work there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import kinformer
from tests.packaging.building import ROOT, Distributions

pytestmark = [pytest.mark.tools, pytest.mark.process, pytest.mark.timeout(600)]


def environment() -> dict[str, str]:
    """The environment without what leads back to this checkout."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(params=["wheel", "sdist"])
def distribution(request: pytest.FixtureRequest, released: Distributions) -> Path:
    path: Path = getattr(released, request.param)
    return path.resolve()


def readme_commands() -> list[str]:
    """The commands of the first block of the README, which is one line."""
    block = re.search(r"```sh\n(.*)\n```", (ROOT / "README.md").read_text())
    assert block
    return block[1].split(" && ")


def test_the_commands_of_the_readme_show_the_demo(distribution: Path, tmp_path: Path) -> None:
    commands = readme_commands()
    assert "'.[cli]'" in commands[-2]
    assert commands[-1].endswith("kinformer demo")
    for command in commands[:-1]:
        words = command.replace("python3 -m", f"{sys.executable} -m").replace("'.[cli]'", f"'{distribution}[cli]'")
        run(tmp_path, "/bin/sh", "-ec", words)
    installed = tmp_path / ".venv" / "bin"
    said = run(tmp_path, "/bin/sh", "-ec", f"{commands[-1]} --duration 5 --plain")
    assert re.search(r"^\d\d:\d\d:\d\d +pods: .*Running", said, re.MULTILINE)
    assert re.search(r"The caches of 3 informers equal the server, object by object: \d+", said)
    assert run(tmp_path, str(installed / "kinformer"), "--version") == f"kinformer {kinformer.__version__}\n"
    where = run(tmp_path, str(installed / "python"), "-c", "import kinformer; print(kinformer.__file__)")
    assert Path(where.strip()).is_relative_to(tmp_path / ".venv"), "it ran from somewhere else"


@contextmanager
def started(folder: Path, *command: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def installed_with(distribution: Path, extra: str, folder: Path) -> Path:
    """A new virtual environment with one extra; the folder of its programs."""
    run(folder, sys.executable, "-m", "venv", "--without-pip", ".venv")
    pip = [sys.executable, "-m", "pip", "--python", str(folder / ".venv"), "install", "-q"]
    run(folder, *pip, f"{distribution}[{extra}]" if extra else str(distribution))
    return folder / ".venv" / "bin"


def fetched(url: str) -> bytes:
    """The body of a page, once the server that has named its address listens there."""
    for _ in range(100):
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                body: bytes = answer.read()
                return body
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ConnectionRefusedError):
                raise
            time.sleep(0.1)
    raise TimeoutError(f"nothing listens at {url}")


def test_the_dashboard_serves_its_page_from_what_is_installed(released: Distributions, tmp_path: Path) -> None:
    programs = installed_with(released.wheel.resolve(), "dashboard", tmp_path)
    command = (str(programs / "kinformer"), "dashboard", "--demo", "--port", "0", "--duration", "60")
    with started(tmp_path, *command) as process:
        assert process.stdout is not None
        lines = []
        for line in process.stdout:
            lines.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+/\S*", line):
                break
        else:
            pytest.fail("".join(lines))
        html = fetched(found[0]).decode()
        asked = re.findall(r'(?:src|href)="(page/[^"]+)"', html)
        assert len(asked) > 2
        for name in asked:
            assert fetched(found[0] + name) == (ROOT / "kinformer" / "cli" / "dashboard" / name).read_bytes()


def test_without_an_extra_an_informer_runs_and_the_command_says_what_is_missing(
    released: Distributions, tmp_path: Path
) -> None:
    programs = installed_with(released.wheel.resolve(), "", tmp_path)
    shutil.copy(Path(__file__).with_name("informer_program.py"), tmp_path)
    assert run(tmp_path, str(programs / "python"), "-W", "error", "informer_program.py") == "default/a\n"
    missing = subprocess.run(
        [programs / "kinformer", "demo"], env=environment(), capture_output=True, text=True, timeout=60, check=False
    )
    assert missing.returncode != 0
    assert "kinformer[cli]" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_the_sbom_lists_what_each_extra_needs_in_the_version_of_the_package(released: Distributions) -> None:
    about = released.metadata
    document = json.loads((released.wheel.parent / f"kinformer-{about['Version']}.cdx.json").read_text())
    assert document["bomFormat"] == "CycloneDX"
    component = document["metadata"]["component"]
    assert (component["name"], component["version"], component["type"]) == ("kinformer", about["Version"], "library")
    normal = {re.sub(r"[-_.]+", "-", one["name"]).lower(): one for one in document["components"]}
    needed = [one for one in about.get_all("Requires-Dist", []) if "python_version" not in one]
    required = {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", one)[0]).lower() for one in needed}
    assert len(required) > 12
    assert required <= normal.keys()
    assert normal.keys() >= {"yarl", "multidict", "starlette", "cffi"}, "those that only these need are in it too"
    assert all(one["version"] and one["purl"].startswith("pkg:pypi/") for one in normal.values())
    assert not normal.keys() & {"kinformer", "ruff", "mypy", "nox"}
