"""client-go's informer, to compare with kinformer on the same server: a small Go program, if Go is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent / "client_go"
ENCODINGS = ("json", "protobuf")
WAYS = ("list", "watch_list")
SYNCS = tuple(f"client-go {encoding} {way}" for encoding in ENCODINGS for way in WAYS)
FOLLOWS = tuple(f"client-go {encoding}" for encoding in ENCODINGS)


def build(folder: Path) -> Path | None:
    """The program, built into a folder; None, and a word on stderr, if Go is not installed.

    Raises:
        CalledProcessError: Go failed; its output is above.
    """
    go = shutil.which("go")
    if go is None:
        print("  client-go: not measured, for Go is not on the PATH", file=sys.stderr)
        return None
    print("  building client-go's informer (minutes the first time)", file=sys.stderr, flush=True)
    binary = folder / "client_go"
    environ = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""}
    command = [go, "build", "-trimpath", "-buildvcs=false", "-mod=readonly", "-o", str(binary), "."]
    subprocess.run(command, cwd=SOURCE, env=environ, check=True)
    return binary


def arguments(what: str, how: str, kind: str, kubeconfig: Path, events: int) -> list[str]:
    """Its command line for one of `SYNCS` or `FOLLOWS`."""
    _, encoding, *way = how.split(" ")
    names = {"-what": what, "-kubeconfig": str(kubeconfig), "-kind": kind, "-encoding": encoding}
    names |= {"-way": way[0] if way else "list", "-events": str(events)}
    return [word for pair in names.items() for word in pair]
