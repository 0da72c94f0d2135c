"""A source of objects on HTTP: lists and watches one resource, in all namespaces or one."""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from anyio import CapacityLimiter

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.signatures import check_callback
from kinformer.client.body import Body
from kinformer.client.client import Client
from kinformer.client.discovery import KubeSystemProbe, lacking_resource, nearest_resource, presence
from kinformer.exceptions import APIError, ConfigError, DecodeError, NotFoundError, SelectorError, WatchError
from kinformer.list_watcher import (
    Capabilities,
    ListOptions,
    ListPage,
    PageHeader,
    ReadBack,
    ServerTip,
    WatchEvent,
    find_capabilities,
)
from kinformer.listwatch.pages import HTTPPageItems
from kinformer.objects.meta import GroupVersionResource
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.objects.selectors import FieldSelector, LabelSelector
from kinformer.wire.decoder import EntryDecoder, PoisonObjectError
from kinformer.wire.lines import MAX_EVENT_BYTES, LineFramer
from kinformer.wire.list_header import ListHeader
from kinformer.wire.list_parser import MAX_LIST_BYTES, ListSplitter

__all__ = ["IngestStats", "ListWatch"]

log = get_logger("kinformer.list_watch")

_SLICE = 64 * 1024  # bytes of a LIST that are decoded in one go: a fifth of a millisecond
_LINES = 16  # events that are decoded between two looks at the clock
_CLUSTER_TTL = 1.0  # seconds: informers that reconnect together ask once
_ALL_SENT = "%s: the server seems to ignore the shard selector, and to send all objects"
_HINT_TIMEOUT = 5.0  # seconds that a 404 waits for a hint

# Fields of pods that servers select by, and that compare as "" if they are not set.
_EMPTY_IF_ABSENT = frozenset((("Pod", "spec.nodeName"), ("Pod", "status.nominatedNodeName"), ("Pod", "status.podIP")))

_AS_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1,application/json"
# Understood by servers from 1.38 on (ManagedFieldsOptOut); older ones, and proxies, ignore the parameter, and a server
# that refuses it has the next clause.
_DROP = ";drop=metadata.managedFields"


@dataclass(slots=True)
class IngestStats:
    """Counts of a source: `bytes` of bodies, and objects that were left out because they could not be decoded."""

    bytes: int = 0
    decode_errors: int = 0


class ListWatch:
    """A `ListerWatcher` and `ServerProbe` on a client (client-go, tools/cache/listwatch.go).

    Usable any number of times, also at once. Every request is made as it is asked for: no retry, no backoff, no
    time limit but the client's for the head of an answer; all that is a reflector's affair.

    Args:
        client: Where to; entered before the first request.
        resource: `"v1/pods"`, `"apps/v1/deployments"`, or a GroupVersionResource.
        namespace: One; None is all of them, and is for cluster-scoped resources too.
        label_selector, field_selector, shard_selector: Filters that the server applies.
        tweak_list_options: Takes the options of each request and returns those to send; sees the selectors.
        metadata_only: Asks for PartialObjectMetadata, which is also the `kind` of the objects.
        fields: JSON paths; the rest of each object is dropped.
        keep_managed_fields: False, because they are a third of many objects and hardly ever read.
        max_event_bytes: Bytes of one event or item, above which the stream fails; 16 MiB as in client-go.
        max_list_bytes: Bytes of one answer to a LIST, above which it fails; 16 GiB, which no API server sends in the
            60 s that it gives a request. A program with less memory may want less.

    Raises:
        ConfigError: `resource` or a path of `fields` does not parse.

    Attributes:
        stats: Counts, since the beginning.
        decodes: True, except in a subclass with a `list` or `watch` of its own.
        name: `"v1/pods in default"`.
    """

    def __init__(
        self,
        client: Client,
        resource: str | GroupVersionResource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        shard_selector: str | None = None,
        tweak_list_options: Callable[[ListOptions], ListOptions] | None = None,
        metadata_only: bool = False,
        fields: Sequence[str] | None = None,
        keep_managed_fields: bool = False,
        max_event_bytes: int = MAX_EVENT_BYTES,
        max_list_bytes: int = MAX_LIST_BYTES,
    ) -> None:
        self.client = client
        self.resource = GroupVersionResource.parse(resource)
        self.namespace = namespace or None
        self.stats = IngestStats()
        own = type(self)  # a subclass may give other objects
        self.decodes = own.list is ListWatch.list and own.watch is ListWatch.watch
        self.name = f"{self.resource} in {namespace}" if namespace else str(self.resource)
        self._path = self.resource.path(self.namespace)
        self._selectors = {
            name: value
            for name, value in (
                ("label_selector", label_selector),
                ("field_selector", field_selector),
                ("shard_selector", shard_selector),
            )
            if value
        }
        if tweak_list_options is not None:
            check_callback(tweak_list_options, "tweak_list_options", "options", f"ListWatch {self.name}", plain=True)
        self._tweak = tweak_list_options
        form = _AS_METADATA if metadata_only else "application/json"
        self._accept = form if keep_managed_fields else f"{form.partition(',')[0]}{_DROP},{form}"
        self._max_event_bytes = max_event_bytes
        self._max_list_bytes = max_list_bytes
        self._decoder = EntryDecoder(keep_managed_fields=keep_managed_fields, fields=fields)
        self._told = LogOnce()
        self._kind = ""  # of the objects so far; "" before
        self._form = {
            "accept": form,
            "fields": repr(fields and sorted(fields)),
            "managed_fields": repr(keep_managed_fields),
        }

    def __repr__(self) -> str:
        return f"<ListWatch {self.name}>"

    @cached_property
    def capabilities(self) -> Capabilities:
        """Its optional abilities, found once."""
        return find_capabilities(self)

    @property
    def handler_limiter(self) -> CapacityLimiter:
        """The client's limiter of worker threads, for handlers with `thread=True`."""
        return self.client.handler_limiter

    async def list(self, options: ListOptions) -> ListPage:
        """List one page; returns with the head of the answer, and `items` come as their bytes arrive.

        `items` gives a list for each piece that arrived, also where no item was complete with it: an empty one says
        that the server lives. The page's resourceVersion and continue token are there after the last. Iterating to
        the end, being cancelled, and an error close the stream; a reader that stops before that calls `items.aclose()`.

        Raises:
            APIError, ConnectError: As `Client.stream`; a 404 names the nearest resource that the server has.
            ConnectError, DecodeError: (from `items`) the body broke off, or is not a list. A list cut short is an
                error, never a short list.
        """
        sent = self._options(options)
        try:
            async with AsyncExitStack() as stack:
                body = await stack.enter_async_context(
                    self.client.stream(self._path, sent.params(), accept=self._accept.replace("{}", "List"))
                )
                header = PageHeader()
                return ListPage(HTTPPageItems(stack.pop_all(), self._items(body, header, sent)), header=header)
        except NotFoundError as error:
            raise await self._with_hint(error) from None

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[builtins.list[WatchEvent]]]:
        """Open a stream of lists of events, one for each chunk that arrived, even if the chunk completed none.

        Ends when the server ends it or the connection is cut. An event that had not arrived completely is dropped; it
        comes again from the last resourceVersion on. An object that cannot be decoded is left out, counted and logged
        once; the stream has a DELETED of its key and resourceVersion instead, so that an older state of it goes
        (a BOOKMARK if its name cannot be read either). The events before an error are given first.

        Raises:
            APIError, ConnectError: (on entering) as `Client.stream`; a 404 of an initial stream is as that of `list`.
            APIError: (from the stream) an ERROR event; `ExpiredError` for a 410.
            WatchError, DecodeError: (from the stream) what came is not a watch, or of another kind, or cannot be read.
        """
        params = {**self._options(options).params(), "watch": "true"}
        if options.send_initial_events:
            self._kind = ""
        async with AsyncExitStack() as stack:
            stream = self.client.stream(self._path, params, accept=self._accept.replace("{}", ""), watch=True)
            try:
                body = await stack.enter_async_context(stream)
            except NotFoundError as error:
                if not options.send_initial_events:
                    raise
                raise await self._with_hint(error) from None
            yield await stack.enter_async_context(aclosing(self._events(body)))

    async def tip(self) -> ServerTip:
        """Ask for the server's current version, and its cluster: the uid of kube-system, None if that is hidden.

        By a LIST of one item, without selectors and resourceVersion, which a server answers from etcd. Shared by all
        ListWatches of a client that ask for the resource and namespace at the same time; an answer of before is not
        used again, because a server may have been restored since.

        Raises:
            APIError, ConnectError, DecodeError: It cannot be had.
        """
        client, path = self.client, self._path
        version = await client._shared(("tip", path), lambda: _resource_version(client, path), ttl=0.0)
        return ServerTip(version, await self.cluster())

    async def cluster(self) -> str | None:
        """Ask for the cluster, as in `tip`, without the LIST. Shared by all ListWatches of a client, for 1 s.

        Raises:
            APIError, ConnectError, DecodeError: It cannot be had.
        """
        # Only the first probe is kept, which remembers for all that it may not ask.
        uid: str | None = await self.client._shared("cluster", KubeSystemProbe(self.client).uid, ttl=_CLUSTER_TTL)
        return uid

    async def presence(self) -> bool | None:
        """True if discovery serves the resource, False if not, None if the answer is missing or cannot be trusted."""
        return await presence(self.client, self.resource)

    async def nearest(self) -> str | None:
        """Return the name of the served resource that comes nearest to this one; None if none does."""
        return await nearest_resource(self.client, self.resource)

    @property
    def contents(self) -> Mapping[str, str]:
        """A description of the objects and their form: equal for sources that give the same."""
        query = urlencode(sorted(self._options(ListOptions()).params().items()))
        where = {"resource": str(self.resource), "namespace": self.namespace or ""}
        return {**where, "query": query, **self._form}

    def keep(self, obj: KubeObject) -> KubeObject:
        """Convert an object of an earlier time into the form in which this source gives objects."""
        return self._decoder.keep(obj)

    def read_paths(self, paths: Iterable[str]) -> None:
        """Read the values of these paths with each object from now on, as the index of a cache asks for.

        Raises:
            ConfigError: A path does not parse.
        """
        self._decoder.read_paths(paths)

    @property
    def selects_all(self) -> bool:
        """True if the requests have no selector, so that no object is left out."""
        params = self._options(ListOptions()).params()
        return not any(params.get(name) for name in ("labelSelector", "fieldSelector", "shardSelector"))

    def selects(self, obj: KubeObject) -> bool:
        """True if the object, as a server has just answered it, may be among those of this source.

        False is certain: it is in another namespace, or a selector leaves it out. If a field is not in the object, only
        the server knows its value for comparisons, except for those of `_EMPTY_IF_ABSENT`.
        """
        if self.namespace and obj.namespace != self.namespace:
            return False
        params = self._options(ListOptions()).params()
        try:
            if not LabelSelector.parse(params.get("labelSelector")).matches(obj.labels):
                return False
            requirements = FieldSelector.parse(params.get("fieldSelector")).requirements
            return all(_may_meet(obj, *requirement) for requirement in requirements)
        except (SelectorError, ConfigError, DecodeError):  # the server's to judge
            return True

    async def read_back(self, namespace: str, name: str) -> ReadBack:
        """Read the metadata of one object as etcd has it now; None if it does not exist or is no longer selected.

        By a LIST of that one name, which costs a server no more than a GET, and needs no other permission than the
        informer has.

        Raises:
            APIError, ConnectError, DecodeError: It cannot be had.
        """
        own = self._options(ListOptions())
        escaped = name.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")  # apimachinery, pkg/fields
        selector = ",".join(part for part in (own.field_selector, f"metadata.name={escaped}") if part)
        path = self.resource.path(self.namespace or namespace)
        headers = {"Accept": _AS_METADATA.replace("{}", "List")}
        answer = await self.client.request(
            "GET", path, params=own.replace(field_selector=selector).params(), headers=headers, retries=0
        )
        found = answer.get("items") or []
        return ReadBack(KubeObject.from_dict(found[0]) if found else None, _version_of(answer, path))

    def _options(self, options: ListOptions) -> ListOptions:
        merged = options.replace(**self._selectors) if self._selectors else options
        return self._tweak(merged) if self._tweak else merged

    async def _with_hint(self, error: NotFoundError) -> NotFoundError:
        try:
            async with asyncio.timeout(_HINT_TIMEOUT):
                nearest = await lacking_resource(self.client, self.resource)
        except TimeoutError:
            return error
        if nearest is None:
            return error
        hint = f", the nearest is {nearest}" if nearest else ""
        message = f"{error.message or 'not found'}: the server has no {self.resource}{hint}"
        told = NotFoundError(error.status, error.reason, message, error.retry_after, error.details)
        told.nearest = nearest
        return told

    async def _items(
        self, body: Body, header: PageHeader, options: ListOptions
    ) -> AsyncGenerator[builtins.list[KubeObject], None]:
        splitter = ListSplitter(
            self._item,
            decode_many=self._decoder.items,
            max_item_bytes=self._max_event_bytes,
            max_list_bytes=self._max_list_bytes,
        )
        budget = YieldBudget()
        body.expect_json(budget, DecodeError)
        while chunk := await body.read():
            self.stats.bytes += len(chunk)
            view = memoryview(chunk)
            items: builtins.list[KubeObject] = []
            for start in range(0, len(chunk), _SLICE):
                items += splitter.feed(view[start : start + _SLICE])
                if budget.exhausted():
                    await budget.pause()
            if items:
                self._kind = items[-1].kind
            yield items
        found = splitter.close()
        if options.shard_selector:
            self._check_shards(found, typed=bool(splitter.kind))
        header.resource_version, header.continue_token = found.resource_version, found.continue_token

    def _item(self, raw: bytes, api_version: str, kind: str) -> KubeObject | None:
        try:
            return self._decoder.item(raw, api_version, kind)
        except PoisonObjectError as error:
            self._count_poison(error)
            return None

    async def _events(self, body: Body) -> AsyncGenerator[builtins.list[WatchEvent], None]:
        framer = LineFramer(self._max_event_bytes)
        budget = YieldBudget()
        body.expect_json(budget, WatchError)
        decoder = self._decoder
        while chunk := await body.read():
            self.stats.bytes += len(chunk)
            events: builtins.list[WatchEvent] = []
            try:
                for lines in framer.feed(chunk):
                    count, before = len(lines.ends), 0
                    while before < count:
                        decoder.fast.read(lines, _LINES, events)
                        if lines.read < count:
                            if lines.read - before < _LINES and (line := lines.take()):
                                events.append(self._event(line))
                            if budget.exhausted():
                                await budget.pause()
                        before = lines.read
            except (APIError, DecodeError, WatchError):
                if events:
                    yield events
                raise
            yield events
        if framer.pending:
            log.debug("%s: a watch ended within a line", self.name, resource=self.name, reason="fragment")

    def _event(self, line: bytes) -> WatchEvent:
        try:
            event = self._decoder.event(line)
        except PoisonObjectError as error:
            if not error.resource_version:
                self.stats.decode_errors += 1
                raise WatchError(f"{self.name}: an event whose resourceVersion cannot be read: {error}") from error
            self._count_poison(error)
            return WatchEvent(
                "DELETED" if error.key else "BOOKMARK", UndecodableObject.of(error.key, error.resource_version)
            )
        obj = event.object
        if obj.kind is not self._kind and obj.key:  # kinds are interned
            self._meet_kind(obj)
        return event

    def _meet_kind(self, obj: KubeObject) -> None:
        """The first object of a kind says what the others are to be; the next list may say something else."""
        expected, self._kind = self._kind, obj.kind
        if expected:
            self._kind = ""
            raise WatchError(f"{self.name}: {obj!r} came in a watch of the kind {expected}")

    def _count_poison(self, error: PoisonObjectError) -> None:
        self.stats.decode_errors += 1
        key = error.key or "(an object without a name)"
        if not self._told.is_news(key):
            return
        text = "%s: %s cannot be decoded and is left out: %s"  # its cause: its own text quotes the object
        log.error(text, self.name, key, error.__cause__, resource=self.name, key=error.key, reason="decode_error")

    def _check_shards(self, header: ListHeader, *, typed: bool) -> None:
        # Servers that do not know the parameter ignore it, and send everything; those that do, say so in the lists
        # of built-in types, which put kind before the items. Lists of custom resources never tell.
        if typed and not header.shard_info and self._told.is_news("", "shards_ignored"):
            log.warning(_ALL_SENT, self.name, resource=self.name, reason="shards_ignored")


def _may_meet(obj: KubeObject, field: str, operator: str, value: str) -> bool:
    """False if the object certainly does not meet this condition of a field selector."""
    empty = "" if (obj.kind, field) in _EMPTY_IF_ABSENT else None
    found = {"metadata.name": obj.name, "metadata.namespace": obj.namespace}.get(field) or obj.path(field, empty)
    return not isinstance(found, str) or (found == value) == (operator == "=")


async def _resource_version(client: Client, path: str) -> str:
    headers = {"Accept": _AS_METADATA.replace("{}", "List")}
    answer = await client.request("GET", path, params={"limit": "1"}, headers=headers, retries=0)
    return _version_of(answer, path)


def _version_of(answer: Mapping[str, Any], path: str) -> str:
    metadata: Any = answer.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    if not isinstance(version, str) or not version:
        raise DecodeError(f"GET {path}: a list without a resourceVersion")
    return version
