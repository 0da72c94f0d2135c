"""The minor of Kubernetes that a server is, what its suite leaves out, and which transcripts it is held against."""

from __future__ import annotations

import re
import subprocess
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from tests.conformance.build_assets import kubernetes_module, pinned

TRANSCRIPTS = Path(__file__).parent / "transcripts"


class Minor(NamedTuple):
    """A minor release, such as 1.36."""

    major: int
    minor: int

    @classmethod
    def of(cls, version: str) -> Minor:
        match = re.match(r"v?(\d+)\.(\d+)(\.|$)", version)
        if not match:
            raise ValueError(f"invalid version {version!r}: expected one such as 1.33 or v1.33.13")
        return cls(int(match[1]), int(match[2]))

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


RECORDED = Minor.of(pinned(kubernetes_module(), "k8s.io/kubernetes"))  # the embedded server answers as this one
WATCH_LIST_BY_DEFAULT = Minor(1, 34)  # and in 1.32, but not in 1.33
PROMPT_STREAMS = Minor(1, 33)  # 1.31 ends a streamed list a second late


@lru_cache
def minor_of(assets: Path) -> Minor:
    """Return the minor of the kube-apiserver in a folder."""
    command = [assets / "kube-apiserver", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return Minor.of(said.removeprefix("Kubernetes ").strip())


def default_flags(minor: Minor) -> list[str]:
    """Return the flags that make an older server stream lists, as newer ones do, so that they are tested on it too."""
    return ["--feature-gates=WatchList=true"] if minor < WATCH_LIST_BY_DEFAULT else []


def transcript_file(title: str, minor: Minor) -> Path:
    """The file that a server of this minor writes for a test."""
    folder = TRANSCRIPTS if minor == RECORDED else TRANSCRIPTS / str(minor)
    return folder / f"{title.replace('::', '/')}.jsonl"


def expected_files(title: str, minor: Minor) -> list[Path]:
    """Return the transcripts that a server of a minor is held against.

    One of a minor that was recorded is held against what that one answered. Any other has to answer, at each place,
    as the nearest recorded minor before it or the nearest one after it.

    A minor has files of its own for those tests alone whose answers differ from those of `RECORDED`.
    """
    recorded = sorted([RECORDED, *(Minor.of(folder.name) for folder in TRANSCRIPTS.glob("1.*"))])
    before = [one for one in recorded if one <= minor][-1:]
    after = [one for one in recorded if one >= minor][:1]
    files = [transcript_file(title, one) for one in dict.fromkeys([*before, *after])]
    usual = transcript_file(title, RECORDED)
    return list(dict.fromkeys(file if file.exists() else usual for file in files))
