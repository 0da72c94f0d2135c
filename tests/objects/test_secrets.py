"""The part of an object that may be shown: all of it, unless it is or may be a Secret.

Internals: excerpts of bytes in errors, which every reader of bytes uses.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given

from kinformer import KubeObject
from kinformer.exceptions import DecodeError
from kinformer.objects import showable
from kinformer.objects.excerpts import excerpt_of
from kinformer.objects.packed import with_json
from tests.support.kube import config_map
from tests.support.odd_json import JSON

CANARY = "c4n4ry"


def secret(**fields: Any) -> dict[str, Any]:
    metadata = {"name": "db", "namespace": "default", "uid": "u", "resourceVersion": "7", **fields.pop("metadata", {})}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, **fields}


@pytest.mark.parametrize("field", ["data", "stringData", "spec", "unknown"])
def test_of_the_values_of_a_secret_the_names_are_shown(field: str) -> None:
    shown = showable(KubeObject.from_dict(secret(**{field: {"password": CANARY}}, type="Opaque", immutable=True)))
    assert shown[field] == {"password": "(hidden)"}
    assert (shown["type"], shown["immutable"]) == ("Opaque", True)
    assert (shown.key, shown.uid, shown.resource_version) == ("default/db", "u", "7")


@pytest.mark.parametrize(
    "name",
    [
        "kapp.k14s.io/original",
        "objectset.rio.cattle.io/applied",
        "kubectl.kubernetes.io/last-applied-configuration",
        "banzaicloud.com/last-applied",
        "example.com/anything",
    ],
)
def test_of_the_annotations_of_a_secret_the_names_are_shown(name: str) -> None:
    annotations = {name: json.dumps(secret(data={"a": CANARY})), "meta.helm.sh/release-name": "shop"}
    shown = showable(KubeObject.from_dict(secret(metadata={"annotations": annotations})))
    assert dict(shown.annotations) == {name: "(hidden)", "meta.helm.sh/release-name": "shop"}


def test_an_annotation_that_is_harmless_by_its_name_is_hidden_if_it_is_long() -> None:
    annotations = {"meta.helm.sh/release-name": CANARY * 50}
    assert CANARY.encode() not in showable(KubeObject.from_dict(secret(metadata={"annotations": annotations}))).raw


def test_managed_fields_of_a_secret_lose_their_fields() -> None:
    entry = {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:metadata": {f'v:"{CANARY}"': {}}}}
    shown = showable(KubeObject.from_dict(secret(metadata={"managedFields": [entry, CANARY]})))
    assert shown.path("metadata.managedFields") == [{"manager": "kubectl", "operation": "Apply"}]


@pytest.mark.parametrize(
    ("api_version", "kind", "hidden"),
    [
        ("v1", "Secret", True),
        ("", "Secret", True),
        ("example.com/v1", "Secret", True),
        ("meta.k8s.io/v1", "PartialObjectMetadata", True),
        ("v1", "", True),
        ("v1", "ConfigMap", False),
        ("bitnami.com/v1alpha1", "SealedSecret", False),
    ],
)
def test_the_kind_decides(api_version: str, kind: str, hidden: bool) -> None:
    document = {**secret(data={"a": CANARY}), "apiVersion": api_version, "kind": kind}
    obj = KubeObject.from_dict(document)
    shown = showable(obj)
    assert (CANARY.encode() not in shown.raw) is hidden
    assert (shown is obj) is not hidden
    assert (CANARY not in repr(showable(document))) is hidden


def test_of_an_object_without_a_kind_only_what_a_secret_may_hold_is_hidden() -> None:
    metadata = {"name": "a", "annotations": {"copy": CANARY}}
    shown = showable(KubeObject.from_dict({"metadata": metadata, "data": {"a": CANARY}, "reason": "Boot"}))
    assert (shown["reason"], shown["data"]) == ("Boot", {"a": "(hidden)"})
    assert CANARY.encode() not in shown.raw


def test_neither_an_object_nor_a_dict_is_changed() -> None:
    document = secret(data={"a": CANARY}, metadata={"annotations": {"a": CANARY}})
    before = copy.deepcopy(document)
    obj = KubeObject.from_dict(document)
    showable(document)
    showable(obj)
    assert document == obj.to_dict() == before


def test_of_a_secret_that_cannot_be_decoded_only_the_identity_is_shown() -> None:
    obj = KubeObject.from_dict(secret())
    levels = 1_000_000  # more than a stack holds, for Python 3.14 and later
    raw = json.dumps(secret(data=CANARY)).removesuffix("}") + ',"x":' + "[" * levels + "]" * levels + "}"
    shown = showable(with_json(obj, raw.encode()))
    assert shown.to_dict() == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "db", "namespace": "default", "uid": "u", "resourceVersion": "7"},
    }


@given(JSON, JSON)
def test_a_secret_of_any_shape_can_be_shown(value: Any, metadata: Any) -> None:
    for document in (secret(data=value, stringData=value, type=value), {**secret(), "metadata": metadata}):
        shown = showable(document)
        assert shown.keys() == document.keys()
        assert value is None or shown.get("data") in ("(hidden)", None) or set(shown["data"].values()) <= {"(hidden)"}


def test_a_secret_without_its_values_is_of_the_same_version() -> None:
    obj = KubeObject.from_dict(secret(data={"a": CANARY}))
    assert showable(obj) == obj
    assert KubeObject.from_dict(config_map()) == showable(KubeObject.from_dict(config_map()))


# --- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(secret(data={"a": CANARY})).encode(),
        f'{{"data":{{"a":"{CANARY}"'.encode(),
        f'{CANARY}"}},"kind":"Secret"'.encode(),
        f'"{CANARY}"'.encode(),
        f"{CANARY}NvbWUgb2YgYSBsb25nIHZhbHVlIGluIGJhc2U2NA".encode(),
        f"\xff{CANARY}".encode("latin-1"),
    ],
)
def test_an_error_does_not_quote_what_may_be_a_part_of_an_object(data: bytes) -> None:
    assert CANARY not in excerpt_of(data)
    assert f"{len(data)} bytes" in excerpt_of(data)
    with pytest.raises(DecodeError) as caught:
        KubeObject.from_json(data.replace(b"metadata", b"x"))
    assert CANARY not in str(caught.value)


@pytest.mark.parametrize("text", ["<html><b>502 Bad Gateway</b>", "upstream connect error", "404 page not found"])
def test_an_error_quotes_the_message_of_a_proxy(text: str) -> None:
    assert text in excerpt_of(text.encode())


def test_an_object_is_described_by_its_name() -> None:
    assert "named 'db'" in excerpt_of(b'{"kind":"Secret","metadata":{"name":"db","x":nope}}')
