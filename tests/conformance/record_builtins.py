"""Records what a real kube-apiserver knows of its built-in kinds: `builtins.json`, and `columns.json` of their tables.

    python tests/conformance/record_builtins.py         # writes them to kinformer/testing/kinds and kinformer/kinds

From the server itself come discovery (resources, verbs, subresources), the columns of tables, and from its OpenAPI
documents the fields of all types with their merge keys and enumerations. What those do not tell (the order of fields,
which are pointers, which are written when empty, Go's names of types, which error messages name) is read from the
sources of the same version in Go's module cache, where `build_assets.py` leaves them. Descriptions are left out, but
for those of metadata, which custom resources have too: `object_meta.json`.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from kinformer.testing import ControlPlane
from tests.conformance.build_assets import HERE, assets_folder

TARGET = HERE.parents[1] / "kinformer" / "testing" / "kinds" / "builtins.json"
DESCRIPTIONS = TARGET.with_name("object_meta.json")
COLUMNS = HERE.parents[1] / "kinformer" / "kinds" / "columns.json"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
# Where the package of a definition is, by the prefix of the definition's name.
MODULES = {
    "io.k8s.api": "api",
    "io.k8s.apimachinery": "apimachinery",
    "io.k8s.apiextensions-apiserver": "apiextensions-apiserver",
    "io.k8s.kube-aggregator": "kube-aggregator",
}
# Types that encode themselves; the second is the name in our file.
SCALARS = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": "quantity",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "intstr",
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": "time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": "microtime",
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": "any",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrArray": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrBool": "any",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaPropsOrStringArray": "any",
}
STRUCTS = ("@", "time", "microtime", "quantity", "intstr")
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
FIELD = re.compile(r"^\s+(?:(?P<name>\w+)\s+)?(?P<type>[*\[\]\w.]+)\s+`(?P<tags>[^`]*)`")
JSON_TAG = re.compile(r'json:"([^"]*)"')
# Kinds that are no resources of their own.
EXTRA = (("autoscaling", "v1", "Scale"), ("policy", "v1", "Eviction"), ("authentication.k8s.io", "v1", "TokenRequest"))
Object = dict[str, Any]


class Sources:
    """The structs of Go's packages, as far as they are asked for."""

    def __init__(self, modules: Mapping[str, Path]) -> None:
        self._modules = modules
        self._structs: dict[Path, dict[str, list[str]]] = {}

    def folder(self, definition: str) -> Path:
        prefix = next(one for one in MODULES if definition.startswith(one + "."))
        parts = definition.removeprefix(prefix + ".").split(".")[:-1]
        return self._modules[MODULES[prefix]].joinpath(*parts)

    def _package(self, folder: Path) -> dict[str, list[str]]:
        if folder not in self._structs:
            found: dict[str, list[str]] = {}
            for file in sorted(folder.glob("*.go")):
                if file.name.endswith("_test.go") or file.name.startswith(("zz_", "generated")):
                    continue
                text = file.read_text(encoding="utf-8")
                for match in re.finditer(r"^type (\w+) struct ?\{(\}|.*?^\})", text, re.MULTILINE | re.DOTALL):
                    found[match[1]] = match[2].splitlines()
            self._structs[folder] = found
        return self._structs[folder]

    def fields(self, folder: Path, struct: str) -> Iterator[tuple[str, str, list[str]]]:
        """(JSON name, Go type, options of the tag) in order, those of inlined structs in their place."""
        for line in self._package(folder)[struct]:
            match = FIELD.match(line)
            tag = JSON_TAG.search(match["tags"]) if match else None
            if match is None or tag is None:
                continue
            name, *options = tag[1].split(",")
            if "inline" in options:
                package, _, inner = match["type"].lstrip("*").rpartition(".")
                yield from self.fields(self._meta() if package == "metav1" else folder, inner)
            elif name and name != "-":
                yield name, match["type"], options

    def _meta(self) -> Path:
        return self._modules["apimachinery"] / "pkg/apis/meta/v1"


def short(definition: str) -> str:
    """`io.k8s.api.core.v1.Pod` -> `core.v1.Pod`."""
    return ".".join(definition.split(".")[-3:])


def go_name(text: str) -> str:
    """As Go's reflection prints a type: with its package's name."""
    text = text.lstrip("*")
    if text.startswith("[]"):
        return "[]" + go_name(text[2:]) if text != "[]byte" else "[]uint8"
    if text.startswith("map["):
        key, _, value = text[4:].partition("]")
        return f"map[{go_name(key)}]{go_name(value)}"
    package, _, name = text.rpartition(".")
    if package:
        return f"{'v1' if package in ('metav1', 'v1', 'corev1') else package}.{name}"
    return f"v1.{name}" if name[0].isupper() else name


class Types:
    """The types that are reached from kinds."""

    def __init__(self, definitions: Mapping[str, Object], sources: Sources) -> None:
        self._definitions = definitions
        self._sources = sources
        self.found: dict[str, Object] = {}

    def add(self, definition: str) -> str:
        """The name of a type in our file."""
        if definition in SCALARS:
            return SCALARS[definition]
        name = short(definition)
        if name not in self.found:
            entry = self.found[name] = {}
            entry.update(self._type(definition))
        return f"@{name}"

    def _type(self, definition: str) -> Object:
        schema = self._definitions[definition]
        entry: Object = {"fields": []}
        if schema.get("x-kubernetes-map-type") == "atomic":
            entry["atomic"] = True
        required = schema.get("required") or ()
        go_fields = self._sources.fields(self._sources.folder(definition), definition.rpartition(".")[2])
        for name, go_type, options in go_fields:
            inner = (schema.get("properties") or {}).get(name)
            if inner is None:
                continue  # not served, or no longer
            flags = self._flags(inner)
            kind, pointer = self._of(inner), go_type.startswith("*")
            # Go omits no struct for being empty, only for being zero where that is asked for.
            struct = kind.startswith(STRUCTS) and not pointer
            if "omitzero" not in options and (struct or "omitempty" not in options):
                flags["always"] = True
            if pointer:
                flags["pointer"] = True
            if name in required:
                flags["required"] = True
            entry["fields"].append([name, kind, go_name(go_type), flags] if flags else [name, kind, go_name(go_type)])
        return entry

    def _flags(self, schema: Object) -> Object:
        flags: Object = {}
        kind = schema.get("x-kubernetes-list-type")
        if kind in ("map", "set"):
            flags[kind] = schema.get("x-kubernetes-list-map-keys") or True
        if schema.get("x-kubernetes-map-type") == "atomic":
            flags["atomic"] = True
        if "merge" in (schema.get("x-kubernetes-patch-strategy") or "").split(","):
            flags["merge"] = schema.get("x-kubernetes-patch-merge-key") or True
        if schema.get("enum"):
            flags["enum"] = schema["enum"]
        return flags

    def _of(self, schema: Object) -> str:
        reference = schema.get("$ref") or next((one["$ref"] for one in schema.get("allOf") or ()), "")
        if reference:
            return self.add(reference.rpartition("/")[2])
        kind = schema.get("type")
        if kind == "array":
            return "[]" + self._of(schema["items"])
        if kind == "object":
            return "{}" + self._of(schema["additionalProperties"]) if "additionalProperties" in schema else "any"
        if kind == "string":
            return {"byte": "bytes", "date-time": "time"}.get(schema.get("format", ""), "string")
        if kind == "integer":
            return str(schema.get("format", "int64"))
        return {"boolean": "bool", "number": "float64", None: "any"}[kind]


async def read(control_plane: ControlPlane) -> tuple[dict[str, Object], list[Object], dict[str, Object]]:
    """The definitions of OpenAPI, the groups of aggregated discovery, the tables' columns by path."""
    context = ssl.create_default_context(cafile=control_plane.ca_file)
    headers = {"Authorization": f"Bearer {control_plane.token()}"}
    connector = aiohttp.TCPConnector(ssl=context)
    async with aiohttp.ClientSession(control_plane.url, connector=connector, headers=headers) as session:

        async def get(path: str, **more: str) -> Any:
            async with session.get(path, headers=more) as response:
                return await response.json(content_type=None)

        definitions: dict[str, Object] = {}
        for one in (await get("/openapi/v3"))["paths"].values():
            document = await get(one["serverRelativeURL"])
            definitions.update((document.get("components") or {}).get("schemas") or {})
        groups = [*(await get("/api", **AGGREGATED))["items"], *(await get("/apis", **AGGREGATED))["items"]]
        columns: dict[str, Object] = {}
        for group, version, resource in each_resource(groups):
            if "list" in resource["verbs"]:
                root = f"/apis/{group}/{version}" if group else f"/api/{version}"
                path = f"{root}/{resource['resource']}"
                columns[path] = (await get(path, **TABLE))["columnDefinitions"]
        return definitions, groups, columns


def each_resource(groups: list[Object]) -> Iterator[tuple[str, str, Object]]:
    for group in groups:
        for version in group["versions"]:
            for resource in version["resources"]:
                yield group["metadata"].get("name", ""), version["version"], resource


def by_kind(definitions: Mapping[str, Object]) -> dict[tuple[str, str, str], str]:
    found = {}
    for name, schema in definitions.items():
        marks = schema.get("x-kubernetes-group-version-kind") or ()
        if len(marks) == 1:
            found[marks[0]["group"], marks[0]["version"], marks[0]["kind"]] = name
    return found


def document(
    definitions: dict[str, Object], groups: list[Object], columns: dict[str, Object], sources: Sources
) -> Object:
    types, kinds, resources = Types(definitions, sources), by_kind(definitions), []
    texts: list[str] = []
    for group, version, one in each_resource(groups):
        root = f"/apis/{group}/{version}" if group else f"/api/{version}"
        row: Object = {
            "group": group,
            "version": version,
            "plural": one["resource"],
            "kind": one["responseKind"]["kind"],
            "singular": one["singularResource"],
            "namespaced": one["scope"] == "Namespaced",
            "verbs": one["verbs"],
            "type": types.add(kinds[group, version, one["responseKind"]["kind"]])[1:],
        }
        for name, key in (("shortNames", "shortNames"), ("categories", "categories")):
            if one.get(key):
                row[name] = one[key]
        if one.get("subresources"):
            row["subresources"] = [subresource(sub) for sub in one["subresources"]]
        if columns.get(f"{root}/{one['resource']}"):
            row["columns"] = [column(of, texts) for of in columns[f"{root}/{one['resource']}"]]
        resources.append(row)
    for extra in EXTRA:
        types.add(kinds[extra])
    types.add("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions")
    return {"resources": resources, "texts": texts, "types": types.found}


def column(of: Object, texts: list[str]) -> list[Any]:
    """[name, type, format, description, priority]; long descriptions are kept once."""
    if of["description"] not in texts:
        texts.append(of["description"])
    return [of["name"], of["type"], of["format"], texts.index(of["description"]), of["priority"]]


def subresource(sub: Object) -> list[Any]:
    kind = sub["responseKind"]
    return [sub["subresource"], kind["kind"], kind["group"], kind["version"], sub["verbs"]]


def modules() -> dict[str, Path]:
    """Where Go keeps the sources of the version that the tests build."""
    text = (HERE / "kube-apiserver" / "go.mod").read_text(encoding="utf-8")
    cache = Path(subprocess.run(["go", "env", "GOMODCACHE"], capture_output=True, text=True, check=True).stdout.strip())
    return {
        name: cache / "k8s.io" / f"{name}@{re.search(rf'k8s.io/{name} => k8s.io/{name} (v[0-9.]+)', text)[1]}"  # type: ignore[index]
        for name in MODULES.values()
    }


async def main() -> int:
    async with ControlPlane(assets_folder()) as control_plane:
        recorded = await read(control_plane)
    whole = document(*recorded, Sources(modules()))
    fields = recorded[0][OBJECT_META]["properties"]
    texts = {name: field["description"] for name, field in sorted(fields.items())}
    DESCRIPTIONS.write_text(json.dumps(texts, indent=1) + "\n", encoding="utf-8")
    compact = {"ensure_ascii": False, "separators": (",", ":")}
    columns = {f"{one['group']}/{one['kind']}": one.pop("columns") for one in whole["resources"] if "columns" in one}
    shown = [f"{json.dumps(name)}:{json.dumps(one, **compact)}" for name, one in columns.items()]  # type: ignore[arg-type]
    texts_line = json.dumps(whole["texts"], **compact)  # type: ignore[arg-type]
    COLUMNS.write_text(f'{{"texts":{texts_line},\n"columns":{{\n' + ",\n".join(shown) + "}}\n", encoding="utf-8")
    lines = ['{"resources":[']
    lines.append(",\n".join(json.dumps(one, **compact) for one in whole["resources"]))  # type: ignore[arg-type]
    lines.append('],\n"types":{')
    types = sorted(whole["types"].items())
    lines.append(",\n".join(f"{json.dumps(name)}:{json.dumps(one, **compact)}" for name, one in types))  # type: ignore[arg-type]
    TARGET.write_text("\n".join([*lines, "}}"]) + "\n", encoding="utf-8")
    print(f"{TARGET}: {len(whole['resources'])} resources, {len(types)} types, {TARGET.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
