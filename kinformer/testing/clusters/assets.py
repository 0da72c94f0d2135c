"""Finds the binaries of a control plane: `etcd`, `kube-apiserver` and optionally `kubectl`.

It follows controller-runtime (pkg/envtest, tools/setup-envtest/store): one folder contains the binaries,
`KUBEBUILDER_ASSETS` names it, and `setup-envtest use` installs it in a per-user store.
"""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kinformer.exceptions import ConfigError

__all__ = ["ASSETS_VARIABLE", "Assets", "cache_folder", "find_assets"]

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
REQUIRED = ("etcd", "kube-apiserver")

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64", "i386": "386", "i686": "386"}  # Go's names


@dataclass(frozen=True, slots=True)
class Assets:
    """The binaries of one control plane. `kubectl` is None if the folder has none."""

    folder: Path
    etcd: Path
    kube_apiserver: Path
    kubectl: Path | None = None


def find_assets(assets: str | os.PathLike[str] | None = None, environ: Mapping[str, str] | None = None) -> Assets:
    """Find the binaries.

    If the argument or `KUBEBUILDER_ASSETS` names a folder, only that folder is searched, because running other
    binaries than requested would be worse than failing. Otherwise the order is: the newest version in the store of
    setup-envtest, `/usr/local/kubebuilder/bin`, and kinformer's own cache.

    Args:
        assets: A folder with `etcd` and `kube-apiserver`.
        environ: The environment, by default `os.environ`.

    Raises:
        ConfigError: A binary is missing. The message lists each searched place with the missing files.
    """
    environ = os.environ if environ is None else environ
    if assets is not None:
        return _assets_in(Path(assets).expanduser(), "the `assets` argument")
    if named := environ.get(ASSETS_VARIABLE):
        return _assets_in(Path(named).expanduser(), ASSETS_VARIABLE)
    looked: list[str] = ["the `assets` argument: not given", f"{ASSETS_VARIABLE}: not set"]
    for place, folders in _default_places(environ):
        looked.extend(f"{folder}: {_missing_in(folder)}" for folder in folders if _missing_in(folder))
        if not folders:
            looked.append(f"{place}: no such folder")
        for folder in folders:
            if not _missing_in(folder):
                return _assets(folder)
    raise ConfigError(_not_found(looked))


def cache_folder(version: str, environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder in kinformer's cache for a version such as `"1.36.3"`. It may not exist."""
    return _cache_root(os.environ if environ is None else environ) / version


def _default_places(environ: Mapping[str, str]) -> list[tuple[Path, list[Path]]]:
    """Return each default place with its candidate folders, newest version first."""
    store = _envtest_store(environ) / "k8s"
    suffix = f"-{_go_os()}-{_go_machine()}"
    system = Path("/usr/local/kubebuilder/bin")
    cache = _cache_root(environ)
    return [
        (store / f"<version>{suffix}", _versions(store, suffix)),
        (system, [system] if system.is_dir() else []),
        (cache / "<version>", _versions(cache, "")),
    ]


def _envtest_store(environ: Mapping[str, str]) -> Path:
    # controller-runtime, tools/setup-envtest/store/helpers.go: DefaultStoreDir
    if sys.platform == "darwin":
        return _home(environ) / "Library" / "Application Support" / "io.kubebuilder.envtest"
    data = environ.get("XDG_DATA_HOME")
    return (Path(data) if data else _home(environ) / ".local" / "share") / "kubebuilder-envtest"


def _cache_root(environ: Mapping[str, str]) -> Path:
    cache = environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else _home(environ) / ".cache") / "kinformer" / "kubebuilder-assets"


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME")
    return Path(home) if home else Path.home()


def _go_os() -> str:
    return "darwin" if sys.platform == "darwin" else "linux"


def _go_machine() -> str:
    machine = platform.machine().lower()
    return _MACHINES.get(machine, machine)


def _versions(parent: Path, suffix: str) -> list[Path]:
    if not parent.is_dir():
        return []
    versions = [
        (tuple(map(int, match.groups())), child)
        for child in parent.iterdir()
        if (match := re.fullmatch(rf"v?(\d+)\.(\d+)\.(\d+){re.escape(suffix)}", child.name)) and child.is_dir()
    ]
    return [child for _, child in sorted(versions, reverse=True)]


def _assets_in(folder: Path, origin: str) -> Assets:
    missing = _missing_in(folder)
    if missing:
        raise ConfigError(_not_found([f"{folder} (from {origin}): {missing}"]))
    return _assets(folder)


def _assets(folder: Path) -> Assets:
    kubectl = folder / "kubectl"
    return Assets(folder, folder / "etcd", folder / "kube-apiserver", kubectl if _is_executable(kubectl) else None)


def _missing_in(folder: Path) -> str:
    """Describe the files that a folder lacks, or return "" if it is usable."""
    if not folder.is_dir():
        return "no such folder"
    missing = []
    for name in REQUIRED:
        if not (folder / name).exists():
            missing.append(f"no {name}")
        elif not _is_executable(folder / name):
            missing.append(f"{name} is not executable")
    return ", ".join(missing)


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _not_found(looked: list[str]) -> str:
    return "\n".join(
        [
            "The binaries of a control plane (etcd, kube-apiserver) were not found. Looked at:",
            *(f"  - {line}" for line in looked),
            f"Install them with `setup-envtest use`, or point {ASSETS_VARIABLE} at a folder that holds both.",
        ]
    )
