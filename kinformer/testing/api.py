"""What a request for a resource does: reads, watches and writes, from path and body to the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from kinformer.testing.answers import Answer
from kinformer.testing.auth import AccessControl
from kinformer.testing.bodies import parse_body, parse_patch, parse_yaml, read_body
from kinformer.testing.delete import DeleteOptions, Deleter
from kinformer.testing.faults import Faults
from kinformer.testing.filters import Filter
from kinformer.testing.forms import View, decode_stored
from kinformer.testing.ledger import Written
from kinformer.testing.list import Page, chunks, reach, read_page
from kinformer.testing.negotiation import Wanted, check_kind, negotiate
from kinformer.testing.options import bad_version, read_options
from kinformer.testing.ownership import FieldManager
from kinformer.testing.patch import json_patch, merge_patch, strategic_patch
from kinformer.testing.request import RequestInfo
from kinformer.testing.resources import ResourceType
from kinformer.testing.reviews import REVIEWS, review
from kinformer.testing.schema import KeyedLists
from kinformer.testing.status import (
    bad_request,
    failure,
    internal,
    method_not_allowed,
    missing_resource,
    page_not_found,
    success,
)
from kinformer.testing.stream import WatchStream
from kinformer.testing.subresources import bind, read_scale, scale_of, with_scale
from kinformer.testing.watch import Watcher
from kinformer.testing.write import WriteOptions, Writer

__all__ = ["Api", "Call"]

MAX_STORED = 1536 * 1024  # bytes (etcd, --max-request-bytes); direct calls may store more
_PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
Object = dict[str, Any]


@dataclass(slots=True)
class Call:
    """One request on its way through."""

    request: web.BaseRequest
    params: Mapping[str, str]
    info: RequestInfo
    answer: Answer
    user: str


class Api:
    """All resources of one server."""

    def __init__(
        self,
        writer: Writer,
        deleter: Deleter,
        access: AccessControl,
        faults: Faults,
        rewind: Callable[[int, web.BaseRequest], None],
    ) -> None:
        self._ledger = writer.ledger
        self._storage = writer.ledger.storage
        self._registry = writer.ledger.registry
        self._writer = writer
        self._deleter = deleter
        self._access = access
        self._faults = faults
        self._rewind = rewind

    async def handle(self, call: Call) -> None:
        """Answers a request. A `StatusError` comes out for what fails."""
        info = call.info
        if (info.api_version, info.plural) in REVIEWS:
            await self._review(call)
            return
        resource = self._registry.serve(info.group, info.version, info.plural)
        self._check_scope(resource, info)
        if resource.namespaced and not info.namespace and info.method not in ("GET", "HEAD"):
            raise method_not_allowed()  # writes name their namespace
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
            raise bad_request("name must be provided") if info.method == "PUT" else method_not_allowed()
        elif info.method == "PUT":
            await self._update(call, resource)
        elif info.method == "PATCH":
            await self._patch(call, resource)
        else:
            raise method_not_allowed()

    def _namespace(self, resource: ResourceType, info: RequestInfo) -> str:
        return info.namespace if resource.namespaced else ""

    def _check_scope(self, resource: ResourceType, info: RequestInfo) -> None:
        inside = bool(info.namespace) and info.plural != "namespaces"
        if (inside and not resource.namespaced) or (info.name and resource.namespaced and not inside):
            if info.verb in ("list", "watch") and resource.namespaced:
                return  # a name in a field selector
            if resource.builtin:
                raise missing_resource()
            raise page_not_found()

    # -- reads ----------------------------------------------------------------------------------------------------

    async def _read(self, call: Call, resource: ResourceType) -> None:
        info = call.info
        collection = info.verb in ("list", "watch")
        watch = info.verb == "watch"
        wanted = negotiate(call.request.headers, watch=watch)
        go_list = f"{resource.group.partition('.')[0] or 'core'}.{resource.list_kind}"
        check_kind(wanted, collection=collection, watch=watch, builtin=resource.builtin, list_kind=go_list)
        view = View(resource, wanted.form)
        if watch:
            await self._watch(call, resource, view)
        elif collection:
            await self._list(call, resource, view, wanted)
        else:
            await self._get(call, resource, view, wanted)

    async def _get(self, call: Call, resource: ResourceType, view: View, wanted: Wanted) -> None:
        version = call.params.get("resourceVersion", "")
        if version:
            if not version.isdigit():
                raise bad_version(version, watch=True)
            await reach(self._storage, int(version))
        stored = self._ledger.stored(resource, self._namespace(resource, call.info), call.info.name)
        if view.form == "table":
            body = view.table([stored], {"resourceVersion": str(stored.revision)})
        else:
            body = view.whole(stored) + b"\n"
        await self._send(call, body, wanted)

    async def _send(self, call: Call, body: bytes, wanted: Wanted, status: int = 200) -> None:
        if wanted.yaml:
            await call.answer.yaml(body, status=status)
        else:
            await call.answer.raw_json(body, status=status)

    async def _list(self, call: Call, resource: ResourceType, view: View, wanted: Wanted) -> None:
        options = read_options(call.params)
        selected = Filter(resource, self._namespace(resource, call.info), options)
        collection = self._ledger.collection(resource)
        page = await read_page(self._storage, collection, selected, options)
        if view.form == "table":
            await self._send(call, view.table(page.items, page.metadata()), wanted)
        elif wanted.yaml:
            body = b"".join([piece async for piece in chunks(resource, view, page)])
            await self._send(call, body, wanted)
        else:
            await call.answer.body(chunks(resource, view, page))

    async def _watch(self, call: Call, resource: ResourceType, view: View) -> None:
        options = read_options(call.params, forced_watch=True)
        selected = Filter(resource, self._namespace(resource, call.info), options)
        collection = self._ledger.collection(resource)
        watcher = Watcher(self._storage, collection, resource, view, selected, options)
        stream = WatchStream(
            call.answer,
            watcher,
            self._faults,
            call.info,
            floor=lambda: max(collection.floor, self._storage.revision),
            rewind=lambda revisions: self._rewind(revisions, call.request),
        )
        await stream.run()

    # -- writes ---------------------------------------------------------------------------------------------------

    def _options(self, call: Call) -> WriteOptions:
        params = call.params
        agent = call.request.headers.get("User-Agent", "").partition("/")[0]
        manager = params.get("fieldManager") or agent or "unknown"
        return WriteOptions(
            manager=FieldManager(manager),
            dry_run="dryRun" in params,
            validation=params.get("fieldValidation", "Warn"),
            force=params.get("force", "").lower() in ("1", "true"),
        )

    async def _body(self, call: Call, kind: str) -> Object:
        body = await read_body(call.request)
        if len(body) > MAX_STORED:
            raise internal("etcdserver: request is too large")
        return parse_body(body, kind, call.request.headers.get("Content-Type", ""))

    async def _written(self, call: Call, resource: ResourceType, written: Written, options: WriteOptions) -> None:
        wanted = negotiate(call.request.headers)
        call.answer.warnings += options.warnings
        view = View(resource, wanted.form)
        if view.form == "table":
            body = view.table([written.stored], {"resourceVersion": str(written.stored.revision)})
        else:
            body = view.whole(written.stored) + b"\n"
        await self._send(call, body, wanted, 201 if written.created else 200)

    async def _create(self, call: Call, resource: ResourceType) -> None:
        options = self._options(call)
        body = await self._body(call, resource.kind)
        written = self._writer.create(resource, self._namespace(resource, call.info), body, options)
        await self._written(call, resource, written, options)

    async def _update(self, call: Call, resource: ResourceType) -> None:
        options, info = self._options(call), call.info
        body = await self._body(call, resource.kind)
        namespace = self._namespace(resource, info)
        written = self._writer.update(resource, namespace, info.name, body, options, subresource=info.subresource)
        await self._written(call, resource, written, options)

    async def _patch(self, call: Call, resource: ResourceType) -> None:
        options, info = self._options(call), call.info
        kind = self._patch_kind(call, resource)
        raw = await read_body(call.request)
        namespace = self._namespace(resource, info)
        if kind == "apply":
            options.manager = FieldManager(call.params.get("fieldManager", ""))
            applied = parse_yaml(raw)
            written = self._writer.apply(resource, namespace, info.name, applied, options, subresource=info.subresource)
        else:
            change = self._change(kind, parse_patch(raw), resource)
            written = self._writer.patch(resource, namespace, info.name, change, options, subresource=info.subresource)
        await self._written(call, resource, written, options)

    def _patch_kind(self, call: Call, resource: ResourceType) -> str:
        content_type = call.request.headers.get("Content-Type", "").partition(";")[0].strip()
        kind = _PATCHES.get(content_type, "")
        if kind and (resource.builtin or kind != "strategic"):
            return kind
        accepted = [name for name, one in _PATCHES.items() if resource.builtin or one != "strategic"]
        raise failure(
            415,
            "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted),
        )

    def _change(self, kind: str, patch: Any, resource: ResourceType) -> Callable[[Object], Object]:
        if kind == "json":
            return lambda obj: json_patch(obj, patch)
        if not isinstance(patch, dict):
            raise bad_request("error decoding patch: json: cannot unmarshal array into Go value of type map")
        if kind == "merge":
            return lambda obj: merge_patch(obj, patch)
        return lambda obj: strategic_patch(obj, patch, KeyedLists(resource))

    async def _delete(self, call: Call, resource: ResourceType) -> None:
        info = call.info
        if not info.name and "deletecollection" not in resource.verbs:
            raise method_not_allowed()
        raw = await read_body(call.request)
        options = _delete_options(call, parse_body(raw, "DeleteOptions", "") if raw.strip() else {})
        namespace = self._namespace(resource, info)
        if info.name:
            written = self._deleter.delete(resource, namespace, info.name, options)
            if written.status is not None:
                await call.answer.json(written.status)
            else:
                await self._written(call, resource, written, self._options(call))
            return
        selection = read_options(call.params)
        selected = Filter(resource, namespace, selection)
        page = await read_page(self._storage, self._ledger.collection(resource), selected, selection)
        for stored in page.items:
            self._deleter.delete(resource, stored.namespace, stored.name, options)
        answer = Page(page.items, page.revision)
        await call.answer.body(chunks(resource, View(resource), answer))

    # -- subresources ---------------------------------------------------------------------------------------------

    async def _subresource(self, call: Call, resource: ResourceType) -> None:
        info = call.info
        found = resource.subresource(info.subresource)
        if found is None or info.rest:
            if resource.builtin:
                raise missing_resource()
            raise page_not_found()
        verb = "get" if info.method == "GET" else info.verb
        if verb not in found.verbs:
            raise method_not_allowed()
        if found.name == "scale":
            await self._scale(call, resource)
        elif found.name == "binding":
            await self._bind(call, resource)
        elif found.name == "eviction":
            await self._evict(call, resource)
        elif info.method == "GET":
            await self._read(call, resource)
        elif info.method == "PUT":
            await self._update(call, resource)
        else:
            await self._patch(call, resource)

    async def _scale(self, call: Call, resource: ResourceType) -> None:
        info, options = call.info, self._options(call)
        namespace = self._namespace(resource, info)
        if info.method == "GET":
            await call.answer.json(read_scale(resource, self._ledger.stored(resource, namespace, info.name)))
            return
        raw = await read_body(call.request)
        if info.method == "PUT":
            scale = parse_body(raw, "Scale", "")
            written = self._writer.patch(
                resource, namespace, info.name, lambda obj: with_scale(resource, obj, scale), options,
                subresource="scale",
            )  # fmt: skip
        else:
            kind = self._patch_kind(call, resource)
            if kind == "apply":
                kind, patch = "merge", parse_yaml(raw)
            else:
                patch = parse_patch(raw)
            change = self._change("merge" if kind == "strategic" else kind, patch, resource)
            written = self._writer.patch(
                resource, namespace, info.name,
                lambda obj: with_scale(resource, obj, change(scale_of(resource, obj))), options,
                subresource="scale",
            )  # fmt: skip
        await call.answer.json(scale_of(resource, decode_stored(resource, written.stored)))

    async def _bind(self, call: Call, resource: ResourceType) -> None:
        body = await self._body(call, "Binding")
        bind(self._writer, resource, call.info.namespace, call.info.name, body, self._options(call))
        await call.answer.json(success(code=201), status=201)

    async def _evict(self, call: Call, resource: ResourceType) -> None:
        body = await self._body(call, "Eviction")
        options = _delete_options(call, body.get("deleteOptions") or {})
        self._deleter.delete(resource, call.info.namespace, call.info.name, options)
        await call.answer.json(success(code=201), status=201)

    async def _review(self, call: Call) -> None:
        if call.info.method != "POST":
            raise method_not_allowed()
        body = await self._body(call, REVIEWS[call.info.api_version, call.info.plural])
        answer = review(self._access, call.user, call.info, body, self._options(call).manager, self._ledger.timestamp())
        await call.answer.json(answer, status=201)


def _delete_options(call: Call, body: Object) -> DeleteOptions:
    params = call.params
    grace = body.get("gracePeriodSeconds")
    if grace is None and "gracePeriodSeconds" in params:
        if not params["gracePeriodSeconds"].isdigit():
            raise bad_request(f'strconv.ParseInt: parsing "{params["gracePeriodSeconds"]}": invalid syntax')
        grace = int(params["gracePeriodSeconds"])
    conditions = body.get("preconditions") or {}
    return DeleteOptions(
        grace=grace,
        uid=conditions.get("uid", ""),
        resource_version=conditions.get("resourceVersion", ""),
        propagation=body.get("propagationPolicy") or params.get("propagationPolicy", ""),
        dry_run=bool(body.get("dryRun")) or "dryRun" in params,
    )
