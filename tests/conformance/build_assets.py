"""Build etcd, kube-apiserver and kubectl for the conformance tests, as far as they are missing.

    python tests/conformance/build_assets.py                      # prints the folder, ready for KUBEBUILDER_ASSETS
    python tests/conformance/build_assets.py --kubernetes 1.33    # another minor, of those that are pinned
    python tests/conformance/build_assets.py --e2e                # with what tests/conformance/e2e needs, too

The versions are those of the go.mod files beside this one, and go.sum pins every byte; `pin_kubernetes.py` pins
another minor. The binaries go to
kinformer's cache folder, outside the checkout. The first build takes some minutes and 2 GB of Go's caches; after
that the command takes a tenth of a second. Without Go, it says so and names the alternative.

Internals: the folder in which a ControlPlane looks.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kinformer.testing.clusters.assets import cache_folder

HERE = Path(__file__).parent
KUBERNETES = "k8s.io/kubernetes"
ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"  # a folder of binaries that the user has
PROGRESS_ON_TERMINAL = 1.0  # seconds between two updates of the progress line ...
PROGRESS_IN_LOG = 30.0  # ... and where a line cannot be overwritten
OLDEST_GO = (1, 21)  # the first that fetches the toolchain which go.mod asks for


class BuildError(Exception):
    """A binary cannot be built; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Asset:
    name: str
    module: Path  # the folder of the go.mod that pins it
    package: str
    version: str  # without the v
    ldflags: str = "-s -w"
    version_command: tuple[str, ...] = ("--version",)
    is_test: bool = False  # a test binary: `go test -c`


def pinned(module: Path, requirement: str) -> str:
    """The version that a go.mod requires of a module, without the v."""
    text = (module / "go.mod").read_text(encoding="utf-8")
    match = re.search(rf"^(?:require)?\s*{re.escape(requirement)} v(\S+)", text, re.MULTILINE)
    if not match:
        raise BuildError(f"{module / 'go.mod'} requires no {requirement}")
    return match[1]


def pinned_kubernetes() -> dict[str, Path]:
    """The module of each minor that can be built; the first is the one that the transcripts were recorded with."""
    default = HERE / "kube-apiserver"
    others = sorted((file.parent for file in default.glob("1.*/go.mod")), key=lambda folder: int(folder.name[2:]))
    return {_minor(pinned(default, KUBERNETES)): default, **{folder.name: folder for folder in others}}


def kubernetes_module(version: str | None = None) -> Path:
    """The module that pins a version, such as "1.33" or "1.33.13"; by default that of the transcripts.

    Raises:
        BuildError: this version is not pinned.
    """
    modules = pinned_kubernetes()
    if version is None:
        return next(iter(modules.values()))
    wanted = version.removeprefix("v")
    module = modules.get(_minor(wanted))
    if module is None or wanted not in (_minor(wanted), pinned(module, KUBERNETES)):
        known = ", ".join(sorted(pinned(one, KUBERNETES) for one in modules.values()))
        raise BuildError(
            f"Kubernetes {version} is not pinned, of which there are: {known}. "
            f"`python tests/conformance/pin_kubernetes.py {wanted}` pins it."
        )
    return module


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def programs(version: str | None = None) -> list[Asset]:
    """Kubernetes' own in a version that is pinned, and an etcd, which is the same for all."""
    module = kubernetes_module(version)
    kubernetes = pinned(module, KUBERNETES)
    ldflags = _stamped(kubernetes)
    server = Asset("kube-apiserver", module, "k8s.io/kubernetes/cmd/kube-apiserver", kubernetes, ldflags)
    kubectl = Asset(
        "kubectl", server.module, "k8s.io/kubernetes/cmd/kubectl", kubernetes, ldflags, ("version", "--client")
    )
    etcd = Asset("etcd", HERE / "etcd", "go.etcd.io/etcd/server/v3", pinned(HERE / "etcd", "go.etcd.io/etcd/server/v3"))
    return [etcd, server, kubectl]


def e2e_programs() -> list[Asset]:
    """The suite of `tests/conformance/e2e`, and the programs that it needs beside an API server."""
    suite, kwok = HERE / "e2e" / "suite", HERE / "e2e" / "kwok"
    kubernetes, simulator = pinned(suite, KUBERNETES), pinned(kwok, "sigs.k8s.io/kwok")
    ldflags = _stamped(kubernetes)
    stamp = f"-s -w -X sigs.k8s.io/kwok/pkg/consts.Version=v{simulator}"
    return [
        *(
            Asset(name, suite, f"k8s.io/kubernetes/cmd/{name}", kubernetes, ldflags)
            for name in ("kube-controller-manager", "kube-scheduler")
        ),
        Asset("kwok", kwok, "sigs.k8s.io/kwok/cmd/kwok", simulator, stamp),
        Asset("e2e.test", suite, ".", kubernetes, ldflags, is_test=True),
    ]


def _stamped(kubernetes: str) -> str:
    """Return flags that tell a program its version; without them it is v0.0.0-master, which kubectl complains of."""
    major, minor, _ = kubernetes.split(".")
    stamp = "k8s.io/component-base/version"
    return f"-s -w -X {stamp}.gitVersion=v{kubernetes} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"


def assets_folder(environ: Mapping[str, str] | None = None, version: str | None = None) -> Path:
    """Where the conformance tests take their binaries from: KUBEBUILDER_ASSETS, else the cache.

    Args:
        environ: The environment, by default `os.environ`.
        version: The version that is asked for, of those that are pinned; by default that of the transcripts.

    Raises:
        BuildError: the version is not pinned, or KUBEBUILDER_ASSETS has decided already.
    """
    environ = os.environ if environ is None else environ
    named = environ.get(ASSETS_VARIABLE)
    if named and version:
        raise BuildError(f"Kubernetes {version} was asked for, and {ASSETS_VARIABLE} names a folder: {named}")
    return Path(named) if named else cache_folder(pinned(kubernetes_module(version), KUBERNETES), environ)


def build_missing(folder: Path, wanted: Sequence[Asset] | None = None) -> None:
    """Build into the folder what it lacks, or has in another version. Two callers at once build once.

    Args:
        folder: The folder of the binaries.
        wanted: The programs; by default those of `programs`.

    Raises:
        BuildError: there is no Go, or it fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        missing = [program for program in wanted or programs() if not _is_there(folder, program)]
        if not missing:
            return
        go = _go(missing)
        for number, program in enumerate(missing, start=1):
            _build(go, program, folder, f"[{number}/{len(missing)}] building {program.name} {program.version}")


def _is_there(folder: Path, program: Asset) -> bool:
    binary = folder / program.name
    if not os.access(binary, os.X_OK):
        return False
    answer = subprocess.run([binary, *program.version_command], capture_output=True, text=True, check=False)
    return re.search(rf"\bv?{re.escape(program.version)}\b", answer.stdout) is not None


def _go(missing: list[Asset]) -> str:
    instead = (
        f"Instead of building, point {ASSETS_VARIABLE} at a folder with etcd and kube-apiserver "
        "(`setup-envtest use -p path` prints one)."
    )
    names = ", ".join(f"{program.name} {program.version}" for program in missing)
    go = shutil.which("go")
    if go is None:
        raise BuildError(f"Go is not on the PATH, and {names} must be built with it. {instead}")
    version = subprocess.run([go, "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
    match = re.match(r"go(\d+)\.(\d+)", version)
    if match and (int(match[1]), int(match[2])) < OLDEST_GO:
        raise BuildError(f"{go} is {version}, too old to build {names}. {instead}")
    return go


def _build(go: str, program: Asset, folder: Path, title: str) -> None:
    unfinished = folder / f".{program.name}.unfinished"
    # Not the VCS stamp: the packages are not of this checkout. Not a go.work above: it would replace the pins.
    flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", program.ldflags, "-o", str(unfinished)]
    command = ["test", "-c"] if program.is_test else ["build"]
    environ = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": ""}
    with tempfile.TemporaryFile() as output:
        build = subprocess.Popen(
            [go, *command, *flags, program.package], cwd=program.module, env=environ, stdout=output, stderr=output
        )
        try:
            code = _wait_with_progress(build, title)
        finally:
            if build.poll() is None:
                build.terminate()
                build.wait()
        if code:
            output.seek(0)
            tail = output.read().decode(errors="replace").splitlines()[-20:]
            raise BuildError("\n".join([f"go {' '.join(command)} {program.package} failed with status {code}:", *tail]))
    unfinished.replace(folder / program.name)


def _wait_with_progress(build: subprocess.Popen[bytes], title: str) -> int:
    overwrite = sys.stderr.isatty()
    interval = PROGRESS_ON_TERMINAL if overwrite else PROGRESS_IN_LOG
    start = time.monotonic()
    _say(f"{title} (minutes the first time)", overwrite)
    while True:
        try:
            code = build.wait(interval)
        except subprocess.TimeoutExpired:
            _say(f"{title}: {time.monotonic() - start:.0f} s", overwrite)
            continue
        _say(f"{title}: {'done' if code == 0 else 'failed'} in {time.monotonic() - start:.0f} s", overwrite, last=True)
        return code


def _say(text: str, overwrite: bool, last: bool = False) -> None:
    if overwrite:
        sys.stderr.write(f"\r\033[K{text}" + ("\n" if last else ""))
    else:
        sys.stderr.write(text + "\n")
    sys.stderr.flush()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    parser = argparse.ArgumentParser(description="Builds etcd, kube-apiserver and kubectl, and prints their folder.")
    parser.add_argument("--kubernetes", metavar="VERSION", help="a minor or a version, of those that are pinned")
    parser.add_argument("--e2e", action="store_true", help="with the programs of tests/conformance/e2e")
    options = parser.parse_args()
    if options.e2e and options.kubernetes:
        parser.error("the programs of --e2e are pinned in one version, so it does not go with --kubernetes")
    try:
        folder = assets_folder(version=options.kubernetes)
        if not os.environ.get(ASSETS_VARIABLE):  # what the user points at is taken as it is
            build_missing(folder, [*programs(options.kubernetes), *(e2e_programs() if options.e2e else [])])
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
