"""The rules of definitions: stored versions, their order, protected groups, warnings, columns, names."""

from __future__ import annotations

from typing import Any

from tests.conformance.site import Site
from tests.conformance.test_custom import DEFINITIONS
from tests.conformance.test_expressions import Kind
from tests.conformance.test_lists import TABLE
from tests.support.waiting import until

OBJECT: dict[str, Any] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
VERSIONS = ("v1", "v2beta1", "v1beta1", "v1alpha1", "foo", "v10", "v11alpha2", "foo10", "v2", "v1beta2")


def version(name: str, **more: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {"spec": OBJECT}}
    return {"name": name, "served": True, "storage": False, "schema": {"openAPIV3Schema": schema}, **more}


def gadgets(group: str, *versions: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Gadgets with these versions, of which the first is stored unless another one is."""
    if not any(each["storage"] for each in versions):
        versions = ({**versions[0], "storage": True}, *versions[1:])
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"gadgets.{group}", **more.pop("metadata", {})},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": list(versions), **more},
    }


async def test_a_version_that_is_stored_stays(site: Site) -> None:
    group = f"{site.namespace}.example.com"
    path = f"{DEFINITIONS}/gadgets.{group}"
    await site.server.install_crds(gadgets(group, version("v1"), version("v2")))

    async def write(*versions: dict[str, Any]) -> None:
        present = (await site.ask("GET", path, kept=False)).json
        spec = {**present["spec"], "versions": gadgets(group, *versions)["spec"]["versions"]}
        reply = await site.ask("PUT", path, {**present, "spec": spec}, kept=False)
        kept = site.transcript.request("PUT", path, {}, [each["name"] for each in versions])
        answer = reply.json if reply.status != 200 else reply.json["status"]["storedVersions"]
        site.transcript.answer(kept, reply.status, {}, answer)

    await write(version("v1"), version("v2", storage=True))
    await write(version("v2"), version("v3"))
    await write(version("v1"), version("v2", storage=True), version("v3"))
    await site.ask("PATCH", f"{path}/status", {"status": {"storedVersions": ["v2"]}}, kept=False)
    await _merge(site, f"{path}/status", {"status": {"storedVersions": ["v2"]}})
    await _merge(site, f"{path}/status", {"status": {"storedVersions": []}})
    await _merge(site, f"{path}/status", {"status": {"storedVersions": ["v1"]}})
    await _merge(site, f"{path}/status", {"status": {"storedVersions": ["v2", "v9"]}})
    await write(version("v2"), version("v3"))


async def _merge(site: Site, path: str, body: Any) -> None:
    reply = await site.patch(path, body, kept=False)
    kept = site.transcript.request("PATCH", path, {}, body)
    answer = reply.json if reply.status != 200 else reply.json["status"]["storedVersions"]
    site.transcript.answer(kept, reply.status, {}, answer)


async def test_a_default_of_the_whole_status_is_left_out(site: Site) -> None:
    status = {**OBJECT, "default": {"phase": "New"}, "properties": {"phase": {"type": "string", "default": "Made"}}}
    spec = {**OBJECT, "default": {"size": 1}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}}
    group = f"{site.namespace}.example.com"
    both = [version("v1", schema=schema), version("v2", schema=schema, subresources={"status": {}})]
    await site.server.install_crds(gadgets(group, *both))
    for name in ("v1", "v2"):
        path = site.of(f"{group}/{name}", "gadgets")
        body = {"apiVersion": f"{group}/{name}", "kind": "Gadget"}
        await site.post(path, {**body, "metadata": {"name": name}})
        await site.post(path, {**body, "metadata": {"name": f"{name}-empty"}, "status": {}})
        await site.patch(f"{path}/{name}", {"spec": {"size": 2}})
        await site.patch(f"{path}/{name}", {"status": {}})
        await site.patch(f"{path}/{name}", {"status": None})
    await site.patch(f"{path}/v2/status", {"status": {"other": 1}})
    await site.get(f"{path}/v2")


async def test_numbers_come_back_as_go_writes_them(site: Site) -> None:
    kind = Kind(site)
    await kind.defined(schema=OBJECT)
    numbers = "[10.0, 1e3, 1e20, 0.5, -0.0, 1e-7, 9223372036854775807, 9223372036854775808]"
    body = (
        f'{{"apiVersion": "{kind.group}/v1", "kind": "Thing", "metadata": {{"name": "a"}}, "spec": {{"n": {numbers}}}}}'
    )
    await site.ask("POST", kind.things, body, kept=False, content_type="application/json")
    reply = await site.ask("GET", f"{kind.things}/a", kept=False)
    kept = site.transcript.request("GET", f"{kind.things}/a", {}, None)
    site.transcript.answer(kept, reply.status, {}, reply.body.decode().partition('"n":')[2].partition("]")[0])


async def test_versions_are_sorted_by_their_priority_and_groups_by_their_names(site: Site) -> None:
    group = f"{site.namespace}.example.com"
    await site.server.install_crds(gadgets(group, *map(version, VERSIONS)), gadgets(f"a.{group}", version("v1")))
    await site.until(f"/apis/{group}/v1", 200)
    await site.until(f"/apis/a.{group}/v1", 200)

    async def aggregated() -> Any:
        return (await site.ask("GET", "/apis", kept=False, accept=AGGREGATED)).json

    document = await until(
        aggregated,
        20,
        holds=lambda found: {group, f"a.{group}"} <= {each["metadata"]["name"] for each in found["items"]},
    )
    kept = site.transcript.request("GET", "/apis", {}, None)
    site.transcript.answer(
        kept,
        200,
        {},
        [
            [each["metadata"]["name"], [one["version"] for one in each["versions"]]]
            for each in document["items"]
            if each["metadata"]["name"].endswith(group)
        ],
    )
    await site.get(f"/apis/{group}")
    groups = (await site.ask("GET", "/apis", kept=False, accept="application/json")).json["groups"]
    kept = site.transcript.request("GET", "/apis", {"Accept": "application/json"}, None)
    site.transcript.answer(kept, 200, {}, [each["name"] for each in groups if each["name"].endswith(group)])


AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


async def test_a_group_of_kubernetes_needs_an_approval(site: Site) -> None:
    group = f"{site.namespace}.k8s.io"
    for value in (None, "", "https://github.com/kubernetes/kubernetes/pull/1", "unapproved, for a test", "yes"):
        metadata = {} if value is None else {"annotations": {"api-approved.kubernetes.io": value}}
        for name in (group, f"{site.namespace}.kubernetes.io", f"{site.namespace}.example.io"):
            reply = await site.ask(
                "POST", f"{DEFINITIONS}?dryRun=All", gadgets(name, version("v1"), metadata=metadata), kept=False
            )
            kept = site.transcript.request("POST", name, {}, value)
            answer = reply.json if reply.status != 201 else "good"
            site.transcript.answer(kept, reply.status, {}, answer)


async def test_what_is_deprecated_or_not_known_is_warned_of(site: Site) -> None:
    group = f"{site.namespace}.example.com"
    formats: dict[str, Any] = {
        "a": {"type": "string", "format": "ipv4"},
        "b": {"type": "string", "format": "odd"},
        "c": {"type": "integer", "format": "int16"},
        "d": {"type": "object", "format": "ipv4", "additionalProperties": {"type": "string", "format": "odd"}},
        "e": {"type": "array", "items": {"type": "number", "format": "int32"}},
        "f": {"x-kubernetes-int-or-string": True, "format": "other"},
        "g": {"type": "string", "anyOf": [{"format": "hidden"}]},
    }
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": formats}}}}
    versions = [
        version("v1", schema=schema),
        version("v1beta1", deprecated=True),
        version("v1alpha1", deprecated=True, deprecationWarning="It is old."),
        version("v1alpha2", served=False, deprecated=True),
    ]
    reply = await site.ask("POST", DEFINITIONS, gadgets(group, *versions), kept=False)
    _warnings(site, "definition", reply)
    for name in ("v1", "v1beta1", "v1alpha1"):
        await site.until(f"/apis/{group}/{name}", 200)
        path = site.of(f"{group}/{name}", "gadgets")
        body = {"apiVersion": f"{group}/{name}", "kind": "Gadget", "metadata": {"name": name}}
        _warnings(site, f"POST {name}", await site.ask("POST", path, body, kept=False))
        _warnings(site, f"GET {name}", await site.ask("GET", path, kept=False))
        _warnings(site, f"GET one of {name}", await site.ask("GET", f"{path}/{name}", kept=False))
        _warnings(site, f"DELETE {name}", await site.ask("DELETE", f"{path}/{name}", kept=False))
    only = gadgets(f"b.{group}", version("v1beta1", deprecated=True))
    await site.server.install_crds(only)
    path = site.of(f"b.{group}/v1beta1", "gadgets")
    _warnings(site, "a single version", await site.ask("GET", path, kept=False))
    later = gadgets(f"c.{group}", version("v1beta1", deprecated=True), version("v1", served=False))
    await site.server.install_crds(later)
    path = site.of(f"c.{group}/v1beta1", "gadgets")
    _warnings(site, "the other one is not served", await site.ask("GET", path, kept=False))


def _warnings(site: Site, label: str, reply: Any) -> None:
    kept = site.transcript.request("WARNINGS", label, {}, None)
    site.transcript.answer(kept, reply.status, {}, sorted(reply.warnings))


COLUMN_PATHS = [
    ".spec.a", ".spec", ".", "..a", ".spec..a", ".spec.list[]", ".spec.list[0]", ".spec.list[-1]", ".spec.list[0:2]",
    ".spec.list[:1]", ".spec.list[::2]", ".spec.list[*]", ".spec.list[0,1]", ".spec.list[?(@.a==1)].b", ".spec['a']",
    ".spec.a.b", ".spec.list[5]", ".spec.list[?(@.a)].a",
    r".spec.dotted\.name", "spec.a", "{.spec.a}", ".spec.list[", ".spec.list[x]", "", ".spec.a ", ".spec.list[*].a",
]  # fmt: skip


async def test_columns_are_read_by_any_json_path(site: Site) -> None:
    group = f"{site.namespace}.example.com"
    good: list[dict[str, Any]] = []
    for number, path in enumerate(COLUMN_PATHS):
        column = {"name": f"C{number}", "type": "string", "jsonPath": path}
        body = gadgets(group, version("v1", additionalPrinterColumns=[column]))
        reply = await site.ask("POST", f"{DEFINITIONS}?dryRun=All", body, kept=False)
        kept = site.transcript.request("POST", path, {}, None)
        site.transcript.answer(kept, reply.status, {}, "good" if reply.status == 201 else reply.json)
        if reply.status == 201:
            good.append(column)
    await site.server.install_crds(gadgets(group, version("v1", additionalPrinterColumns=good)))
    path = site.of(f"{group}/v1", "gadgets")
    items = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"b": "z"}]
    spec = {"a": "A", "list": items, "map": {"k": "v", "l": "w"}, "dotted.name": "D"}
    await site.make(path, {"apiVersion": f"{group}/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": spec})
    table = (await site.ask("GET", path, kept=False, accept=TABLE)).json
    kept = site.transcript.request("GET", path, {}, None)
    site.transcript.answer(
        kept,
        200,
        {},
        [
            list(pair)
            for pair in zip(
                [each["name"] for each in table["columnDefinitions"]], table["rows"][0]["cells"], strict=True
            )
        ],
    )


async def test_a_webhook_of_conversion_has_a_port(site: Site) -> None:
    group = f"{site.namespace}.example.com"
    service = {"namespace": site.namespace, "name": "hook", "path": "/convert"}
    webhook = {"clientConfig": {"service": service}, "conversionReviewVersions": ["v1"]}
    body = gadgets(group, version("v1"), conversion={"strategy": "Webhook", "webhook": webhook})
    reply = await site.ask("POST", f"{DEFINITIONS}?dryRun=All", body, kept=False)
    kept = site.transcript.request("POST", "conversion", {}, None)
    site.transcript.answer(kept, reply.status, {}, reply.json["spec"]["conversion"])
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        hook = {
            "name": "a.example.com",
            "clientConfig": {"service": service},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}],
        }
        body = {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": kind,
            "metadata": {"name": f"{site.namespace}-{kind.lower()}"},
            "webhooks": [hook],
        }
        plural = f"{kind.lower()}s"
        reply = await site.ask("POST", f"/apis/admissionregistration.k8s.io/v1/{plural}?dryRun=All", body, kept=False)
        kept = site.transcript.request("POST", kind, {}, None)
        site.transcript.answer(kept, reply.status, {}, reply.json["webhooks"])


async def test_one_item_is_named_in_the_singular(site: Site) -> None:
    kind = Kind(site)
    text = {"type": "string"}
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "most": {"type": "array", "maxItems": 1, "items": text},
            "least": {"type": "array", "minItems": 1, "items": text},
            "two": {"type": "array", "minItems": 2, "maxItems": 2, "items": text},
            "fields": {"type": "object", "maxProperties": 1, "additionalProperties": text},
            "some": {"type": "object", "minProperties": 1, "additionalProperties": text},
            "both": {"type": "object", "minProperties": 2, "maxProperties": 2, "additionalProperties": text},
            "short": {"type": "string", "maxLength": 1},
            "long": {"type": "string", "minLength": 1},
            "none": {"type": "array", "maxItems": 0, "items": text},
        },
    }
    await kind.defined(schema=schema)
    for spec in (
        {"most": ["a", "b"]}, {"least": []}, {"two": ["a"]}, {"two": ["a", "b", "c"]}, {"fields": {"a": "", "b": ""}},
        {"some": {}}, {"both": {"a": ""}}, {"both": {"a": "", "b": "", "c": ""}}, {"short": "ab"}, {"long": ""},
        {"none": ["a"]},
    ):  # fmt: skip
        await site.post(f"{kind.things}?dryRun=All", kind.thing(spec))


async def test_optional_values_are_compared_with_null(site: Site) -> None:
    kind = Kind(site)
    text = {"type": "string", "maxLength": 20}
    schema = {"type": "object", "properties": {"s": text, "t": text}}
    for rule in (
        "format.dns1123Label().validate(self.s) == null",
        "null != format.dns1123Label().validate(self.s)",
        "self.?t == null",
        "optional.none() == null",
        "self.s == null",
        "self == null",
        "duration('1s') == null",
        "1 == null",
        "[1] == null",
    ):
        body = kind.definition({"rule": rule}, schema=schema)
        reply = await site.ask("POST", f"{DEFINITIONS}?dryRun=All", body, kept=False)
        kept = site.transcript.request("POST", rule, {}, None)
        site.transcript.answer(kept, reply.status, {}, "good" if reply.status == 201 else reply.json)
    await kind.defined({"rule": "format.dns1123Label().validate(self.s) == null"}, schema=schema)
    for text in ("a", "A"):
        await site.post(f"{kind.things}?dryRun=All", kind.thing({"s": text}))


async def test_schemas_have_the_names_of_their_groups_in_openapi(site: Site) -> None:
    group = f"{site.namespace}.example.com"
    odd = {"type": "object", "properties": {"spec": OBJECT}, "description": "Odd."}
    await site.server.install_crds(
        gadgets(group, version("v1"), version("v1beta1", served=False), version("foo", schema={"openAPIV3Schema": odd}))
    )
    names: dict[str, Any] = {}
    for name in ("v1", "foo"):
        path = f"/openapi/v3/apis/{group}/{name}"
        await site.until(path, 200)
        document = (await site.ask("GET", path, kept=False)).json
        schemas = document["components"]["schemas"]
        mine = {each: schema for each, schema in schemas.items() if not each.startswith("io.k8s.")}
        names[name] = {each: mine[each].get("x-kubernetes-group-version-kind") for each in sorted(mine)}
    kept = site.transcript.request("GET", "the schemas of a group", {}, None)
    site.transcript.answer(kept, 200, {}, names)
    index = (await site.ask("GET", "/openapi/v3", kept=False)).json["paths"]
    kept = site.transcript.request("GET", "/openapi/v3", {}, None)
    site.transcript.answer(kept, 200, {}, sorted(each for each in index if each.count("/") == 2 and "k8s.io" in each))


async def test_a_webhook_of_conversion_is_checked(site: Site) -> None:
    group = f"{site.namespace}.example.com"
    service = {"namespace": site.namespace, "name": "hook"}
    url = {"url": "https://hook.example/"}
    hooks: tuple[dict[str, Any], ...] = (
        {"strategy": "Webhook"},
        {"strategy": "Odd"},
        {"strategy": "None", "webhook": {"clientConfig": url, "conversionReviewVersions": ["v1"]}},
        {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}},
        {"strategy": "Webhook", "webhook": {"clientConfig": url, "conversionReviewVersions": []}},
        {"strategy": "Webhook", "webhook": {"clientConfig": url, "conversionReviewVersions": ["v2"]}},
        {"strategy": "Webhook", "webhook": {"clientConfig": url, "conversionReviewVersions": ["v1", "v1", "V"]}},
        {"strategy": "Webhook", "webhook": {"clientConfig": {}, "conversionReviewVersions": ["v1"]}},
        {
            "strategy": "Webhook",
            "webhook": {"clientConfig": {**url, "service": service}, "conversionReviewVersions": ["v1"]},
        },
        {"strategy": "Webhook", "webhook": {"clientConfig": url, "conversionReviewVersions": ["v1", "v2"]}},
    )
    for conversion in hooks:
        body = gadgets(group, version("v1"), conversion=conversion)
        reply = await site.ask("POST", f"{DEFINITIONS}?dryRun=All", body, kept=False)
        kept = site.transcript.request("POST", "conversion", {}, conversion)
        site.transcript.answer(kept, reply.status, {}, reply.json if reply.status != 201 else "good")


async def test_a_prefix_of_names_is_checked(site: Site) -> None:
    kind = Kind(site)
    await kind.defined(schema=OBJECT)
    for metadata in ({"name": "a"}, {}):
        for prefix in ("a-", "A-", "-", "a.-", "a_", "a" * 254):
            body = {**kind.thing({}), "metadata": {**metadata, "generateName": prefix}}
            reply = await site.ask("POST", f"{kind.things}?dryRun=All", body, kept=False)
            _causes(site, prefix, reply)
            pod = {"metadata": {**metadata, "generateName": prefix}, "data": {}}
            _causes(site, prefix, await site.ask("POST", f"{site.configmaps}?dryRun=All", pod, kept=False))


def _causes(site: Site, label: str, reply: Any) -> None:
    """Keep the fields of the errors. A generated name is another one each time."""
    kept = site.transcript.request("POST", label, {}, None)
    causes = (reply.json.get("details") or {}).get("causes") or []
    shown = [[each["reason"], each["field"], each["message"].rpartition('": ')[2]] for each in causes]
    site.transcript.answer(kept, reply.status, {}, shown)


async def test_numbers_and_times_in_errors_are_as_go_shows_them(site: Site) -> None:
    kind = Kind(site)
    number = {"type": "number", "maximum": 100}
    await kind.defined(schema={"type": "object", "properties": {"n": number}})
    for value in (150.0, 150, 150.2):
        await site.post(f"{kind.things}?dryRun=All", kind.thing({"n": value}))
    for text in (
        *("2019-01-31 09:45:40+00:00", "2019-01", "19-01-31T00:00:00Z", "2019-13-31T00:00:00Z", "2019-01-31T00:00"),
        *("2019-01-31T00:00:00", "2019-01-31T00:00:00z", "2019-01-31T00:00:00Z ", "2019-1-31T00:00:00Z", "", "x"),
        *("2019-01-31T00:00:00+1:00", "2019-02-30T00:00:00Z", "2019-01-31T25:00:00Z"),
    ):
        body = {**kind.thing({}), "metadata": {"name": "a", "creationTimestamp": text}}
        await site.post(f"{kind.things}?dryRun=All", body)
