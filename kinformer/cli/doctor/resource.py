"""The steps of `kinformer doctor` for one resource: discovery, rights, list, watch, WatchList and shards."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import Any

from kinformer import (
    APIError,
    Client,
    ConfigError,
    ConnectError,
    ForbiddenError,
    KinformerError,
    KubeObject,
    ListOptions,
    ListPage,
    ListWatch,
)
from kinformer.cli.doctor.findings import DENIED, NO_RESOURCE, UNREACHED, Report, status_of
from kinformer.cli.doctor.rbac import grant
from kinformer.cli.output.amounts import count, seconds, size
from kinformer.cli.output.errors import one_line
from kinformer.cli.rights import may
from kinformer.cli.target import ObjectSelection
from kinformer.client import APIResource, discover
from kinformer.exceptions import BadRequestError, DecodeError, InvalidError
from kinformer.objects.accessors import ends_initial_events

__all__ = [
    "Place",
    "Sample",
    "check_discovery",
    "check_list",
    "check_rights",
    "check_shards",
    "check_watch",
    "read_page",
]

_SAMPLE = 500  # objects per page, as in an informer
_BOOKMARK = 5.0  # seconds until an initial stream without objects ends, which takes a server a tenth of a second
_NOBODY = "kinformer-doctor-asks-for-no-object"
_HALF = "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')"
_NAMESPACES = APIResource(group="", version="v1", name="namespaces", kind="Namespace", namespaced=False)


@dataclass(frozen=True, slots=True)
class Place:
    """The objects to check: a resource, a namespace (None for all) and selectors, with the requesting user."""

    resource: APIResource
    namespace: str | None
    selection: ObjectSelection
    user: str

    @property
    def where(self) -> str:
        """The namespace in words."""
        if not self.resource.namespaced:
            return ""
        return f" in namespace {self.namespace}" if self.namespace else " in all namespaces"

    def source(self, client: Client, **options: Any) -> ListWatch:
        """Return a source that lists and watches the objects as an informer does."""
        chosen = {"label_selector": self.selection.label_selector, "field_selector": self.selection.field_selector}
        return ListWatch(client, self.resource.gvr, namespace=self.namespace, **{**chosen, **options})

    def remedy(self) -> str:
        """Return the advice for a missing right."""
        yaml = grant(self.resource, ("list", "watch"), self.namespace, self.user)
        return f"an administrator can grant it (kubectl apply -f):\n{yaml}"


@dataclass(frozen=True, slots=True)
class Sample:
    """A first page of objects.

    Attributes:
        objects: The objects, at most 500.
        seconds: The time for the page, including decoding.
        received: Bytes on the wire, including managedFields.
        total: The number of all objects, or None if there are too many to count. With a selector, the server does not
            count them.
        resource_version: The resourceVersion of the page.
    """

    objects: list[KubeObject]
    seconds: float
    received: int
    total: int | None
    resource_version: str


async def read_page(source: ListWatch, options: ListOptions) -> tuple[ListPage, list[KubeObject]]:
    """Return one page of a list, and its objects.

    Raises:
        APIError, ConnectError, DecodeError: As `ListWatch.list`.
    """
    page = await source.list(options)
    assert isinstance(page.items, AsyncIterable)  # true of every ListWatch
    return page, [obj async for some in page.items for obj in some]


async def check_discovery(report: Report, client: Client, name: str | None) -> APIResource | None:
    """Check that the server has the resource with list, and watch. Without a name, count resources with both."""
    try:
        resources = await discover(client)
        if not name:
            able = [served for served in resources if {"list", "watch"} <= set(served.verbs)]
            message = f"{count(len(resources), 'resource')}; {len(able):,} can be listed and watched"
            report.ok("resource", message, "name one to check it: kinformer doctor pods", resources=len(resources))
            return None
        resource = resources.find(name)
    except ConfigError as error:
        hint = "check that its CustomResourceDefinition is installed: `kinformer watch crd --once` lists them"
        report.stop("resource", one_line(error), hint, status=NO_RESOURCE)
    except (APIError, ConnectError, DecodeError) as error:
        report.stop("resource", f"discovery failed: {one_line(error)}", status=status_of(error))
    scope = "namespaced" if resource.namespaced else "cluster-scoped"
    facts = {
        "resource": str(resource),
        "kind": resource.kind,
        "namespaced": resource.namespaced,
        "short_names": list(resource.short_names),
        "verbs": list(resource.verbs),
    }
    if lacking := [verb for verb in ("list", "watch") if verb not in resource.verbs]:
        message = f"{resource} ({resource.kind}) has no {' and no '.join(lacking)}, only {', '.join(resource.verbs)}"
        if "list" in lacking:
            advice = "no informer can follow it: read it with client.request when needed"
            report.stop("resource", message, advice, status=NO_RESOURCE, **facts)
        report.warn("resource", message, "an informer with poll=30 lists it every 30 s", **facts)
        return resource
    short = f", short {', '.join(resource.short_names)}" if resource.short_names else ""
    report.ok("resource", f"{resource} ({resource.kind}, {scope}{short})", **facts)
    return resource


async def check_rights(report: Report, client: Client, place: Place, own_namespace: str) -> None:
    """Check that RBAC allows list and, if the resource can be watched, watch, by asking the server."""
    verbs = [verb for verb in ("list", "watch") if verb in place.resource.verbs]
    has: dict[str, bool]
    try:
        has = {verb: await may(client, verb, place.resource, place.namespace, retries=0) for verb in verbs}
        knows = await may(client, "get", _NAMESPACES, None, "kube-system", retries=0)
        elsewhere = place.resource.namespaced and place.namespace is None and not all(has.values())
        there = elsewhere and all([await may(client, verb, place.resource, own_namespace, retries=0) for verb in verbs])
    except (APIError, ConnectError, DecodeError) as error:
        report.warn("rights", f"the server does not report the rights: {one_line(error)}", "the next steps show it")
        return
    lacking = [verb for verb, allowed in has.items() if not allowed]
    facts = {**has, "get_kube_system": knows}
    if not lacking:
        message = f"{' and '.join(verbs)} {place.resource.name}{place.where}"
        hint = "with `get` of the namespace kube-system too, an informer can notice that the cluster was replaced"
        report.ok("rights", message, *([] if knows else [hint]), **facts)
        return
    advice = [place.remedy()]
    if there:
        advice.insert(0, f"in namespace {own_namespace} you may: -n {own_namespace}, or namespace={own_namespace!r}")
    message = f"no right to {' and '.join(lacking)} {place.resource.name}{place.where}"
    if lacking == ["watch"]:
        message += ", without which an informer needs poll=30"
    report.fail("rights", message, *advice, status=DENIED, **facts)


async def check_list(report: Report, client: Client, place: Place, timeout: float) -> Sample:
    """Check that a first page can be listed."""
    source = place.source(client)
    began = time.perf_counter()
    try:
        async with asyncio.timeout(timeout):
            page, objects = await read_page(source, ListOptions(limit=_SAMPLE))
        took = time.perf_counter() - began
        total = await _total(client, place, timeout) if page.continue_token else len(objects)
    except TimeoutError:
        message = f"a page of {_SAMPLE} was not complete within {seconds(timeout)}"
        report.stop("list", message, "the server or the network is slow: --timeout allows more time", status=UNREACHED)
    except (APIError, ConnectError, DecodeError) as error:
        report.stop("list", one_line(error), *_advice(report, error, place), status=status_of(error))
    if total is None:
        there = f"more than {count(len(objects), 'object')} (too many to count in time)"
    else:
        there = count(total, "object") if total else "no objects"
    page_of = f"{len(objects):,} of them, " if total != len(objects) else ""
    message = f"{there}{place.where}; {page_of}{size(source.stats.bytes)} received in {seconds(took)}"
    facts = {"seconds": round(took, 4), "bytes": source.stats.bytes, "page": len(objects), "total": total}
    if source.stats.decode_errors:
        left_out = count(source.stats.decode_errors, "object")
        report.warn(
            "list", f"{message}; {left_out} cannot be read", "an informer skips them, and logs their names", **facts
        )
    else:
        report.ok("list", message, **facts)
    return Sample(objects, took, source.stats.bytes, total, page.resource_version)


async def _total(client: Client, place: Place, timeout: float) -> int | None:
    """Return the server's count of objects, or count them. Returns None if that takes too long."""
    params = ListOptions(
        limit=1, label_selector=place.selection.label_selector, field_selector=place.selection.field_selector
    ).params()
    path = place.resource.gvr.path(place.namespace)
    response: Any = await client.request("GET", path, params=params, timeout=timeout, retries=0)
    left = (response.get("metadata") or {}).get("remainingItemCount")
    if isinstance(left, int):
        return left + 1
    try:
        async with asyncio.timeout(timeout):
            return await _counted(place.source(client, metadata_only=True))
    except (TimeoutError, APIError, ConnectError, DecodeError):
        return None


async def _counted(source: ListWatch) -> int:
    """Count the objects page by page, using only their metadata, which is cheap."""
    total, options = 0, ListOptions(limit=_SAMPLE)
    while True:
        page, objects = await read_page(source, options)
        total += len(objects)
        if not page.continue_token:
            return total
        options = options.replace(continue_token=page.continue_token)


def _advice(report: Report, error: BaseException, place: Place) -> list[str]:
    selection = place.selection
    if isinstance(error, ForbiddenError):
        return [] if report.failed("rights") else [place.remedy()]
    if isinstance(error, BadRequestError) and (selection.field_selector or selection.label_selector):
        return [f"the server does not accept{selection.in_words()}: only few fields can be selected"]
    return []


async def check_watch(report: Report, client: Client, place: Place, sample: Sample, timeout: float) -> None:
    """Check that a watch can be opened, and whether it can begin with the list (WatchList)."""
    if "watch" not in place.resource.verbs:
        for step in ("watch", "watch list"):
            report.skip(step, "the resource cannot be watched")
        return
    began = time.perf_counter()
    options = ListOptions(resource_version=sample.resource_version, allow_watch_bookmarks=True, timeout_seconds=60)
    try:
        async with asyncio.timeout(timeout), place.source(client).watch(options):
            took = time.perf_counter() - began
    except TimeoutError:
        message = f"no response to a watch within {seconds(timeout)}"
        hint = "check whether a proxy buffers responses until they are complete"
        report.stop("watch", message, hint, status=UNREACHED)
    except (APIError, ConnectError, DecodeError) as error:
        report.stop("watch", one_line(error), *_advice(report, error, place), status=status_of(error))
    report.ok("watch", f"opened in {seconds(took)}", seconds=round(took, 4))
    await _check_watch_list(report, client, place)


async def _check_watch_list(report: Report, client: Client, place: Place) -> None:
    # Select a name that no object has, so that only the end of the initial stream is sent.
    fields = ",".join(filter(None, (place.selection.field_selector, f"metadata.name={_NOBODY}")))
    options = ListOptions(
        send_initial_events=True,
        resource_version_match="NotOlderThan",
        allow_watch_bookmarks=True,
        timeout_seconds=round(_BOOKMARK) + 1,
    )
    why = "it does not end its initial stream"
    began = time.perf_counter()
    try:
        async with (
            asyncio.timeout(_BOOKMARK),
            place.source(client, field_selector=fields).watch(options) as events,
        ):
            async for some in events:
                if any(kind == "BOOKMARK" and ends_initial_events(obj) for kind, obj in some):
                    took = time.perf_counter() - began
                    message = f"supported, {seconds(took)}: the first list is a stream"
                    report.ok("watch list", message, supported=True, seconds=round(took, 4))
                    return
    except TimeoutError:
        why = f"no end of its initial stream within {_BOOKMARK:g} s"
    except (InvalidError, BadRequestError):
        why = "the server refuses it"
    except KinformerError as error:
        report.warn("watch list", f"not known: {one_line(error)}", "informers list if it fails", supported=None)
        return
    report.ok("watch list", f"not supported, {why}: informers list instead", supported=False)


async def check_shards(report: Report, client: Client, place: Place, timeout: float) -> None:
    """Check whether the server can divide a list into shards."""
    params = {"limit": "1", "shardSelector": _HALF}
    try:
        response: Any = await client.request(
            "GET", place.resource.gvr.path(place.namespace), params=params, timeout=timeout, retries=0
        )
    except (APIError, ConnectError, DecodeError) as error:
        report.ok("shards", f"not supported, {one_line(error)}", supported=False)
        return
    supported = bool((response.get("metadata") or {}).get("shardInfo"))
    if supported:
        report.ok("shards", "supported: an informer with shard= receives only its part", supported=True)
    else:
        message = "not supported (ShardedListAndWatch, alpha in 1.36): an informer with shard= receives all objects"
        report.ok("shards", message, supported=False)
