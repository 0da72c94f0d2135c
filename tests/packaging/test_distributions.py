"""The wheel and the sdist hold the package, whole, and nothing else; the same sources give the same bytes."""

from __future__ import annotations

import ast
import hashlib
import os
import re
import time
import tomllib
from pathlib import Path

import pytest

import kinformer
from tests.packaging.building import ROOT, Distributions, build, copy_sources, files_of_package

pytestmark = [pytest.mark.tools, pytest.mark.process]

pytest.importorskip("hatchling")
pytest.importorskip("hatch_fancy_pypi_readme")

PAGE = "kinformer/cli/dashboard/page"
# What a wheel that lacks it would only show when it is used: the page, the kinds, the types, the stubs of public names.
DATA = {
    *(f"{PAGE}/{name}" for name in ("index.html", "style.css", "main.js", "store.js", "icon.svg")),
    *(f"kinformer/testing/kinds/{name}.json" for name in ("builtins", "bootstrap", "object_meta")),
    "kinformer/py.typed",
    "kinformer/__init__.pyi",
    "kinformer/testing/__init__.pyi",
}


def test_the_wheel_holds_the_package_and_its_metadata_and_nothing_else(distributions: Distributions) -> None:
    packed = distributions.in_wheel()
    about = f"kinformer-{kinformer.__version__}.dist-info"
    names = {f"{about}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    assert packed == files_of_package() | names
    assert packed >= DATA


def test_the_sdist_holds_the_package_what_builds_it_and_nothing_else(distributions: Distributions) -> None:
    packed = distributions.in_sdist()
    around = {"pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore", "PKG-INFO"}
    assert packed == files_of_package() | around
    assert packed >= DATA


def test_all_that_the_page_asks_for_is_in_the_wheel(distributions: Distributions) -> None:
    packed, page = distributions.in_wheel(), ROOT / PAGE
    asked = set(re.findall(r'(?:src|href)="page/([^"]+)"', (page / "index.html").read_text()))
    for script in page.glob("*.js"):
        asked |= set(re.findall(r'from "\./([^"]+)"', script.read_text()))
    assert len(asked) > 8
    assert {f"{PAGE}/{name}" for name in asked} <= packed


def test_the_version_is_in_one_place(distributions: Distributions) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert distributions.metadata["Version"] == kinformer.__version__
    places = [file for file in files_of_package() if file.endswith((".py", ".pyi", ".js", ".html"))]
    naming = [file for file in places if f'"{kinformer.__version__}"' in (ROOT / file).read_text()]
    assert naming == ["kinformer/__init__.py"]


def test_the_metadata_names_python_the_licence_and_each_extra(distributions: Distributions) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    about = distributions.metadata
    assert about["Requires-Python"] == project["requires-python"]
    assert about["License-Expression"] == "Apache-2.0"
    assert about["License-File"] == "LICENSE"
    assert set(about.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    plain = [one for one in about.get_all("Requires-Dist", []) if "extra ==" not in one]
    assert {re.split(r"[^\w-]", one)[0].lower() for one in plain} == {
        re.split(r"[^\w-]", one)[0].lower() for one in project["dependencies"]
    }


def test_the_classifiers_name_the_pythons_of_the_matrix(distributions: Distributions) -> None:
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in distributions.classifiers)
    named = [one[1] for one in found if one]
    (matrix,) = re.findall(r"^PYTHONS = (\[.*\])", (ROOT / "noxfile.py").read_text(), re.MULTILINE)
    assert named == [one for one in ast.literal_eval(matrix) if not one.endswith("t")]
    assert distributions.metadata["Requires-Python"] == f">={named[0]}"


def test_the_page_of_an_index_has_no_link_that_only_a_checkout_resolves(distributions: Distributions) -> None:
    assert distributions.metadata["Description-Content-Type"] == "text/markdown"
    page = str(distributions.metadata.get_payload())
    prose = re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    links = re.findall(r"\]\(([^)\s]*)|^\[[^\]]+\]:\s*(\S+)|(?:src|srcset|href)=\"([^\"]*)", prose, re.MULTILINE)
    assert [one for one in map("".join, links) if not one.startswith("https://")] == []
    assert "<!--" not in page


def test_the_page_of_an_index_says_how_to_install_and_what_the_readme_promises(distributions: Distributions) -> None:
    page, readme = str(distributions.metadata.get_payload()), (ROOT / "README.md").read_text()
    headings = re.findall(r"^## .*", readme, re.MULTILINE)
    assert headings[-1] == "## Documentation"
    assert re.findall(r"^## .*", page, re.MULTILINE) == headings[:-1]
    assert "pip install -q 'kinformer[cli]'" in page
    assert "'.[" not in page, "that installs a checkout"
    for block in re.findall(r"^```python\n.*?^```|^- \*\*.*?\*\*", readme, re.MULTILINE | re.DOTALL):
        assert block in page


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_two_builds_are_equal_wherever_and_whenever_they_are_made(distributions: Distributions, tmp_path: Path) -> None:
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "1700000000")
    first, second = (tmp_path / name for name in ("first", "second"))
    here = build(first, epoch=epoch)
    source = copy_sources(tmp_path / "a checkout elsewhere")
    for number, path in enumerate(sorted(source.rglob("*"))):  # other times and modes, and what an interpreter leaves
        os.utime(path, (time.time() - number * 86_400,) * 2)
        path.chmod(0o700 if path.is_dir() else 0o600)
    cached = source / "kinformer" / "__pycache__"
    cached.mkdir()
    (cached / "exceptions.cpython-311.pyc").write_bytes(b"left here")
    there = build(second, source=source, epoch=epoch, TZ="Asia/Kathmandu", PYTHONHASHSEED="7", LC_ALL="C")
    assert sha256(here.wheel) == sha256(there.wheel)
    assert sha256(here.sdist) == sha256(there.sdist)
    later = build(tmp_path / "later", epoch=str(int(epoch) + 86_400))
    assert sha256(later.sdist) != sha256(here.sdist), "the time of the sources is not the one that was given"
    if "SOURCE_DATE_EPOCH" in os.environ:  # those of --distributions were made at that time
        assert (sha256(distributions.wheel), sha256(distributions.sdist)) == (sha256(here.wheel), sha256(here.sdist))


def test_the_wheel_of_the_sdist_is_the_wheel(distributions: Distributions, tmp_path: Path) -> None:
    import tarfile

    with tarfile.open(distributions.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    again = build(tmp_path / "again", source=source, epoch=os.environ.get("SOURCE_DATE_EPOCH"))
    assert sha256(again.wheel) == sha256(distributions.wheel)
