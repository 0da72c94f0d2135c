"""Discovery of the served resources, in the old and the aggregated form."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

from kinformer.objects.paths.printing import go_json
from kinformer.testing.kinds.resources import Registry, ResourceType, Subresource, group_version

__all__ = ["AGGREGATED", "DiscoveryDocuments"]

Object = dict[str, Any]

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION: Object = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.3",
    "gitCommit": "$Format:%H$",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "go1.26.8",
    "compiler": "gc",
    "platform": "linux/amd64",
}


def _storage_hash(resource: ResourceType) -> str:
    """Return the hash of endpoints/discovery/storageversionhash.go."""
    message = f"{resource.group}/{resource.storage_version.rpartition('/')[2]}/{resource.kind}"
    return base64.b64encode(hashlib.sha256(message.encode()).digest()[:8]).decode()


class DiscoveryDocuments:
    """The documents of discovery for the kinds in a registry. `address` is host and port."""

    def __init__(self, registry: Registry, address: str) -> None:
        self._registry = registry
        self._address = address

    def find(self, path: str) -> Object | None:
        """Return the document at a path, or None."""
        parts = [part for part in path.split("/") if part]
        if parts == ["version"]:
            return VERSION
        if parts == ["api"]:
            return {
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": self._address}],
            }
        if parts == ["apis"]:
            groups = [self._group(group, versions) for group, versions in self._by_service()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        if len(parts) == 2 and parts[0] == "apis":
            versions = self._groups().get(parts[1])
            if versions is None:
                return None
            return {"kind": "APIGroup", "apiVersion": "v1", **self._group(parts[1], versions)}
        if len(parts) == 2 and parts[0] == "api":
            return self._resources("", parts[1])
        if len(parts) == 3 and parts[0] == "apis":
            return self._resources(parts[1], parts[2])
        return None

    def _by_service(self) -> list[tuple[str, list[str]]]:
        """Return the groups in the order of their APIServices, which have names such as `v1.apps`."""
        custom = {resource.group for resource in self._registry if not resource.builtin}
        return sorted(
            self._groups().items(),
            key=lambda item: min(f"{version}.{item[0]}" for version in item[1]) if item[0] in custom else "",
        )

    def _groups(self) -> dict[str, list[str]]:
        return {group: versions for group, versions in self._registry.versions().items() if group}

    def _group(self, group: str, versions: list[str]) -> Object:
        listed = [{"groupVersion": f"{group}/{version}", "version": version} for version in versions]
        return {"name": group, "versions": listed, "preferredVersion": listed[0]}

    def _resources(self, group: str, version: str) -> Object | None:
        api_version = group_version(group, version)
        listed: list[Object] = []
        for resource in self._registry:
            if resource.api_version == api_version:
                listed.append(self._resource(resource))
                listed += [self._subresource(resource, sub) for sub in resource.subresources]
        if not listed:
            return None
        head: Object = {"kind": "APIResourceList"}
        if group:  # the core list is an older kind, without an apiVersion
            head["apiVersion"] = "v1"
        return {**head, "groupVersion": api_version, "resources": listed}

    def _resource(self, resource: ResourceType) -> Object:
        entry: Object = {
            "name": resource.plural,
            "singularName": resource.singular,
            "namespaced": resource.namespaced,
            "kind": resource.kind,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        if "watch" in resource.verbs:  # stored objects, unlike reviews and bindings
            entry["storageVersionHash"] = _storage_hash(resource)
        return entry

    def _subresource(self, resource: ResourceType, sub: Subresource) -> Object:
        entry: Object = {
            "name": f"{resource.plural}/{sub.name}",
            "singularName": "",
            "namespaced": resource.namespaced,
        }
        if sub.group:
            entry.update(group=sub.group, version=sub.version)
        entry.update(kind=sub.kind, verbs=list(sub.verbs))
        return entry

    # -- aggregated -----------------------------------------------------------------------------------------------

    def aggregated(self, path: str) -> tuple[bytes, str]:
        """Return the `APIGroupDiscoveryList` of `/api` or `/apis`, and its ETag."""
        groups = [("", ["v1"])] if path.rstrip("/") == "/api" else list(self._groups().items())
        items = [
            {
                "metadata": {"name": group} if group else {},
                "versions": [self._aggregated_version(group, version) for version in versions],
            }
            for group, versions in groups
        ]
        body = go_json(
            {
                "kind": "APIGroupDiscoveryList",
                "apiVersion": "apidiscovery.k8s.io/v2",
                "metadata": {},
                "items": items,
            }
        )
        return body + b"\n", f'"{hashlib.sha512(body).hexdigest().upper()}"'

    def _aggregated_version(self, group: str, version: str) -> Object:
        api_version = group_version(group, version)
        resources = [self._aggregated_resource(kind) for kind in self._registry if kind.api_version == api_version]
        return {"version": version, "resources": resources, "freshness": "Current"}

    def _aggregated_resource(self, resource: ResourceType) -> Object:
        # Built-in kinds omit group and version, like an APIResource of the same group. CRDs include them.
        group, version = ("", "") if resource.builtin else (resource.group, resource.version)
        entry: Object = {
            "resource": resource.plural,
            "responseKind": {"group": group, "version": version, "kind": resource.kind},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "singularResource": resource.singular,
            "verbs": list(resource.verbs),
        }
        if resource.short_names:
            entry["shortNames"] = list(resource.short_names)
        if resource.categories:
            entry["categories"] = list(resource.categories)
        if resource.subresources:
            entry["subresources"] = [
                {
                    "subresource": sub.name,
                    "responseKind": {"group": sub.group or group, "version": sub.version or version, "kind": sub.kind},
                    "verbs": list(sub.verbs),
                }
                for sub in resource.subresources
            ]
        return entry
