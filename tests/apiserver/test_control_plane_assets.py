"""The search for a control plane's binaries, and the message if they are missing. No binaries are needed.

Internals: the search itself, since a ControlPlane would start what it finds.
"""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from kinformer.exceptions import ConfigError
from kinformer.testing import ControlPlane
from kinformer.testing.clusters.assets import cache_folder, find_assets
from kinformer.testing.kinds.crd_files import read_crds
from tests.conformance.build_assets import BuildError, build_missing, programs

MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
SYSTEM = "darwin" if sys.platform == "darwin" else "linux"
CRD = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: %s}\n"


def fill(folder: Path, *names: str, mode: int = 0o755) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(mode)
    return folder


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), "XDG_DATA_HOME": str(tmp_path / "data")}


@pytest.fixture
def envtest_store(tmp_path: Path) -> Path:
    if sys.platform == "darwin":
        return tmp_path / "home/Library/Application Support/io.kubebuilder.envtest/k8s"
    return tmp_path / "data/kubebuilder-envtest/k8s"


def test_without_binaries_the_error_names_every_place_and_what_to_do(
    environ: dict[str, str], tmp_path: Path, envtest_store: Path
) -> None:
    if Path("/usr/local/kubebuilder/bin").exists():
        pytest.skip("this machine has binaries in the place that no variable moves")
    fill(cache_folder("1.36.3", environ), "etcd")
    with pytest.raises(ConfigError) as caught:
        find_assets(environ=environ)
    text = str(caught.value)
    assert "the `assets` argument: not given" in text
    assert "KUBEBUILDER_ASSETS: not set" in text
    assert f"{envtest_store}/<version>-{SYSTEM}-{MACHINE}: no such folder" in text
    assert "/usr/local/kubebuilder/bin: no such folder" in text
    assert f"{tmp_path}/home/.cache/kinformer/kubebuilder-assets/1.36.3: no kube-apiserver" in text
    assert "setup-envtest use" in text


def test_a_folder_that_was_named_is_the_only_one_looked_at(environ: dict[str, str], tmp_path: Path) -> None:
    fill(cache_folder("1.36.3", environ), "etcd", "kube-apiserver")
    with pytest.raises(ConfigError, match=r"nowhere \(from the `assets` argument\): no such folder"):
        find_assets(tmp_path / "nowhere", environ)
    environ["KUBEBUILDER_ASSETS"] = str(fill(tmp_path / "half", "kube-apiserver"))
    with pytest.raises(ConfigError, match=r"half \(from KUBEBUILDER_ASSETS\): no etcd"):
        find_assets(environ=environ)


def test_a_file_that_cannot_be_executed_is_no_binary(environ: dict[str, str], tmp_path: Path) -> None:
    fill(fill(tmp_path / "bin", "etcd"), "kube-apiserver", mode=0o644)
    with pytest.raises(ConfigError, match="kube-apiserver is not executable"):
        find_assets(tmp_path / "bin", environ)


def test_the_argument_goes_before_the_variable_and_the_variable_before_the_stores(
    environ: dict[str, str], tmp_path: Path, envtest_store: Path
) -> None:
    cached = fill(cache_folder("1.36.3", environ), "etcd", "kube-apiserver")
    if not Path("/usr/local/kubebuilder/bin").exists():
        assert find_assets(environ=environ).folder == cached
    stored = fill(envtest_store / f"1.30.0-{SYSTEM}-{MACHINE}", "etcd", "kube-apiserver")
    assert find_assets(environ=environ).folder == stored
    environ["KUBEBUILDER_ASSETS"] = str(fill(tmp_path / "variable", "etcd", "kube-apiserver"))
    assert find_assets(environ=environ).folder == tmp_path / "variable"
    fill(tmp_path / "argument", "etcd", "kube-apiserver", "kubectl")
    found = find_assets(str(tmp_path / "argument"), environ)
    assert (found.etcd, found.kubectl) == (tmp_path / "argument" / "etcd", tmp_path / "argument" / "kubectl")


def test_of_several_versions_the_newest_complete_one_for_this_machine_is_taken(
    environ: dict[str, str], envtest_store: Path
) -> None:
    fill(envtest_store / f"1.9.9-{SYSTEM}-{MACHINE}", "etcd", "kube-apiserver")
    newest = fill(envtest_store / f"1.30.0-{SYSTEM}-{MACHINE}", "etcd", "kube-apiserver")
    fill(envtest_store / f"1.31.0-{SYSTEM}-{MACHINE}", "etcd")
    fill(envtest_store / f"1.99.0-{SYSTEM}-sparc", "etcd", "kube-apiserver")
    found = find_assets(environ=environ)
    assert found.folder == newest
    assert found.kubectl is None


async def test_entering_a_control_plane_without_binaries_is_the_same_error_and_leaves_no_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such folder"):
        async with ControlPlane(tmp_path / "nowhere", data_dir=tmp_path / "data"):
            pytest.fail("it started without binaries")
    assert not (tmp_path / "data").exists()


def test_one_string_where_several_are_meant_is_refused() -> None:
    with pytest.raises(ConfigError, match="api_server_flags expects several strings"):
        ControlPlane(api_server_flags="--v=4")
    with pytest.raises(ConfigError, match="users expects several strings"):
        ControlPlane(users="alice")


def test_a_user_that_was_not_named_is_refused_with_those_that_were() -> None:
    control_plane = ControlPlane(users=["alice", "bob"])
    assert control_plane.token("alice") != control_plane.token("bob")
    with pytest.raises(ConfigError, match=r"no user 'carol' .* named: alice, bob"):
        control_plane.token("carol")


def test_before_it_has_been_entered_there_is_no_url() -> None:
    with pytest.raises(RuntimeError, match="has not been started"):
        _ = ControlPlane().url


def test_building_without_go_says_so_and_what_to_do_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match=r"Go is not on the PATH, and etcd .*, kube-apiserver .* KUBEBUILDER_ASSETS"):
        build_missing(tmp_path / "cache")


@pytest.mark.process
def test_building_leaves_alone_what_has_the_pinned_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in programs():
        fill(tmp_path, program.name)
        (tmp_path / program.name).write_text(f"#!/bin/sh\necho {program.name} v{program.version}\n")
    monkeypatch.setenv("PATH", "/nowhere")
    build_missing(tmp_path)
    (tmp_path / "etcd").write_text("#!/bin/sh\necho etcd Version: 3.4.0\n")
    with pytest.raises(BuildError, match=r"and etcd \S+ must be built"):
        build_missing(tmp_path)


def test_crds_are_read_from_files_with_several_documents_lists_folders_and_dicts(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text(f"{CRD % 'b1'}---\n# nothing\n---\nkind: Service\n---\n{CRD % 'b2'}")
    (tmp_path / "a.json").write_text(
        '{"kind": "List", "items": [{"kind": "CustomResourceDefinition", "metadata": {"name": "a"}}]}'
    )
    (tmp_path / "readme.md").write_text("kind: CustomResourceDefinition")
    one = {"kind": "CustomResourceDefinition", "metadata": {"name": "dict"}}
    crds = read_crds(tmp_path, one, str(tmp_path / "b.yaml"))
    assert [crd["metadata"]["name"] for crd in crds] == ["a", "b1", "b2", "dict", "b1", "b2"]
    crds[3]["metadata"]["name"] = "changed"
    assert one["metadata"] == {"name": "dict"}


@pytest.mark.parametrize(
    ("content", "message"),
    [("kind: Service", "no CustomResourceDefinition in"), ("a: [", r"crd\.yaml: line \d, column \d: not YAML")],
)
def test_a_file_without_crds_or_that_is_no_yaml_is_refused_by_its_name(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "crd.yaml").write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_crds(tmp_path / "crd.yaml")
    with pytest.raises(ConfigError, match=r"absent\.yaml: no such file or folder"):
        read_crds(tmp_path / "absent.yaml")
