"""Which version a control plane is built of, and what a server of another minor is held against."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import versions
from tests.conformance.build_assets import BuildError, assets_folder, kubernetes_module, pinned, programs
from tests.conformance.differences import unexpected
from tests.conformance.pin_kubernetes import PinError, go_mod, newest_patch
from tests.conformance.versions import RECORDED, Minor, default_flags, expected_files

RELEASED = ["1.30.1", "1.33.2", "1.33.13", "1.33.9", "1.36.3"]
UPSTREAM = """\
module k8s.io/kubernetes

go 1.24.0

godebug default=go1.24

require (
	github.com/blang/semver/v4 v4.0.0
	k8s.io/api v0.0.0
	k8s.io/klog/v2 v2.130.1
	k8s.io/kubelet v0.0.0 // indirect
)

replace k8s.io/api => ./staging/src/k8s.io/api
"""


@pytest.mark.parametrize(
    ("wanted", "found"), [("1.33", "1.33.13"), ("v1.33", "1.33.13"), ("1.33.9", "1.33.9"), ("v1.36.3", "1.36.3")]
)
def test_a_minor_means_its_newest_patch(wanted: str, found: str) -> None:
    assert newest_patch(wanted, RELEASED) == found


@pytest.mark.parametrize(
    ("wanted", "complaint"),
    [
        ("1.30", "older than 1.31"),
        ("1.34", "no release 1.34"),
        ("1.33.1", "no release"),
        ("1", "invalid version"),
        ("1.33-rc.1", "invalid version"),
    ],
)
def test_a_version_that_cannot_be_pinned_is_refused(wanted: str, complaint: str) -> None:
    with pytest.raises(PinError, match=complaint):
        newest_patch(wanted, RELEASED)


def test_a_pinned_module_replaces_each_staging_module_by_what_was_published_with_it() -> None:
    lines = go_mod("1.33", "1.33.13", UPSTREAM).splitlines()
    assert "require k8s.io/kubernetes v1.33.13" in lines
    assert lines[lines.index("replace (") + 1 : -1] == [
        "\tk8s.io/api => k8s.io/api v0.33.13",
        "\tk8s.io/kubelet => k8s.io/kubelet v0.33.13",
    ]
    assert {"go 1.24.0", "godebug default=go1.24"} <= set(lines)
    assert "go 1.24.0" in go_mod("1.31", "1.31.0", UPSTREAM.replace("go 1.24.0", "go 1.22.0")).splitlines()


def test_a_version_is_built_of_its_own_module_into_its_own_folder(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    assert pinned(kubernetes_module(), "k8s.io/kubernetes").startswith(f"{RECORDED}.")
    assert assets_folder(environ) == assets_folder(environ, str(RECORDED))
    older = assets_folder(environ, "1.33")
    assert older.name.startswith("1.33.")
    assert assets_folder(environ, older.name) == older
    assert {program.version for program in programs("1.33")} >= {older.name}
    etcd, *others = programs("1.33")
    assert etcd == programs()[0], "one etcd for all"
    assert all(program.module.name == "1.33" for program in others)


def test_a_version_that_is_not_pinned_is_refused_with_those_that_are(tmp_path: Path) -> None:
    for version in ("1.30", "1.33.99"):
        with pytest.raises(BuildError, match=rf"{version} is not pinned, .*1\.33\.\d+.*pin_kubernetes.py {version}`"):
            kubernetes_module(version)
    with pytest.raises(BuildError, match=f"1.33 was asked for, and KUBEBUILDER_ASSETS names a folder: {tmp_path}"):
        assets_folder({"KUBEBUILDER_ASSETS": str(tmp_path)}, "1.33")


@pytest.mark.process
def test_the_command_says_which_versions_there_are() -> None:
    command = [sys.executable, "tests/conformance/build_assets.py", "--kubernetes", "1.30"]
    environ = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Kubernetes 1.30 is not pinned")


@pytest.mark.process
def test_the_minor_of_a_folder_is_what_its_server_says(tmp_path: Path) -> None:
    (tmp_path / "kube-apiserver").write_text("#!/bin/sh\necho Kubernetes v1.33.13\n")
    (tmp_path / "kube-apiserver").chmod(0o755)
    assert versions.minor_of(tmp_path) == Minor(1, 33)
    assert default_flags(Minor(1, 33)) == ["--feature-gates=WatchList=true"]
    assert default_flags(RECORDED) == []


def test_a_server_is_held_against_its_own_transcript_or_the_two_around_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versions, "TRANSCRIPTS", tmp_path)
    newest, older = (versions.transcript_file("lists::pages", one) for one in (RECORDED, Minor(1, 33)))
    for file in (newest, older):
        file.parent.mkdir(parents=True)
        file.write_text("")
    assert expected_files("lists::pages", RECORDED) == [newest]
    assert expected_files("lists::pages", Minor(1, 99)) == [newest]
    assert expected_files("lists::pages", Minor(1, 33)) == [older]
    assert expected_files("lists::pages", Minor(1, 31)) == [older]
    assert expected_files("lists::pages", Minor(1, 35)) == [older, newest]
    assert expected_files("lists::others", Minor(1, 33)) == [tmp_path / "lists" / "others.jsonl"]


def test_a_server_between_two_answers_at_each_place_as_one_of_them() -> None:
    def answer(**fields: object) -> list[dict[str, object]]:
        return [{"request": "GET /a", "status": 200, "answer": fields}]

    def complaints(**fields: object) -> list[str]:
        before, after = answer(a="old", b="old", null=None), answer(a="new", b="new")
        return unexpected("lists::pages", before, answer(**fields), embedded=False, otherwise=after)

    assert complaints(a="old", b="new") == []
    assert complaints(a="new", b="old", null=None) == []
    (text,) = complaints(a="old", b="neither")
    assert "[0].answer.b" in text
    assert "neither" in text
