"""Writes the Go module that pins one version of kube-apiserver, for `build_assets.py` to build.

    python tests/conformance/pin_kubernetes.py 1.33        # the newest patch of a minor
    python tests/conformance/pin_kubernetes.py 1.33.13

A module is a folder `tests/conformance/kube-apiserver/<minor>` with a go.mod and a go.sum; the version that the
transcripts were recorded with has its own in `tests/conformance/kube-apiserver`. It needs Go and its module proxy.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MODULES = HERE / "kube-apiserver"
KUBERNETES = "k8s.io/kubernetes"
OLDEST_MINOR = (1, 31)
OLDEST_GO = (1, 24)  # the first whose go.mod has `tool`


class PinError(Exception):
    """A version cannot be pinned; the text says why."""


def pin(wanted: str) -> Path:
    """Write the module of a version, such as "1.33" or "1.33.13", and return its folder.

    Raises:
        PinError: there is no such version, it is too old, or Go fails.
    """
    version = newest_patch(wanted, released_versions())
    minor = version.rsplit(".", 1)[0]
    downloaded = _go_json("mod", "download", "-json", f"{KUBERNETES}@v{version}")
    upstream = Path(downloaded["GoMod"]).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as unfinished:  # a version that cannot be had leaves nothing behind
        (Path(unfinished) / "go.mod").write_text(go_mod(minor, version, upstream), encoding="utf-8")
        _go("mod", "tidy", folder=Path(unfinished))
        folder = MODULES / minor
        folder.mkdir(exist_ok=True)
        for name in ("go.mod", "go.sum"):
            shutil.copyfile(Path(unfinished) / name, folder / name)
    return folder


def released_versions() -> list[str]:
    """Return all released versions of Kubernetes, without the v; no alphas, betas or candidates."""
    listed = _go_json("list", "-m", "-versions", "-json", KUBERNETES)["Versions"]
    return [version.removeprefix("v") for version in listed if re.fullmatch(r"v\d+\.\d+\.\d+", version)]


def newest_patch(wanted: str, released: Sequence[str]) -> str:
    """Return the released version that is meant by a minor ("1.33") or a version ("1.33.13")."""
    match = re.fullmatch(r"v?(\d+)\.(\d+)(?:\.(\d+))?", wanted)
    if not match:
        raise PinError(f"invalid version {wanted!r}: expected a minor such as 1.33, or a version such as 1.33.13")
    major, minor, patch = (part and int(part) for part in match.groups())
    if (major, minor) < OLDEST_MINOR:
        raise PinError(f"Kubernetes {wanted} is older than {'.'.join(map(str, OLDEST_MINOR))}, the oldest supported")
    numbers = sorted(tuple(map(int, version.split("."))) for version in released)
    found = [one for one in numbers if one[:2] == (major, minor) and patch in (None, one[2])]
    if not found:
        raise PinError(f"{KUBERNETES} has no release {wanted}")
    return ".".join(map(str, found[-1]))


def go_mod(minor: str, version: str, upstream: str) -> str:
    """Return the go.mod that builds a version, from the go.mod of k8s.io/kubernetes itself.

    Kubernetes requires its staging modules at v0.0.0 and replaces them by folders, which a module that requires it
    does not inherit: each is replaced by the version that was published with it, v0.33.13 for v1.33.13.
    """
    staging = sorted(set(re.findall(r"^\s*(?:require\s+)?(k8s\.io/\S+) v0\.0\.0(?:\s|$)", upstream, re.MULTILINE)))
    go = re.search(r"^go (\d+)\.(\d+)(\.\d+)?$", upstream, re.MULTILINE)
    if not staging or not go:
        raise PinError(f"the go.mod of {KUBERNETES} v{version} is not understood: no staging modules, or no `go` line")
    language = go[0] if (int(go[1]), int(go[2])) >= OLDEST_GO else f"go {OLDEST_GO[0]}.{OLDEST_GO[1]}.0"
    lines = [f"module kinformer.invalid/conformance/kube-apiserver/{minor}", "", language, ""]
    # What Go's runtime does as the version was released with, whatever compiles it.
    lines += [f"godebug default=go{go[1]}.{go[2]}", ""]
    lines += ["tool (", f"\t{KUBERNETES}/cmd/kube-apiserver", f"\t{KUBERNETES}/cmd/kubectl", ")", ""]
    lines += [f"require {KUBERNETES} v{version}", "", "replace ("]
    lines += [f"\t{module} => {module} v0.{version.split('.', 1)[1]}" for module in staging]
    return "\n".join([*lines, ")", ""])


def _go_json(*arguments: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:  # a folder without a module, so that none is in the way
        answer: dict[str, Any] = json.loads(_go(*arguments, folder=Path(folder)))
    return answer


def _go(*arguments: str, folder: Path) -> str:
    environ = {**os.environ, "GOWORK": "off", "GOFLAGS": "-mod=mod"}
    try:
        done = subprocess.run(["go", *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise PinError("Go is not on the PATH, and versions are looked up and pinned with it") from None
    if done.returncode:
        raise PinError(f"go {' '.join(arguments)} failed with status {done.returncode}:\n{done.stderr[-2000:]}")
    return done.stdout


def main() -> int:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.stderr.write(__doc__ or "")
        return 2
    try:
        folder = pin(sys.argv[1])
    except PinError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
