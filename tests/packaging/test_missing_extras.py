"""An import that needs an extra names the extra, for each extra in pyproject.toml."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

EXTRAS = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["optional-dependencies"]

# The modules of each extra, and the programs that need one. A program is the body of a function.
USES: dict[str, tuple[list[str], list[str]]] = {
    "cli": (["typer", "rich"], ["from kinformer.cli import main; raise SystemExit(main(['version']))"]),
    "fastapi": (
        ["starlette", "fastapi"],
        ["import kinformer.contrib.fastapi", "from kinformer.contrib.event_source import EventSourceResponse"],
    ),
    "dashboard": (["starlette", "fastapi", "uvicorn"], ["import kinformer.cli.dashboard"]),
    "prometheus": (["prometheus_client"], ["import kinformer.contrib.prometheus"]),
    "arrow": (
        ["pyarrow"],
        ["import asyncio; from kinformer.contrib.arrow import to_arrow; asyncio.run(to_arrow(None, ['spec']))"],
    ),
    "opentelemetry": (["opentelemetry"], ["import kinformer.contrib.opentelemetry"]),
    "compact": (
        ["backports", "compression"],
        [
            "import kinformer as k; k.SharedInformerFactory(k.Client()).for_resource('v1/pods', compact=True)",
        ],
    ),
    "testing": (
        ["cryptography"],
        ["from kinformer.testing.http.certificates import Authority; Authority('127.0.0.1')"],
    ),
    "explore": (
        ["hypothesis", "time_machine"],
        [
            "from kinformer.testing.explore.search import examples_of; examples_of(None)",
            "from kinformer.testing.simulation.calls import _travel_once; _travel_once()",
        ],
    ),
    "uvloop": (["uvloop"], []),  # the program imports it itself
}

PROGRAM = """
import contextlib, io, json, sys

modules, programs = json.loads(sys.argv[1])


class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in modules:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Missing())
said = []
for program in programs:
    text = io.StringIO()
    with contextlib.redirect_stderr(text):
        try:
            exec(program, {})
        except SystemExit:
            said.append(["ImportError", text.getvalue()])
        except Exception as error:
            said.append(["ImportError" if isinstance(error, ImportError) else type(error).__name__, str(error)])
        else:
            said.append(["", ""])
print(json.dumps(said))
"""


def test_no_extra_is_left_out() -> None:
    assert USES.keys() == EXTRAS.keys()


@pytest.mark.parametrize("extra", USES)
def test_what_is_missing_names_its_extra(extra: str) -> None:
    modules, programs = USES[extra]
    command = [sys.executable, "-c", PROGRAM, json.dumps([modules, programs])]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)
    assert len(said) == len(programs)
    for kind, message in said:
        assert kind in ("ImportError", "ConfigError"), message
        assert f"pip install 'kinformer[{extra}]'" in message


def test_another_module_that_is_missing_is_not_taken_for_the_extra() -> None:
    code = "import sys; sys.modules['kinformer.metrics'] = None; import kinformer.contrib.prometheus"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert "pip install" not in ended.stderr
    assert "kinformer.metrics" in ended.stderr
