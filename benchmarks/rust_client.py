"""kube-rs's reflector, to compare with kinformer on the same server: a small Rust program, if Rust is installed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parent / "peers_rust"
SYNCS = ("kube-rs list", "kube-rs watch_list")
FOLLOWS = ("kube-rs",)


def build(folder: Path) -> Path | None:
    """The program, built into a folder, or into CARGO_TARGET_DIR; None, and a word on stderr, if there is no cargo.

    Raises:
        CalledProcessError: Cargo failed; its output is above.
    """
    cargo = shutil.which("cargo")
    if cargo is None:
        print("  kube-rs: not measured, for cargo is not on the PATH", file=sys.stderr)
        return None
    print("  building kube-rs's reflector (minutes the first time)", file=sys.stderr, flush=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", folder / "peers_rust"))
    command = [cargo, "build", "--release", "--locked", "--quiet", "--target-dir", str(target)]
    subprocess.run(command, cwd=SOURCE, check=True)
    return target / "release" / "peers_rust"


def arguments(what: str, how: str, kind: str, kubeconfig: Path, events: int) -> list[str]:
    """Its command line for one of `SYNCS` or `FOLLOWS`."""
    _, *way = how.split(" ")
    names = {"--what": what, "--kubeconfig": str(kubeconfig), "--kind": kind}
    names |= {"--way": way[0] if way else "list", "--events": str(events)}
    return [word for pair in names.items() for word in pair]
