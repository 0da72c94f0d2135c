"""Factories that create test objects from few arguments: `await make_pod(labels={"app": "web"}, phase="Running")`."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from kinformer.client.client import Client
from kinformer.connection.discovery import APIResource, discover
from kinformer.exceptions import ConfigError, NotFoundError
from kinformer.kinds.builtin import parse_kind
from kinformer.objects.object import KubeObject
from kinformer.objects.owner_references import owned_by

__all__ = ["MakeDeployment", "MakeObject", "MakePod", "ObjectFactory"]

IMAGE = "registry.invalid/app:1"  # no such registry exists, so nothing is ever pulled
DISCOVERY_PATIENCE = 5.0  # seconds to wait for a custom kind. Discovery lists a new definition within two
POLL = 0.05  # seconds between two attempts


class ObjectFactory:
    """Creates objects through a client, by default in one namespace, and can remove them again.

    Args:
        client: An entered client with the rights to create and delete these objects.
        namespace: The namespace of namespaced objects, or `""` if only cluster-scoped ones are created.
    """

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._kinds: dict[tuple[str, str], APIResource] = {}  # by apiVersion and kind, as last discovered
        self._numbers = itertools.count(1)
        self._outside: list[str] = []  # paths of objects created outside the namespace

    async def make_object(
        self,
        manifest: Mapping[str, Any] | None = None,
        *,
        api_version: str | None = None,
        kind: str | None = None,
        name: str | None = None,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: Iterable[str] = (),
        owner: KubeObject | None = None,
        **fields: Any,
    ) -> KubeObject:
        """Create an object of any kind that the server serves, including custom kinds.

        Args:
            manifest: The object, or a part of it. The other arguments take precedence.
            api_version: `"v1"`, `"apps/v1"`, `"example.com/v1"`.
            kind: `"Pod"`, `"Widget"`.
            name: By default the kind in lower case and a counter: `"widget-1"`.
            namespace: By default the test's own. Ignored for cluster-scoped kinds.
            labels: Added to the manifest's.
            annotations: Added to the manifest's.
            finalizers: Added to the manifest's.
            owner: The object that controls it, as returned by the server. See `owned_by`.
            **fields: Further top-level fields: `spec={...}`, `data={...}`. A `status` is written in a second request,
                through the status subresource, because a server ignores it on creation.

        Returns:
            The object as stored by the server, with uid and resourceVersion.

        Raises:
            ConfigError: The server does not serve this kind.
            APIError: The server refuses the object.
        """
        body = {**copy.deepcopy(dict(manifest or {})), **fields}
        metadata = dict(body.get("metadata") or {})
        body["apiVersion"] = api_version or body.get("apiVersion", "")
        body["kind"] = kind or body.get("kind", "")
        resource = await self._resource(body["apiVersion"], body["kind"])
        if name or not (metadata.get("name") or metadata.get("generateName")):
            metadata["name"] = name or f"{resource.kind.lower()}-{next(self._numbers)}"
        for field, added in (("labels", labels), ("annotations", annotations)):
            if added:
                metadata[field] = {**(metadata.get(field) or {}), **added}
        if resource.namespaced:
            metadata["namespace"] = namespace or metadata.get("namespace") or self._namespace
        if more := list(finalizers):
            metadata["finalizers"] = [*(metadata.get("finalizers") or ()), *more]
        body["metadata"] = metadata
        if owner is not None:
            body = owned_by(body, owner)
        status = body.pop("status", None)
        path = resource.gvr.path(metadata.get("namespace"))
        made = await self._object("POST", path, body)
        if not resource.namespaced or made.namespace != self._namespace:
            self._outside.append(f"{path}/{made.name}")
        if status is not None:
            made = await self._object("PATCH", f"{path}/{made.name}/status", {"status": status})
        return made

    async def make_pod(
        self,
        name: str | None = None,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: Iterable[str] = (),
        owner: KubeObject | None = None,
        image: str = IMAGE,
        node: str | None = None,
        phase: str | None = None,
        **spec: Any,
    ) -> KubeObject:
        """Create a Pod with one container.

        Args:
            name: By default `pod-1` and so on.
            namespace: By default the test's own.
            labels: Its labels.
            annotations: Its annotations.
            finalizers: Its finalizers.
            owner: The object that controls it.
            image: The image of its container `main`.
            node: The node that the pod is bound to. Without it, the pod is not scheduled.
            phase: The phase, such as `"Running"`. Without it, the pod stays Pending, because there is no kubelet.
            **spec: Further fields of the spec, such as `containers=[...]`.
        """
        body = {"containers": [{"name": "main", "image": image}], **({"nodeName": node} if node else {}), **spec}
        fields: dict[str, Any] = {"spec": body, **({"status": {"phase": phase}} if phase else {})}
        return await self.make_object(
            fields,
            api_version="v1",
            kind="Pod",
            name=name,
            namespace=namespace,
            labels=labels,
            annotations=annotations,
            finalizers=finalizers,
            owner=owner,
        )

    async def make_deployment(
        self,
        name: str | None = None,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: Iterable[str] = (),
        owner: KubeObject | None = None,
        image: str = IMAGE,
        replicas: int = 1,
        **spec: Any,
    ) -> KubeObject:
        """Create a Deployment. No Pods are created, because a test server runs no deployment controller.

        Args:
            name: By default `deployment-1` and so on. It is also the `app` label of its Pods.
            namespace: By default the test's own.
            labels: Labels of the Deployment itself.
            annotations: Annotations of the Deployment itself.
            finalizers: Finalizers of the Deployment itself.
            owner: The object that controls the Deployment.
            image: The image of the container `main` of its Pods.
            replicas: The desired number of Pods.
            **spec: Further fields of the spec, such as `strategy={...}`.
        """
        name = name or f"deployment-{next(self._numbers)}"
        template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": image}]}}
        body = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template, **spec}
        return await self.make_object(
            api_version="apps/v1",
            kind="Deployment",
            name=name,
            namespace=namespace,
            labels=labels,
            annotations=annotations,
            finalizers=finalizers,
            owner=owner,
            spec=body,
        )

    async def remove_outside(self) -> None:
        """Delete the objects created outside the namespace: cluster-scoped ones and ones in other namespaces."""
        while self._outside:
            path = self._outside.pop()
            try:
                await self._client.request("DELETE", path, body={"gracePeriodSeconds": 0})
            except NotFoundError:
                continue  # the test has deleted it itself

    async def _object(self, method: str, path: str, body: dict[str, Any]) -> KubeObject:
        response = await self._client.request(method, path, body=body)
        assert isinstance(response, KubeObject), f"{method} {path}: expected an object"
        return response

    async def _resource(self, api_version: str, kind: str) -> APIResource:
        loop = asyncio.get_running_loop()
        parse_kind(f"{api_version}/{kind}", "kind")
        # A built-in kind is served or not. A custom kind may be served soon.
        group = api_version.rpartition("/")[0].removesuffix(".k8s.io")
        deadline = loop.time() + (DISCOVERY_PATIENCE if "." in group else 0.0)
        while (api_version, kind) not in self._kinds:
            self._kinds = {(served.gvr.api_version, served.kind): served for served in await discover(self._client)}
            if (api_version, kind) not in self._kinds:
                if loop.time() >= deadline:
                    raise ConfigError(
                        f"the server has no kind {kind!r} in {api_version!r}; is its definition installed?"
                    )
                await asyncio.sleep(POLL)
        return self._kinds[api_version, kind]


class MakeObject(Protocol):
    """The type of the fixture `make_object`: `ObjectFactory.make_object`, in the test's own namespace."""

    async def __call__(
        self,
        manifest: Mapping[str, Any] | None = None,
        *,
        api_version: str | None = None,
        kind: str | None = None,
        name: str | None = None,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: Iterable[str] = (),
        owner: KubeObject | None = None,
        **fields: Any,
    ) -> KubeObject:
        """Create an object of any kind, as `ObjectFactory.make_object`."""
        ...


class MakePod(Protocol):
    """The type of the fixture `make_pod`: `ObjectFactory.make_pod`, in the test's own namespace."""

    async def __call__(
        self,
        name: str | None = None,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: Iterable[str] = (),
        owner: KubeObject | None = None,
        image: str = IMAGE,
        node: str | None = None,
        phase: str | None = None,
        **spec: Any,
    ) -> KubeObject:
        """Create a Pod, as `ObjectFactory.make_pod`."""
        ...


class MakeDeployment(Protocol):
    """The type of the fixture `make_deployment`: `ObjectFactory.make_deployment`, in the test's own namespace."""

    async def __call__(
        self,
        name: str | None = None,
        *,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        finalizers: Iterable[str] = (),
        owner: KubeObject | None = None,
        image: str = IMAGE,
        replicas: int = 1,
        **spec: Any,
    ) -> KubeObject:
        """Create a Deployment, as `ObjectFactory.make_deployment`."""
        ...
