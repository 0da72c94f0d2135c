"""Keys, versions and resources.

Internals: the comparison of versions, and the view of an object.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kinformer import (
    DeletedFinalStateUnknown,
    GroupVersionResource,
    KubeObject,
    meta_namespace_key,
    split_meta_namespace_key,
)
from kinformer.exceptions import ConfigError, KeyFuncError
from kinformer.objects.meta import compare_resource_versions
from kinformer.objects.object import view

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1", "namespace": "default"}}


@pytest.mark.parametrize(
    ("text", "parts", "api_version"),
    [("v1/pods", ("", "v1", "pods"), "v1"), ("apps/v1/deployments", ("apps", "v1", "deployments"), "apps/v1")],
)
def test_a_resource_is_read_from_text_and_written_back(text: str, parts: tuple[str, ...], api_version: str) -> None:
    resource = GroupVersionResource.parse(text)
    assert resource == GroupVersionResource(*parts)
    assert str(resource) == text
    assert resource.api_version == api_version
    assert GroupVersionResource.parse(resource) is resource
    assert {resource: 1}[GroupVersionResource.parse(text)] == 1


@pytest.mark.parametrize(
    "text",
    ["", "pods", "apps/deployments", "v1/Pods", "a/b/c/d", "/v1/pods", "v1/", "Apps/v1/x", "apps/V1/x", "v1/pods/log"],
)
def test_a_bad_resource_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        GroupVersionResource.parse(text)
    assert repr(text) in str(caught.value)


def test_a_resource_that_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigError, match="got 3"):
        GroupVersionResource.parse(3)  # type: ignore[arg-type]


def test_paths_are_those_of_the_api_server() -> None:
    pods, deployments = GroupVersionResource.parse("v1/pods"), GroupVersionResource.parse("apps/v1/deployments")
    assert pods.path() == "/api/v1/pods"
    assert pods.path("default") == "/api/v1/namespaces/default/pods"
    assert pods.path("default", "x", "log") == "/api/v1/namespaces/default/pods/x/log"
    assert deployments.path("a", "b") == "/apis/apps/v1/namespaces/a/deployments/b"
    roles = GroupVersionResource.parse("rbac.authorization.k8s.io/v1/clusterroles")
    assert roles.path(name="system:node") == "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node"
    assert pods.path("default", "a b", "proxy/x:1") == "/api/v1/namespaces/default/pods/a%20b/proxy/x:1"
    with pytest.raises(ValueError, match="needs the name"):
        pods.path("default", subresource="log")


def test_a_key_is_found_in_every_form_of_an_object() -> None:
    entry = KubeObject.from_dict(POD)
    model = SimpleNamespace(metadata=SimpleNamespace(name="web-1", namespace="default"))
    for obj in (POD, entry, view(entry), model, SimpleNamespace(metadata=POD["metadata"])):
        assert meta_namespace_key(obj) == "default/web-1"
        assert meta_namespace_key(DeletedFinalStateUnknown("default/web-1", obj)) == "default/web-1"
    assert meta_namespace_key({"metadata": {"name": "node-1"}}) == "node-1"
    assert meta_namespace_key({"metadata": {"name": "node-1", "namespace": None}}) == "node-1"


@pytest.mark.parametrize(
    ("obj", "missing"),
    [
        ({}, "no metadata"),
        (object(), "no metadata"),
        ({"metadata": {}}, "metadata.name is missing"),
        ({"metadata": {"name": 3}}, "metadata.name is 3"),
        ({"metadata": {"name": "a", "namespace": 3}}, "metadata.namespace is 3"),
        (SimpleNamespace(metadata=SimpleNamespace(name=None)), "metadata.name is missing"),
    ],
)
def test_an_object_without_a_key_says_what_is_missing(obj: object, missing: str) -> None:
    with pytest.raises(KeyFuncError, match=missing) as caught:
        meta_namespace_key(obj)
    assert caught.value.object is obj


def test_a_key_is_split_into_namespace_and_name() -> None:
    assert split_meta_namespace_key("default/web-1") == ("default", "web-1")
    assert split_meta_namespace_key("node-1") == ("", "node-1")
    with pytest.raises(ValueError, match="more than one slash"):
        split_meta_namespace_key("a/b/c")


@given(st.integers(1, 2**128 - 1), st.integers(1, 2**128 - 1))
def test_resource_versions_compare_as_numbers(a: int, b: int) -> None:
    assert compare_resource_versions(str(a), str(b)) == (a > b) - (a < b)


@pytest.mark.parametrize("bad", ["", "0", "01", "-1", "1.0", "abc", "1 ", "١"])
def test_what_is_no_resource_version_is_not_compared(bad: str) -> None:
    with pytest.raises(ValueError, match="resourceVersion"):
        compare_resource_versions(bad, "1")
    with pytest.raises(ValueError, match="resourceVersion"):
        compare_resource_versions("1", bad)
