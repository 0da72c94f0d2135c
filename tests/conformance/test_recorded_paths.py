"""JSONPath as kubectl reads it: `-o jsonpath`, `-o custom-columns`, `--sort-by` and `wait --for`.

`paths.documents` has the documents that paths are read from. A case of `paths.kubectl` is a form, a document and a
path; the document `list` is the List of all. A case of `paths.sorted` is a name in `paths.values` and a path, and the
answer is the order of these values. A case of `waits` is a document and a condition. A refusal of
kubectl is recorded as an object. `tests/cli/test_as_recorded.py` holds the command line to these recordings.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kinformer.testing import ControlPlane
from tests.conformance.conftest import REAL, Held, StartControlPlane
from tests.conformance.kubectl import Kubectl, Said
from tests.conformance.reading import widgets_of
from tests.conformance.recordings import all_answers, read
from tests.conformance.site import Site
from tests.conformance.transcript import Transcript
from tests.support.kubectl_process import find_kubectl

pytestmark = pytest.mark.kubernetes("1.36", "its answers are not recorded")

WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
AT_ONCE = 3  # processes


def told(said: Said) -> Any:
    if said.status == 0:
        return said.out
    last = said.err.strip().splitlines()[-1]
    executing = re.search(r"Error executing template: (.*?)\. Printing more", said.err)
    return {"error": executing[1] if executing else re.sub(r"^error: |^[EFW]\d{4} .*?\] ", "", last)}


@pytest.fixture
async def control_plane(start_control_plane: StartControlPlane) -> ControlPlane:
    """A real server with the documents, and the values to sort."""
    control_plane = await start_control_plane()
    site = Site(control_plane, "default")
    await control_plane.install_crds(widgets_of("example.com", []))
    await site.until(WIDGETS, 200)
    for document in read("paths.documents").values():
        await site.make(WIDGETS, document)
    for name, values in read("paths.values").items():
        for number, value in enumerate(values):
            spec = {} if value is None else {"v": value}
            metadata = {"name": f"{name}-{number}", "labels": {"of": name}}
            value_of = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata, "spec": spec}
            await site.make(WIDGETS, value_of)
    return control_plane


@pytest.fixture
def kubectl(control_plane: ControlPlane, tmp_path: Path) -> Kubectl:
    binary = find_kubectl()
    if binary is None:
        pytest.skip("there is no kubectl")
    for name, document in read("paths.documents").items():
        (tmp_path / f"{name}.json").write_text(json.dumps(document))
    return Kubectl(binary, control_plane, "default", tmp_path, Transcript(""))


@pytest.mark.timeout(600)
async def test_kubectl_prints_what_was_recorded(kubectl: Kubectl, held: Held) -> None:
    async def printed(case: str) -> Any:
        form, document, path = case.split(" ", 2)
        source = ["get", "widgets", "-l", "of=documents"] if document == "list" else ["get", f"widgets/{document}"]
        if form == "jsonpath" and document != "list":  # without what a server adds
            source = ["create", "--dry-run=client", "--validate=false", "-f", f"{document}.json"]
        return told(await kubectl(*source, "-o", f"{form}={path}", kept=False))

    async def ordered(case: str) -> Any:
        values, _, path = case.partition(" ")
        said = await kubectl("get", "widgets", "-l", f"of={values}", "--sort-by", path, "-o", "name", kept=False)
        return told(said) if said.status else " ".join(line.rpartition("-")[2] for line in said.out.splitlines())

    async def awaited(case: str) -> Any:
        name, _, condition = case.partition(" ")
        return told(await kubectl("wait", f"widgets/{name}", f"--for={condition}", "--timeout=0s", kept=False))

    await printed("jsonpath list {.kind}")  # discovery is cached from now on
    held("paths.kubectl", await all_answers(printed, read("paths.kubectl"), at_once=AT_ONCE), REAL)
    held("paths.sorted", await all_answers(ordered, read("paths.sorted"), at_once=AT_ONCE), REAL)
    held("waits", await all_answers(awaited, read("waits"), at_once=AT_ONCE), REAL)
