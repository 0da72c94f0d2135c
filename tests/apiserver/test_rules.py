"""Refusals of the embedded server: each text is the answer of a kube-apiserver v1.36 to the same body."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kinformer.testing import APIServer
from tests.support.apiserver_http import send

MAPS = "/api/v1/namespaces/default/configmaps"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"
NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric"
    " character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is"
    " '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_1123 = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
QUANTITY = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


def container(**more: Any) -> dict[str, Any]:
    return {"name": "c", "image": "i", **more}


def pod(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [container()], **spec}}


def labelled(kind: str, value: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", kind: value}}


async def refused(server: APIServer, path: str, body: Any, code: int, text: str) -> None:
    reply = await send(server, "POST", path, body)
    assert (reply.status, reply.json["message"]) == (code, text)
    assert reply.json["code"] == code


@pytest.mark.parametrize(
    ("metadata", "text"),
    [
        ({"labels": {"a b": "c"}}, f'metadata.labels: Invalid value: "a b": {NAME_PART}'),
        ({"labels": {"/a": "c"}}, 'metadata.labels: Invalid value: "/a": prefix part must be non-empty'),
        ({"labels": {"a": "x" * 64}}, f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes'),
        ({"annotations": {"a": "x" * 262144}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        (
            {"finalizers": ["foo"]},
            (
                'metadata.finalizers[0]: Invalid value: "foo": name is neither a standard finalizer name nor is it'
                " fully qualified"
            ),
        ),
        (
            {"ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "n"}]},
            'metadata.ownerReferences.uid: Invalid value: "": must not be empty',
        ),
    ],
)
async def test_metadata_that_breaks_a_rule_is_refused(server: APIServer, metadata: Any, text: str) -> None:
    body = {"metadata": {"name": "a", **metadata}}
    await refused(server, MAPS, body, 422, f'ConfigMap "a" is invalid: {text}')


async def test_a_bad_label_is_refused_on_a_patch_too_and_told_as_often_as_the_real_server_does(
    server: APIServer,
) -> None:
    await send(server, "POST", MAPS, {"metadata": {"name": "a"}})
    reply = await send(server, "PATCH", f"{MAPS}/a", {"metadata": {"labels": {"a b": "c"}}}, MERGE)
    assert reply.json["message"] == f'ConfigMap "a" is invalid: metadata.labels: Invalid value: "a b": {NAME_PART}'
    assert len(reply.json["details"]["causes"]) == 4


@pytest.mark.parametrize(
    ("spec", "code", "text"),
    [
        ({"containers": []}, 422, 'Pod "p" is invalid: spec.containers: Required value'),
        (
            {"containers": [container(name="C_")]},
            422,
            f'Pod "p" is invalid: spec.containers[0].name: Invalid value: "C_": {LABEL_1123}',
        ),
        (
            {"containers": [container(), container()]},
            422,
            'Pod "p" is invalid: spec.containers[1].name: Duplicate value: "c"',
        ),
        (
            {"restartPolicy": "Foo"},
            422,
            (
                'Pod "p" is invalid: spec.restartPolicy: Unsupported value: "Foo": supported values: "Always",'
                ' "OnFailure", "Never"'
            ),
        ),
        (
            {"containers": [container(volumeMounts=[{"name": "nov", "mountPath": "/x"}])]},
            422,
            'Pod "p" is invalid: spec.containers[0].volumeMounts[0].name: Not found: "nov"',
        ),
        (
            {"containers": [container(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}})]},
            422,
            (
                'Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "2": must be less than or'
                " equal to cpu limit of 1"
            ),
        ),
        (
            {"containers": "x"},
            400,
            (
                'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go struct field'
                " PodSpec.spec.containers of type []v1.Container"
            ),
        ),
        (
            {"containers": [container(name=1)]},
            400,
            (
                'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal number into Go struct field'
                " Container.spec.containers.name of type string"
            ),
        ),
        (
            {"containers": [container(resources={"requests": {"cpu": "abc"}})]},
            400,
            f'Pod in version "v1" cannot be handled as a Pod: {QUANTITY}',
        ),
    ],
)
async def test_a_pod_that_breaks_a_rule_is_refused(server: APIServer, spec: Any, code: int, text: str) -> None:
    await refused(server, PODS, pod(**spec), code, text)


async def test_of_a_pod_only_a_few_fields_may_change(server: APIServer) -> None:
    await send(server, "POST", PODS, pod())
    for change in ({"restartPolicy": "Never"}, {"containers": [container(name="d")]}, {"nodeName": "n"}):
        reply = await send(server, "PATCH", f"{PODS}/p", {"spec": change}, MERGE)
        assert reply.status == 422, change
        assert "pod updates may not change fields other than `spec.containers[*].image`" in reply.json["message"]
    image = await send(server, "PATCH", f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 5}}, MERGE)
    assert image.status == 200


def workload(**spec: Any) -> dict[str, Any]:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}}
    whole = {"selector": {"matchLabels": {"a": "b"}}, "template": template, **spec}
    return {"metadata": {"name": "d"}, "spec": {name: value for name, value in whole.items() if value is not None}}


MISMATCH = 'spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`'


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"selector": None}, f"[spec.selector: Required value, {MISMATCH}]"),
        ({"selector": {}}, "spec.selector: Invalid value: {}: empty selector is invalid for deployment"),
        ({"selector": {"matchLabels": {"a": "c"}}}, MISMATCH),
        ({"replicas": -1}, "spec.replicas: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"template": None},
            (
                "[spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`,"
                " spec.template.spec.containers: Required value]"
            ),
        ),
    ],
)
async def test_a_deployment_that_breaks_a_rule_is_refused(server: APIServer, spec: Any, text: str) -> None:
    await refused(server, DEPLOYMENTS, workload(**spec), 422, f'Deployment.apps "d" is invalid: {text}')


@pytest.mark.parametrize("kind", ["deployments", "replicasets", "daemonsets", "statefulsets"])
async def test_a_selector_is_for_ever(server: APIServer, kind: str) -> None:
    path = f"/apis/apps/v1/namespaces/default/{kind}"
    assert (await send(server, "POST", path, workload())).status == 201
    labels = {"a": "c"}
    change = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}}}
    reply = await send(server, "PATCH", f"{path}/d", {"spec": change}, MERGE)
    assert reply.status == 422
    text = "updates to statefulset spec" if kind == "statefulsets" else "field is immutable"
    assert text in reply.json["message"]


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        (
            "configmaps",
            {"data": {"x": "1"}, "binaryData": {"x": "aGk="}},
            'ConfigMap "a" is invalid: data[x]: Invalid value: "x": duplicate of key present in binaryData',
        ),
        (
            "secrets",
            {"type": "kubernetes.io/tls"},
            'Secret "a" is invalid: [data[tls.crt]: Required value, data[tls.key]: Required value]',
        ),
        ("services", {"spec": {"ports": []}}, 'Service "a" is invalid: spec.ports: Required value'),
        (
            "services",
            {"spec": {"ports": [{"port": 80}, {"port": 81}]}},
            'Service "a" is invalid: [spec.ports[0].name: Required value, spec.ports[1].name: Required value]',
        ),
        (
            "persistentvolumeclaims",
            {"spec": {}},
            (
                'PersistentVolumeClaim "a" is invalid: [spec.accessModes: Required value: at least 1 access mode is'
                " required, spec.resources[storage]: Required value]"
            ),
        ),
    ],
)
async def test_other_kinds_have_rules_of_their_own(server: APIServer, path: str, body: Any, text: str) -> None:
    await refused(server, f"/api/v1/namespaces/default/{path}", {"metadata": {"name": "a"}, **body}, 422, text)


async def test_what_is_said_to_be_immutable_is(server: APIServer) -> None:
    await send(server, "POST", MAPS, {"metadata": {"name": "a"}, "immutable": True, "data": {"a": "1"}})
    reply = await send(server, "PATCH", f"{MAPS}/a", {"data": {"a": "2"}}, MERGE)
    text = 'ConfigMap "a" is invalid: data: Forbidden: field is immutable when `immutable` is set'
    assert reply.json["message"] == text


async def test_a_namespace_that_every_cluster_has_cannot_be_deleted(server: APIServer) -> None:
    reply = await send(server, "DELETE", "/api/v1/namespaces/default")
    assert reply.status == 403
    assert reply.json["message"] == 'namespaces "default" is forbidden: this namespace may not be deleted'


UNKNOWN = {"metadata": {"name": "a"}, "data": {"k": "v"}, "surprise": 1}
TWICE = '{"metadata":{"name":"a","name":"a"},"data":{"k":"v"}}'


@pytest.mark.parametrize(
    ("body", "text"), [(UNKNOWN, 'unknown field "surprise"'), (TWICE, 'duplicate field "metadata.name"')]
)
async def test_unknown_and_duplicate_fields_are_refused_warned_of_or_ignored(
    server: APIServer, body: Any, text: str
) -> None:
    strict = await send(server, "POST", f"{MAPS}?fieldValidation=Strict", body)
    begin = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '
    assert (strict.status, strict.json["message"]) == (400, begin + text)
    warned = await send(server, "POST", f"{MAPS}?dryRun=All", body)
    assert warned.status == 201
    assert warned.headers["warning"] == f'299 - "{text}"'.replace(f'"{text}"', json.dumps(text))
    assert "surprise" not in warned.json, "what the type does not have is dropped"
    ignored = await send(server, "POST", f"{MAPS}?fieldValidation=Ignore", body)
    assert (ignored.status, "warning" in ignored.headers) == (201, False)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        (
            "fieldValidation=Foo",
            'fieldValidation: Unsupported value: "Foo": supported values: "", "Ignore", "Strict", "Warn"',
        ),
        ("dryRun=Foo", 'dryRun: Unsupported value: ["Foo"]: supported values: "All"'),
        ("fieldManager=" + "x" * 129, "fieldManager: Too long: may not be more than 128 bytes"),
    ],
)
async def test_the_query_of_a_write_is_checked(server: APIServer, query: str, text: str) -> None:
    body = {"metadata": {"name": "a"}}
    await refused(server, f"{MAPS}?{query}", body, 422, f'CreateOptions.meta.k8s.io "" is invalid: {text}')


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("", "unexpected end of JSON input (<empty>)"),
        ('{"a":}', "invalid character '}' looking for beginning of value ({\"a\":})"),
        ('{"a":[1,]}', "invalid character ']' looking for beginning of value ({\"a\":[1,]})"),
        ("foo", "invalid character 'o' in literal false (expecting 'a') (666f6f)"),
        ('{"metadata":{},}', "invalid character '}' looking for beginning of object key string ({\"metadata\":{},})"),
    ],
)
async def test_a_body_that_is_no_json_is_told_so_in_gos_words(server: APIServer, body: str, text: str) -> None:
    begin = "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse"
    await refused(server, MAPS, body, 400, f"{begin} error: {text}")


async def test_an_object_of_another_kind_or_version_is_refused(server: APIServer) -> None:
    scheme = 'in scheme "pkg/runtime/scheme.go:111"'
    text = 'Foo in version "v1" cannot be handled as a ConfigMap: no kind "Foo" is registered for version "v1" '
    await refused(server, MAPS, {"kind": "Foo", "apiVersion": "v1"}, 400, text + scheme)
    text = 'Pod in version "v1" cannot be handled as a ConfigMap: converting (v1.Pod) to (core.ConfigMap): unknown'
    await refused(server, MAPS, {"kind": "Pod", "apiVersion": "v1"}, 400, f"{text} conversion")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"data": {"a": 1}}, ".data.a: expected string, got &value.valueUnstructured{Value:1}"),
        ({"surprise": 1}, ".surprise: field not declared in schema"),
        ({"data": "x"}, ".data: expected map, got &{x}"),
    ],
)
async def test_an_apply_configuration_has_to_fit_its_type(server: APIServer, change: Any, text: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, **change}
    reply = await send(server, "PATCH", f"{MAPS}/a?fieldManager=m", body, "application/apply-patch+yaml")
    begin = "failed to create typed patch object (/a; /v1, Kind=ConfigMap): "
    assert (reply.status, reply.json["message"]) == (500, begin + text)


LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
HOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"


@pytest.mark.parametrize("path", [LEASES, BUDGETS, HOOKS, "/apis/storage.k8s.io/v1/csinodes"])
@pytest.mark.parametrize("version", [None, "", "0"])
async def test_some_kinds_are_not_replaced_without_a_version(server: APIServer, path: str, version: Any) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"drivers": []} if path.endswith("csinodes") else {}}
    made = await send(server, "POST", path, body)
    assert made.status == 201, made.body
    body["metadata"]["resourceVersion"] = version
    for method in ("PUT", "PATCH"):
        refusal = await send(server, method, f"{path}/a", body, MERGE if method == "PATCH" else "application/json")
        text = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
        assert (refusal.status, refusal.json["message"].partition(" is invalid: ")[2]) == (422, text)
    body["metadata"]["resourceVersion"] = made.json["metadata"]["resourceVersion"]
    assert (await send(server, "PUT", f"{path}/a", body)).status == 200


async def test_version_zero_is_none(server: APIServer) -> None:
    body = {"metadata": {"name": "a", "resourceVersion": "0"}, "data": {"k": "v"}}
    assert (await send(server, "POST", MAPS, body)).status == 201
    assert (await send(server, "PUT", f"{MAPS}/a", body)).status == 200
    assert (await send(server, "PATCH", f"{MAPS}/a", body, MERGE)).status == 200


async def test_a_generated_name_is_cut_to_63_characters(server: APIServer) -> None:
    made = await send(server, "POST", MAPS, {"metadata": {"generateName": "g" * 100}})
    name = made.json["metadata"]["name"]
    assert (len(name), name[:58]) == (63, "g" * 58)


STRATEGIC, JSON_PATCH = "application/strategic-merge-patch+json", "application/json-patch+json"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"gracePeriodSeconds": "x"}, "string into Go struct field DeleteOptions.gracePeriodSeconds of type int64"),
        ({"preconditions": "x"}, "string into Go struct field DeleteOptions.preconditions of type v1.Preconditions"),
        (
            {"preconditions": {"uid": 5}},
            "number into Go struct field Preconditions.preconditions.uid of type types.UID",
        ),
        ({"dryRun": "All"}, "string into Go struct field DeleteOptions.dryRun of type []string"),
    ],
)
async def test_options_of_a_deletion_have_types(server: APIServer, body: Any, text: str) -> None:
    await send(server, "POST", PODS, pod())
    reply = await send(server, "DELETE", f"{PODS}/p", body)
    assert (reply.status, reply.json["message"]) == (400, f"json: cannot unmarshal {text}")


@pytest.mark.parametrize(
    ("kind", "patch", "code", "text"),
    [
        (JSON_PATCH, [{"op": "add", "path": 5}], 400, "jsonPatchOp.path of type string"),
        (JSON_PATCH, ["x"], 400, "json: cannot unmarshal string into Go value of type handlers.jsonPatchOp"),
        (JSON_PATCH, [None], 422, "the server rejected our request"),
        (STRATEGIC, {"metadata": {"ownerReferences": [{"uid": {}}]}}, 422, "patch: Invalid value: "),
        (STRATEGIC, {"data": {"$retainKeys": 5}}, 400, "invalid patch format of retainKeys"),
        (STRATEGIC, {"data": {"$retainKeys": ["a"], "b": "c"}}, 400, "invalid patch format of retainKeys"),
    ],
)
async def test_what_is_no_patch_is_refused(server: APIServer, kind: str, patch: Any, code: int, text: str) -> None:
    await send(server, "POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    reply = await send(server, "PATCH", f"{MAPS}/a", patch, kind)
    assert (reply.status, text in reply.json["message"]) == (code, True)


async def test_dates_and_keys_in_yaml_are_text(server: APIServer) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {day: 2020-01-01, 5: x}\n"
    assert (await send(server, "POST", MAPS, text, "application/yaml")).json["data"] == {"day": "2020-01-01", "5": "x"}


async def test_the_query_says_what_becomes_of_dependents_too(server: APIServer) -> None:
    await send(server, "POST", MAPS, {"metadata": {"name": "a"}})
    kept = await send(server, "DELETE", f"{MAPS}/a?orphanDependents=true")
    assert kept.json["metadata"]["finalizers"] == ["orphan"]
    gone = await send(server, "DELETE", f"{MAPS}/a?orphanDependents=false")
    assert gone.json["status"] == "Success"


@pytest.mark.parametrize(
    ("kind", "patch", "text"),
    [
        (MERGE, '{"data": {"a": "1", "a": "2"}}', 'duplicate field "data.a"'),
        (STRATEGIC, '{"data": {"a": "1", "a": "2"}}', 'duplicate field "data.a"'),
        (
            JSON_PATCH,
            '[{"op": "add", "path": "/data/a", "value": "1", "value": "2"}]',
            'json patch duplicate field "[0].value"',
        ),
    ],
)
async def test_a_patch_with_a_field_twice_is_refused_or_warned_of(
    server: APIServer, kind: str, patch: str, text: str
) -> None:
    await send(server, "POST", MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    strict = await send(server, "PATCH", f"{MAPS}/a?fieldValidation=Strict", patch, kind)
    assert (strict.status, strict.json["message"].endswith(f"strict decoding error: {text}")) == (422, True)
    warned = await send(server, "PATCH", f"{MAPS}/a", patch, kind)
    shown = text.replace('"', '\\"')
    assert (warned.status, warned.headers["warning"]) == (200, f'299 - "{shown}"')


async def test_the_status_of_a_deployment_leaves_its_labels_alone(server: APIServer) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container()]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await send(server, "POST", DEPLOYMENTS, {"metadata": {"name": "d", "labels": {"x": "1"}}, "spec": spec})
    change = {"metadata": {"labels": {"x": "2"}, "annotations": {"y": "1"}}, "status": {"replicas": 1}}
    metadata = (await send(server, "PATCH", f"{DEPLOYMENTS}/d/status", change, MERGE)).json["metadata"]
    assert (metadata["labels"], metadata["annotations"]) == ({"x": "1"}, {"y": "1"})


async def test_an_apply_with_a_key_twice_is_refused_or_warned_of(server: APIServer) -> None:
    text = "apiVersion: v1\nkind: ConfigMap\ndata:\n  a: x\n  a: z\n"
    path, kind = f"{MAPS}/a?fieldManager=m", "application/apply-patch+yaml"
    strict = await send(server, "PATCH", f"{path}&fieldValidation=Strict", text, kind)
    assert (strict.status, strict.json["message"].splitlines()[1:]) == (
        400,
        ['  line 5: key "a" already set in map'],
    )
    warned = await send(server, "PATCH", path, text, kind)
    assert (warned.status, warned.headers["warning"]) == (201, '299 - "line 5: key \\"a\\" already set in map"')
