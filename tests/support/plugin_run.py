"""A run of pytest with the plugin, as a user has it: in a process of its own, with no other plugins but those named."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PLUGIN = "kinformer.testing.pytest_plugin"
AUTO = ("-p", "asyncio", "--asyncio-mode=auto")
STRICT = ("-p", "asyncio", "--asyncio-mode=strict")
REPOSITORY = Path(__file__).parents[2]
# pytest-asyncio warns where this is not set, and pytest where it is set without pytest-asyncio
UNSET = 'ignore:The configuration option "asyncio_default_fixture_loop_scope"'


class PluginRun:
    """`run(*AUTO, test_it="...")`: writes test modules, by name, and runs them all."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        self._pytester = pytester

    @property
    def folder(self) -> Path:
        return self._pytester.path

    def __call__(self, *args: str, **modules: str) -> pytest.RunResult:
        if modules:
            self._pytester.makeini(f"[pytest]\nfilterwarnings =\n  error\n  {UNSET}\n")
            self._pytester.makepyfile(**modules)
        return self._pytester.runpytest_subprocess("-p", PLUGIN, *args)

    def example_of_the_documentation(self, *args: str) -> pytest.RunResult:
        """The operator of docs/operators.md, tested by the files of docs/testing.md, as they stand."""
        pages = [(REPOSITORY / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("operators", "testing")]
        for name, text in re.findall(r"```\w+\n# (\S+\.\w+)\n(.*?)```", "\n".join(pages), re.DOTALL):
            (self.folder / name).parent.mkdir(exist_ok=True)
            (self.folder / name).write_text(text, encoding="utf-8")
        return self("-p", "asyncio", "-c", "pytest.ini", *args)
