"""Endpoints of resources: reads, watches and writes, from path and body to the response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiohttp import web

from kinformer.apiserver.accept import Accepted
from kinformer.apiserver.options import read_options
from kinformer.apiserver.pages import chunks, read_page
from kinformer.apiserver.reads import Read, respond
from kinformer.apiserver.status import (
    bad_request,
    failure,
    method_not_allowed,
    missing_resource,
    page_not_found,
)
from kinformer.apiserver.views import FormView
from kinformer.testing.api.delete import Deleter
from kinformer.testing.api.filters import ResourceFilter
from kinformer.testing.api.request import RequestInfo
from kinformer.testing.api.write import Writer
from kinformer.testing.api.write_options import WriteOptions
from kinformer.testing.codec.bodies import parse_patch, parse_yaml, read_body
from kinformer.testing.codec.patch import patch_function, patch_kind
from kinformer.testing.faults import Faults
from kinformer.testing.features import Features
from kinformer.testing.http.actions import Actions
from kinformer.testing.http.auth import AccessControl
from kinformer.testing.http.backend import StoredResource
from kinformer.testing.http.call import HTTPCall
from kinformer.testing.http.reviews import is_review
from kinformer.testing.kinds.resources import ResourceType
from kinformer.testing.store.forms import StoredCodec
from kinformer.testing.store.ownership import FieldManager

__all__ = ["ResourceEndpoints"]

Object = dict[str, Any]


_DEPRECATED = {
    "v1/endpoints": "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    "v1/componentstatuses": "v1 ComponentStatus is deprecated in v1.19+",
}


class ResourceEndpoints:
    """The endpoints of all resources of one server."""

    def __init__(
        self,
        writer: Writer,
        deleter: Deleter,
        access: AccessControl,
        faults: Faults,
        rewind: Callable[[int, web.BaseRequest], None],
        features: Features,
    ) -> None:
        self._ledger = writer.ledger
        self._storage = writer.ledger.storage
        self._registry = writer.ledger.registry
        self._writer = writer
        self._deleter = deleter
        self._actions = Actions(writer, deleter, access)
        self._faults = faults
        self._rewind = rewind
        self._features = features

    async def handle(self, call: HTTPCall) -> None:
        """Answer a request. Raises a `StatusError` if it fails."""
        info = call.info
        call.features = self._features
        resource = self._registry.at_path(info.group, info.version, info.plural)
        self._check_scope(resource, info)
        self._ledger.compactor.look()
        deprecated = _DEPRECATED.get(resource.name) or resource.deprecation
        if deprecated:
            call.response.warnings.append(deprecated)
        if is_review(resource):
            await self._actions.review(call, resource)
            return
        if resource.builtin and resource.name == "v1/bindings":
            await self._actions.binding(call, resource)
            return
        if resource.namespaced and not info.namespace and info.method not in ("GET", "HEAD"):
            raise method_not_allowed() if resource.builtin else page_not_found()  # writes name their namespace
        if info.method == "HEAD" and resource.builtin:
            raise method_not_allowed()  # only custom resources allow a HEAD
        if info.subresource:
            await self._subresource(call, resource)
        elif info.method in ("GET", "HEAD"):
            await self._read(call, resource)
        elif info.method == "POST":
            if info.name:
                raise method_not_allowed()
            await self._create(call, resource)
        elif info.method == "DELETE":
            await self._delete(call, resource)
        elif not info.name:
            custom = info.method == "PUT" and not resource.builtin
            raise bad_request("name must be provided") if custom else method_not_allowed()
        elif info.method == "PUT":
            await self._update(call, resource)
        elif info.method == "PATCH":
            await self._patch(call, resource)
        else:
            raise method_not_allowed()

    def _check_scope(self, resource: ResourceType, info: RequestInfo) -> None:
        if (info.inside and not resource.namespaced) or (info.name and resource.namespaced and not info.inside):
            if info.verb in ("list", "watch") and resource.namespaced:
                return  # the name is in a field selector
            if resource.builtin:
                raise missing_resource()
            raise page_not_found()

    @staticmethod
    def _loop_time() -> float:
        return asyncio.get_running_loop().time()

    # -- reads ----------------------------------------------------------------------------------------------------

    async def _read(self, call: HTTPCall, resource: ResourceType) -> None:
        info = call.info
        if info.verb in ("list", "watch") and self._loop_time() < resource.initializing_until:
            raise failure(429, "storage is (re)initializing", details={"retryAfterSeconds": 1})
        backend = StoredResource(
            resource, self._ledger, call, self._faults, lambda revisions: self._rewind(revisions, call.request)
        )
        verb = info.verb if info.verb in ("list", "watch") else "get"
        read = Read(verb, call.namespace(resource), info.name, call.params, call.request.headers, info.forced_watch)
        await respond(backend, read, call.response)

    # -- writes ---------------------------------------------------------------------------------------------------

    async def _create(self, call: HTTPCall, resource: ResourceType) -> None:
        options = call.write_options()
        body = await call.read_object(resource.kind, options)
        written = self._writer.create(resource, call.namespace(resource), body, options)
        await call.send_written(resource, written, options)

    async def _update(self, call: HTTPCall, resource: ResourceType) -> None:
        options, info = call.write_options(), call.info
        body = await call.read_object(resource.kind, options)
        namespace = call.namespace(resource)
        written = self._writer.update(resource, namespace, info.name, body, options, subresource=info.subresource)
        await call.send_written(resource, written, options)

    async def _patch(self, call: HTTPCall, resource: ResourceType) -> None:
        info, namespace = call.info, call.namespace(resource)
        kind = patch_kind(call.content_type, resource)
        options = call.write_options(patch=kind)
        raw = await read_body(call.request)
        if kind == "apply":
            options.manager = FieldManager(call.params.get("fieldManager", ""))
            twice: list[str] = []
            applied = parse_yaml(raw, twice)
            if twice and options.validation == "Strict":
                lines = "".join(f"\n  {complaint}" for complaint in twice)
                raise bad_request(
                    f"error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:{lines}"
                )
            if options.validation == "Warn":
                options.warnings += twice
            written = self._writer.apply(resource, namespace, info.name, applied, options, subresource=info.subresource)
        else:
            patch = parse_patch(raw, None if options.validation == "Ignore" else options.duplicates)
            options.json_patch = kind == "json"
            change = patch_function(kind, patch, resource.node)
            options.patch = patch if kind == "strategic" else None
            written = self._writer.patch(resource, namespace, info.name, change, options, subresource=info.subresource)
        await call.send_written(resource, written, options)

    async def _delete(self, call: HTTPCall, resource: ResourceType) -> None:
        info = call.info
        if not info.name and "deletecollection" not in resource.verbs:
            raise method_not_allowed()
        options = await call.read_delete_options()
        namespace = call.namespace(resource)
        if info.name:
            written = self._deleter.delete(resource, namespace, info.name, options)
            call.response.warnings += written.warnings
            if written.status is not None:
                await call.send_object(written.status)
            else:
                await call.send_written(resource, written, WriteOptions())
            return
        selection = read_options(call.params)
        selected = ResourceFilter(resource, namespace, selection)
        page = await read_page(self._storage, self._ledger.collection(resource), selected, selection)
        for stored in page.items:
            self._deleter.delete(resource, stored.namespace, stored.name, options)
        await call.response.send_pieces(chunks(FormView(StoredCodec(resource)), page), Accepted())

    async def _subresource(self, call: HTTPCall, resource: ResourceType) -> None:
        info = call.info
        subresource = resource.subresource(info.subresource)
        if subresource is None or (info.rest and subresource.name != "proxy"):
            if resource.builtin:
                raise missing_resource()
            raise page_not_found()
        verb = "get" if info.method == "GET" else info.verb
        if verb not in subresource.verbs:
            raise method_not_allowed()
        action = self._actions.by_name.get(subresource.name)
        if action is not None:
            await action(call, resource)
        elif info.method in ("GET", "HEAD"):
            await self._read(call, resource)
        elif info.method == "PUT":
            await self._update(call, resource)
        else:
            await self._patch(call, resource)
