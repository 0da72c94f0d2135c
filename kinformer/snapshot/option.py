"""The option `snapshot`: the path of a cache on disk, the interval of writes, and whether Secrets are allowed."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kinformer.exceptions import ConfigError

__all__ = ["SECRETS", "Snapshot", "SnapshotOption"]

SECRETS = "v1/secrets"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A cache on disk from which the next start of the program resumes. Pass it or a path as `snapshot=`.

    Attributes:
        path: The file, readable only by its owner (0600). A folder (an existing one, or a path that ends with a slash)
            gets a file for each informer, named after its contents, so it works for a whole factory. Missing folders
            are created.
        interval: Seconds between two writes. 300 by default, the minimum time for which etcd keeps history, so that a
            program that is killed without warning can usually resume.
        secrets: True if the data of Secrets may be written. With False, a snapshot of `v1/secrets` raises
            `ConfigError`, and any other snapshot that would contain a Secret is not written.
    """

    path: str | os.PathLike[str]
    interval: float = 300
    secrets: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike) or not os.fspath(self.path):
            raise ConfigError(f"snapshot={self.path!r}: expected a path or Snapshot(path, ...)")
        if not self.interval > 0:
            raise ConfigError(f"snapshot: interval={self.interval!r}: expected seconds above 0")

    @classmethod
    def of(cls, option: str | os.PathLike[str] | Snapshot) -> Snapshot:
        """Create one from the argument `snapshot`.

        Raises:
            ConfigError: It is not a path.

        :meta private:
        """
        return option if isinstance(option, Snapshot) else cls(option)

    def check(self, resource: str) -> None:
        """Check that objects of this resource may be written.

        Raises:
            ConfigError: The resource is Secrets, and `secrets` is False.
        """
        if resource == SECRETS and not self.secrets:
            raise ConfigError(
                f"snapshot of {resource}: Secrets are not written to disk by default; "
                f"pass snapshot=Snapshot({os.fspath(self.path)!r}, secrets=True)"
            )

    def file(self, contents: Mapping[str, str]) -> Path:
        """Return the file for a cache with these contents."""
        path, given = Path(self.path), os.fspath(self.path)
        if not (given.endswith(("/", os.sep)) or path.is_dir()):
            return path
        mark = hashlib.sha256(repr(sorted(contents.items())).encode()).hexdigest()[:12]
        name = contents.get("resource", "objects").replace("/", ".")
        return path / f"{name}-{mark}.snapshot"


SnapshotOption = str | os.PathLike[str] | Snapshot | None
