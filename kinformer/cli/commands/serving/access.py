"""The users of `kinformer serve --rbac`: those that a file of roles and bindings names."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from kinformer import APIError, Client, ConfigError
from kinformer.client import Discovery, discover
from kinformer.exceptions import AlreadyExistsError
from kinformer.testing import APIServer

__all__ = ["Access", "read_access"]

Object = dict[str, Any]

_ROLES = ("Role", "ClusterRole")
_BINDINGS = ("RoleBinding", "ClusterRoleBinding")
_API_VERSIONS = {
    **dict.fromkeys((*_ROLES, *_BINDINGS), "rbac.authorization.k8s.io/v1"),
    "ServiceAccount": "v1",
    "Namespace": "v1",
}
# The server sets these. A file has them if it was printed by `kubectl get`, and a creation must not.
_BY_SERVER = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")


class _Document(NamedTuple):
    """An object of the file, and where it is there."""

    place: str
    body: Object

    @property
    def namespace(self) -> str:
        """Its namespace, or "" for one of the cluster."""
        if self.body["kind"] in ("ClusterRole", "ClusterRoleBinding", "Namespace"):
            return ""
        return str(self.body["metadata"].get("namespace") or "default")


class Access:
    """Roles, bindings and the users that they name.

    Args:
        documents: The objects.

    Attributes:
        users: The users and service accounts, by the names that the server knows.
        groups: The groups. Each gets a user who is a member.
    """

    def __init__(self, documents: Sequence[_Document]) -> None:
        self._documents = documents
        subjects = list(_subjects(documents))
        self.users = sorted(
            {_user_name(subject) for subject in subjects if subject["kind"] != "Group"} - {"system:anonymous"}
        )
        self.groups = sorted(
            {subject["name"] for subject in subjects if subject["kind"] == "Group"} - {"system:authenticated"}
        )

    @property
    def summary(self) -> str:
        """The users and members in words."""
        names = ", ".join([*self.users, *map(_member_of, self.groups)]) or "none"
        return f"Users, each with a context (--context NAME): {names}. The current context may do everything."

    async def create(self, server: APIServer) -> None:
        """Create the objects, as a server that checks each field.

        Raises:
            ConfigError: The server refuses one, or a binding refers to a role that does not exist. The message names
                the document and the field.
        """
        async with server.client() as client:
            resources = await discover(client)
            # Namespaces come first, because the other objects are in them.
            for document in sorted(self._documents, key=lambda document: document.body["kind"] != "Namespace"):
                if document.namespace and server.get("v1/namespaces", None, document.namespace) is None:
                    server.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": document.namespace}})
                try:
                    await _put(client, resources, document)
                except APIError as error:
                    raise ConfigError(f"{document.place}: {error.message}") from error
        for document in self._documents:  # after all are created, as a binding may precede its role
            _check_role(server, document)

    def add_groups(self, server: APIServer, kubeconfig: Path) -> None:
        """Add to a kubeconfig a user for each group, who is identified as a member by a certificate."""
        config = json.loads(kubeconfig.read_text(encoding="utf-8"))
        for group in self.groups:
            name = _member_of(group)
            files = zip(("certificate", "key"), server.client_certificate(name, [group]), strict=True)
            credentials = {f"client-{what}-data": base64.b64encode(data).decode() for what, data in files}
            place = {"cluster": config["clusters"][0]["name"], "user": name, "namespace": "default"}
            config["users"].append({"name": name, "user": credentials})
            config["contexts"].append({"name": name, "context": place})
        kubeconfig.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def read_access(path: Path) -> Access:
    """Read a file of Roles, ClusterRoles, their bindings, ServiceAccounts and Namespaces, as kubectl applies it.

    Raises:
        ConfigError: The file is no YAML, has another kind, or lacks a field. The message names the field.
        OSError: It cannot be read.
    """
    try:
        loaded = list(yaml.safe_load_all(path.read_text(encoding="utf-8")))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from error
    documents = [_checked(place, document) for place, document in _objects(str(path), loaded)]
    if not any(document.body["kind"] in _BINDINGS for document in documents):
        raise ConfigError(f"{path}: there is no RoleBinding or ClusterRoleBinding, whose subjects are the users")
    return Access(documents)


def _objects(path: str, loaded: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for number, document in enumerate(loaded, 1):
        place = f"{path}, document {number}" if len(loaded) > 1 else path
        if isinstance(document, Mapping) and str(document.get("kind", "")).endswith("List"):
            for index, item in enumerate(document.get("items") or ()):
                yield f"{place}, items[{index}]", item
        elif document is not None:
            yield place, document


def _checked(place: str, document: Any) -> _Document:
    if not isinstance(document, Mapping):
        raise ConfigError(f"{place}: expected an object with apiVersion and kind, got {type(document).__name__}")
    kind, version = document.get("kind"), document.get("apiVersion")
    if kind not in _API_VERSIONS:
        raise ConfigError(f"{place}: kind: expected {', '.join(_API_VERSIONS)}, got {kind!r}")
    if version != _API_VERSIONS[kind]:
        raise ConfigError(f"{place}: apiVersion: expected {_API_VERSIONS[kind]!r} for a {kind}, got {version!r}")
    metadata = document.get("metadata")
    if not isinstance(metadata, Mapping) or not isinstance(metadata.get("name"), str):
        raise ConfigError(f"{place}: metadata.name: expected the name of the {kind}")
    body = {**document, "metadata": {key: value for key, value in metadata.items() if key not in _BY_SERVER}}
    place = f"{place}, {kind} {metadata['name']}"
    if kind in _BINDINGS:
        _check_binding(place, body)
    return _Document(place, body)


def _check_binding(place: str, binding: Mapping[str, Any]) -> None:
    """Check what is read here of a binding. The server checks the rest."""
    subjects = binding.get("subjects")
    if not isinstance(subjects, list) or not subjects:
        raise ConfigError(f"{place}: subjects: expected a list of users, groups and service accounts")
    for number, subject in enumerate(subjects):
        at = f"{place}: subjects[{number}]"
        if not isinstance(subject, Mapping) or subject.get("kind") not in ("User", "Group", "ServiceAccount"):
            raise ConfigError(f"{at}.kind: expected User, Group or ServiceAccount")
        needed = ("name", "namespace") if subject["kind"] == "ServiceAccount" else ("name",)
        for field in needed:
            if not isinstance(subject.get(field), str) or not subject[field]:
                raise ConfigError(f"{at}.{field}: expected a string, got {subject.get(field)!r}")
    role = binding.get("roleRef")
    if not isinstance(role, Mapping) or role.get("kind") not in _ROLES or not isinstance(role.get("name"), str):
        raise ConfigError(f"{place}: roleRef: expected a kind (Role or ClusterRole) and a name")


def _check_role(server: APIServer, binding: _Document) -> None:
    if binding.body["kind"] not in _BINDINGS:
        return
    role = binding.body["roleRef"]
    cluster = role["kind"] == "ClusterRole"
    resource = f"rbac.authorization.k8s.io/v1/{'clusterroles' if cluster else 'roles'}"
    if server.get(resource, None if cluster else binding.namespace, role["name"]) is None:
        where = "" if cluster else f" in namespace {binding.namespace!r}"
        raise ConfigError(f"{binding.place}: roleRef.name: there is no {role['kind']} {role['name']!r}{where}")


async def _put(client: Client, resources: Discovery, document: _Document) -> None:
    """Create an object, or replace one that the server has from the beginning."""
    gvr = resources.find(document.body["kind"]).gvr
    params = {"fieldValidation": "Strict"}
    try:
        await client.request("POST", gvr.path(document.namespace or None), body=document.body, params=params)
    except AlreadyExistsError:
        path = gvr.path(document.namespace or None, document.body["metadata"]["name"])
        await client.request("PUT", path, body=document.body, params=params)


def _subjects(documents: Sequence[_Document]) -> Iterator[Mapping[str, Any]]:
    for document in documents:
        if document.body["kind"] in _BINDINGS:
            yield from document.body["subjects"]


def _user_name(subject: Mapping[str, Any]) -> str:
    if subject["kind"] == "User":
        return str(subject["name"])
    return f"system:serviceaccount:{subject['namespace']}:{subject['name']}"


def _member_of(group: str) -> str:
    return f"member-of-{group}"
