"""A source of objects over HTTP: lists and watches one resource, in all namespaces or one."""

from __future__ import annotations

import builtins
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from urllib.parse import urlencode

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.signatures import check_callback
from kinformer.connection.body import Body
from kinformer.connection.connection import Connection
from kinformer.connection.discovery import KubeSystemProbe
from kinformer.exceptions import APIError, DecodeError, NotFoundError, ScopeError, WatchError
from kinformer.kinds.builtin import DefaultNamespace, builtin_kind, is_namespaced, wrong_scope
from kinformer.list_watcher import (
    Events,
    ListOptions,
    ListPage,
    MetadataList,
    PageHeader,
    ReadBack,
    ServerTip,
    Source,
    WatchEvent,
)
from kinformer.listwatch.events import Arrivals, HTTPEvents, IngestStats
from kinformer.listwatch.head_limit import LONG_HEAD_TIMEOUT, HeadLimit
from kinformer.listwatch.pages import HTTPPageItems
from kinformer.listwatch.part import Part, in_slices, selector_of
from kinformer.listwatch.presence import explained, presence
from kinformer.listwatch.probes import (
    AS_METADATA,
    check_existence,
    kind_now,
    list_metadata,
    newest_version,
)
from kinformer.listwatch.selecting import selects
from kinformer.objects.meta import GroupVersionResource, check_namespace
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.wire.decoder import EntryDecoder, PoisonObjectError
from kinformer.wire.expected_type import ExpectedType, ForeignTypeError
from kinformer.wire.lines import MAX_EVENT_BYTES, LineFramer
from kinformer.wire.list_header import ListHeader
from kinformer.wire.list_parser import MAX_LIST_BYTES, ListSplitter

__all__ = ["IngestStats", "ListWatch"]

log = get_logger("kinformer.list_watch")

_HEAD_TIMEOUT = LONG_HEAD_TIMEOUT + 5.0  # seconds for a caller without a limit of its own
_SLICE = 64 * 1024  # bytes of a LIST decoded at once, which takes a fifth of a millisecond
_LINES = 16  # events decoded between two checks of the clock
_ALL_SENT = "%s: the server seems to ignore the shard selector and send all objects"
_NO_SCOPE = "%s has no namespaces: the default %r does not apply"
_SELECTORS = ("labelSelector", "fieldSelector", "shardSelector")

# Supported by servers since 1.38 (ManagedFieldsOptOut). Older servers and proxies ignore the parameter, and a server
# that refuses it uses the next clause.
_DROP = ";drop=metadata.managedFields"


class ListWatch(Source):
    """A `Source` on a client (client-go, tools/cache/listwatch.go).

    It can be used any number of times, even concurrently. It adds no retries, backoff or time limits, except 70 s for
    the head of a LIST and 30 s for that of a watch. All that is up to the reflector.

    Args:
        client: The client, which must be entered before the first request.
        resource: `"v1/pods"`, `"apps/v1/deployments"`, or a GroupVersionResource.
        namespace: The namespace, or None for all namespaces and for cluster-scoped resources.
        label_selector, field_selector, shard_selector: Filters that the server applies.
        part: A `kinformer.sharding.Shard`. All other objects are left out, even if the server does not filter.
        tweak_list_options: Takes the options of each request, including selectors, and returns the options to send.
        metadata_only: Request PartialObjectMetadata, which is then also the `kind` of the objects.
        fields: JSON paths to keep. The rest of each object is dropped.
        keep_managed_fields: Keep managedFields. False by default, because they are a third of many objects and rarely
            used.
        max_event_bytes: The maximum size of an event or item, above which the stream fails. 16 MiB, as in client-go.
        max_list_bytes: The maximum size of a LIST response, above which it fails. 16 GiB, which no API server sends
            within its limit of 60 s per request. Set a smaller value if memory is limited.

    Raises:
        ConfigError: `resource`, `namespace`, `part` or a path in `fields` is invalid, or a built-in resource has no
            namespaces.

    Attributes:
        stats: The counts so far.
        decodes: True, except in a subclass that overrides `list` or `watch`.
        name: `"v1/pods in default"`.
    """

    client: Connection
    stats: IngestStats
    head_limit: HeadLimit
    sends_bookmarks = True

    def __init__(
        self,
        client: Connection,
        resource: str | GroupVersionResource,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        shard_selector: str | None = None,
        part: Part | None = None,
        tweak_list_options: Callable[[ListOptions], ListOptions] | None = None,
        metadata_only: bool = False,
        fields: Sequence[str] | None = None,
        keep_managed_fields: bool = False,
        max_event_bytes: int = MAX_EVENT_BYTES,
        max_list_bytes: int = MAX_LIST_BYTES,
    ) -> None:
        # Three that are narrower than in Source, which is sound because nothing sets them from outside.
        self.client = client  # pyright: ignore[reportIncompatibleVariableOverride]
        self.resource = GroupVersionResource.parse(resource)
        self.stats = IngestStats()  # pyright: ignore[reportIncompatibleVariableOverride]
        self.head_limit = HeadLimit()  # pyright: ignore[reportIncompatibleVariableOverride]
        self.handler_limiter = client.handler_limiter
        # A subclass may return other objects.
        self.decodes = (type(self).list, type(self).watch) == (ListWatch.list, ListWatch.watch)
        shards = selector_of(part, shard_selector, str(self.resource))
        selectors = {"label_selector": label_selector, "field_selector": field_selector, "shard_selector": shards}
        self._selectors = {name: value for name, value in selectors.items() if value}
        if tweak_list_options is not None:
            check_callback(tweak_list_options, "tweak_list_options", "options", f"ListWatch {self.name}", plain=True)
        self._tweak, self._part = tweak_list_options, part
        form = AS_METADATA if metadata_only else "application/json"
        self._accept = form if keep_managed_fields else f"{form.partition(',')[0]}{_DROP},{form}"
        self._max_event_bytes = max_event_bytes
        self._max_list_bytes = max_list_bytes
        self._expected = ExpectedType(
            self.resource.api_version, builtin_kind(self.resource), metadata_only=metadata_only
        )
        if namespace and is_namespaced(self.resource) is False:
            raise wrong_scope(self.resource, namespace)
        self._ask_in(check_namespace(namespace, self.resource) if namespace else None)
        self._decoder = EntryDecoder(keep_managed_fields=keep_managed_fields, fields=fields, expected=self._expected)
        self._told = LogOnce()
        self._form = {
            "accept": form,
            "fields": repr(fields and sorted(fields)),
            "managed_fields": repr(keep_managed_fields),
            **({} if part is None else {"part": part.name}),
        }

    def __repr__(self) -> str:
        return f"<ListWatch {self.name}>"

    def _ask_in(self, namespace: str | None) -> None:
        self.namespace = self._expected.namespace = namespace
        self.name = f"{self.resource} in {namespace}" if namespace else str(self.resource)
        self._path = self.resource.path(namespace)

    async def relocate(self, error: NotFoundError) -> None:
        """Ask without the namespace from now on if it was a default and the cause of a 404. Otherwise raise that.

        :meta private:
        """
        reason = await explained(self.client, self.resource, error, self.namespace)
        if not (isinstance(self.namespace, DefaultNamespace) and isinstance(reason, ScopeError)):
            raise reason from None
        log.info(_NO_SCOPE, self.resource, self.namespace, resource=self.resource, reason="no_scope")
        self._ask_in(None)
        self._expected.namespace = ""

    async def list(self, options: ListOptions) -> ListPage:
        """List one page. Returns after the head of the response, and `items` are read as their bytes arrive.

        `items` yields a list for each chunk that arrives, even if the chunk completes no item. The page's
        resourceVersion and continue token are set after the last list. Iterating to the end, cancellation or an error
        closes the stream. A reader that stops earlier must call `items.aclose()`.

        Raises:
            APIError, ConnectError: As for `Client.stream`. A 404 names the server's nearest resource.
            DecodeError: The status is neither 200 nor an error. (A 206 has only a part of the list.)
            ConnectError, DecodeError: (from `items`) The body was cut off, or is not a list of this resource: see
                `ExpectedType`. A truncated list is always an error, never a short list.
        """
        sent = self._options(options)
        try:
            async with AsyncExitStack() as stack:
                body = await stack.enter_async_context(
                    self.client.stream(
                        self._path, sent.params(), accept=self._accept.replace("{}", "List"), timeout=_HEAD_TIMEOUT
                    )
                )
                self._check_status(body, DecodeError)
                self._decoder.begin()
                header = PageHeader()
                return ListPage(HTTPPageItems(stack.pop_all(), self._items(body, header, sent)), header=header)
        except NotFoundError as error:
            await self.relocate(error)
        return await self.list(options)

    @asynccontextmanager
    async def watch(self, options: ListOptions) -> AsyncIterator[AsyncIterator[Events]]:
        """Open a stream of lists of events, one for each chunk that arrives, even if the chunk completes no event.

        It ends when the server ends it or the connection is cut. An incomplete event is dropped, and is sent again to
        a watch from the last resourceVersion. An object that cannot be decoded is skipped, counted and logged once.
        Instead, the stream has a DELETED with its key and resourceVersion, so that an older state is removed (or a
        BOOKMARK if its name cannot be read either). The events before an error are yielded first.

        Raises:
            APIError, ConnectError: (on entering) As for `Client.stream`. A 404 of an initial stream is as for `list`.
            NotWatchableError: (on entering) The resource has no verb `watch`.
            APIError: (from the stream) An ERROR event, for example `ExpiredError` for a 410.
            WatchError: (on entering) The status is neither 200 nor an error.
            WatchError, DecodeError: (from the stream) The data is not a watch of this resource, or cannot be decoded.
        """
        params = {**self._options(options).params(), "watch": "true"}
        if options.send_initial_events:
            self._decoder.begin()
        async with AsyncExitStack() as stack:
            stream = self.client.stream(self._path, params, accept=self._accept.replace("{}", ""), watch=True)
            try:
                body = await stack.enter_async_context(stream)
            except APIError as error:
                if isinstance(error, NotFoundError) and options.send_initial_events:
                    await self.relocate(error)
                raise (error if error.status == 404 else await explained(self.client, self.resource, error)) from None
            self._check_status(body, WatchError)
            framer = LineFramer(self._max_event_bytes)
            events = await stack.enter_async_context(aclosing(self._events(body, framer)))
            yield HTTPEvents(events, Arrivals(body, framer, self._decoder.fast, self.stats))

    def push(self, stream: AsyncIterator[Events], take: Callable[[Events], bool]) -> bool:
        """Offer events that arrive alone to `take`. See `Source.push`.

        :meta private:
        """
        if (part := self._part) is None:
            return isinstance(stream, HTTPEvents) and stream.arrivals.push_to(take)
        return isinstance(stream, HTTPEvents) and stream.arrivals.push_to(lambda events: take(part.events(events)))

    async def tip(self) -> ServerTip:
        """Return the server's current version and its cluster, which is the uid of kube-system, or None if hidden.

        It uses a LIST of one item, without selectors and resourceVersion, which a server answers from etcd. Calls of
        all ListWatches of a client with the same resource and namespace share a request that has not been sent. One
        that is under way may have been answered before this call, so later callers share the next one.

        kube-system is not read if the response names the FlowSchema (`X-Kubernetes-PF-FlowSchema-UID`) that came with
        its uid before: that object's random uid is in the same etcd, so no other cluster has it.

        Raises:
            APIError, ConnectError, DecodeError: The request failed or was refused.
        """
        client, path = self.client, self._path
        newest = client._shared(("tip", path), lambda: newest_version(client, path), joins_running=False)
        version, schema = await newest
        known_schema, cluster = client._recognized
        return ServerTip(version, cluster if schema and schema == known_schema else await self.cluster())

    async def cluster(self) -> str | None:
        """Return the cluster as in `tip`, without the LIST. All ListWatches of a client share requests in that way.

        Raises:
            APIError, ConnectError, DecodeError: The request failed or was refused.
        """
        # Only the first probe is kept. It caches for all callers that it may not ask.
        probe = KubeSystemProbe(self.client)
        return await self.client._shared("cluster", probe.uid, joins_running=False)

    async def presence(self) -> bool | None:
        """Return True if the collection exists, False if one look finds it gone, or None if the look proves neither."""
        return await presence(self.client, self.resource)

    async def check_existence(self) -> None:
        """Log a warning if the namespace does not exist. Asked once for all ListWatches of a client.

        :meta private:
        """
        if self.namespace is not None:
            await check_existence(self.client, self.namespace, self.name)

    @property
    def contents(self) -> Mapping[str, str]:  # type: ignore[override]
        """Return a description of the objects and their form. It is equal for sources of the same objects."""
        query = urlencode(sorted(self._options(ListOptions()).params().items()))
        where = {"resource": str(self.resource), "namespace": self.namespace or ""}
        return {**where, "query": query, **self._form}

    def keep(self, obj: KubeObject) -> KubeObject:
        """Convert an older object into the form of this source's objects.

        :meta private:
        """
        return self._decoder.keep(obj)

    def read_paths(self, paths: Iterable[str]) -> None:
        """Read the values of these paths with each object from now on, for the indexes of a cache.

        Raises:
            ConfigError: A path is invalid.

        :meta private:
        """
        self._decoder.read_paths(paths)

    @property
    def selects_all(self) -> bool:  # type: ignore[override]
        """Return True if the requests have no selector, so that all objects are selected.

        :meta private:
        """
        params = self._options(ListOptions()).params()
        return self._part is None and not any(map(params.get, _SELECTORS))

    def selects(self, obj: KubeObject) -> bool:
        """Return True if an object in a server's response may belong to this source.

        False is certain: the object is in another namespace, or a selector excludes it. If a field is missing from the
        object, only the server knows its value for comparisons, except for the fields in `_EMPTY_IF_ABSENT`.

        :meta private:
        """
        if (self.namespace and obj.namespace != self.namespace) or (self._part and not self._part.has(obj)):
            return False
        return selects(obj, self._options(ListOptions()).params())

    async def read_back(self, namespace: str, name: str) -> ReadBack:
        """Read the current metadata of one object from etcd, or None if it does not exist or is no longer selected.

        It uses a LIST of that name, which costs the server no more than a GET and needs only the informer's own
        permissions. Raises APIError, ConnectError or DecodeError if the request failed or was refused.
        """
        listed = await self.list_metadata(namespace, name=name)
        return ReadBack(next(iter(listed.objects), None), listed.resource_version)

    async def list_metadata(self, namespace: str = "", *, name: str = "", label_selector: str = "") -> MetadataList:
        """List the current metadata of some of the objects from etcd, in pages. Errors are as for `read_back`."""
        path = self.resource.path(self.namespace or namespace or None)
        return await list_metadata(self.client, path, self._options(ListOptions()), name, label_selector, self._part)

    def _options(self, options: ListOptions) -> ListOptions:
        merged = options.replace(**self._selectors) if self._selectors else options
        return self._tweak(merged) if self._tweak else merged

    async def _items(
        self, body: Body, header: PageHeader, options: ListOptions
    ) -> AsyncGenerator[builtins.list[KubeObject], None]:
        splitter = ListSplitter(
            self._item,
            decode_many=self._decoder.items,
            max_item_bytes=self._max_event_bytes,
            max_list_bytes=self._max_list_bytes,
        )
        budget, part = YieldBudget(), self._part
        body.expect_json(budget, DecodeError)
        try:
            while chunk := await body.read():
                self.stats.bytes += len(chunk)
                view = memoryview(chunk)
                items: builtins.list[KubeObject] = []
                for start in range(0, len(chunk), _SLICE):
                    items += splitter.feed(view[start : start + _SLICE])
                    if budget.exhausted():
                        await budget.pause()
                yield items if part is None else await in_slices(part.objects, items, budget)
            list_header = splitter.close()
            self._expected.check_list(list_header)
        except WatchError as error:
            if isinstance(error, ForeignTypeError):
                await self._learn_kind(error)
            raise DecodeError(f"{self.name}: {error}") from None
        if options.shard_selector and part is None:
            self._check_shards(list_header, typed=bool(splitter.kind))
        header.resource_version, header.continue_token = list_header.resource_version, list_header.continue_token

    def _item(self, raw: bytes, api_version: str, kind: str) -> KubeObject | None:
        try:
            return self._decoder.item(raw, api_version, kind)
        except PoisonObjectError as error:
            self._count_poison(error)
            return None

    async def _events(self, body: Body, framer: LineFramer) -> AsyncGenerator[Events, None]:
        budget, part = YieldBudget(), self._part
        body.expect_json(budget, WatchError)
        decoder = self._decoder
        while chunk := await body.read():
            self.stats.bytes += len(chunk)
            events: Events = []
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
            except (APIError, DecodeError, WatchError) as error:
                if events:
                    yield events if part is None else part.events(events)
                if isinstance(error, ForeignTypeError):
                    await self._learn_kind(error)
                    raise WatchError(f"{self.name}: {error}") from None
                raise
            yield events if part is None else await in_slices(part.events, events, budget)
        if framer.pending:
            log.debug("%s: a watch ended in the middle of a line", self.name, resource=self.name, reason="fragment")

    def _event(self, line: bytes) -> WatchEvent:
        try:
            return self._decoder.event(line)
        except PoisonObjectError as error:
            if not error.resource_version:
                self.stats.decode_errors += 1
                raise WatchError(f"{self.name}: an event without a readable resourceVersion: {error}") from error
            self._count_poison(error)
            remains = UndecodableObject.of(error.key, error.resource_version)
            return WatchEvent("DELETED" if error.key else "BOOKMARK", remains)

    async def _learn_kind(self, error: ForeignTypeError) -> None:
        """Expect the kind that discovery has now: a custom resource may have been defined again with another one."""
        if error.kind and self._expected.may_change:
            kind = await kind_now(self.client, self.resource)
            if kind:
                self._decoder.adopt(kind)

    def _check_status(self, body: Body, error: type[Exception]) -> None:
        """Refuse a success other than 200. No API server sends one, and a 206 has only a part."""
        if body.status != 200:
            raise error(f"{self.name}: expected a response with status 200, got {body.status}")

    def _count_poison(self, error: PoisonObjectError) -> None:
        self.stats.decode_errors += 1
        key = error.key or "(an object without a name)"
        if not self._told.is_news(key):
            return
        message = "%s: %s cannot be decoded and is left out: %s"  # the error itself quotes the object
        log.error(message, self.name, key, error.__cause__, resource=self.name, key=error.key, reason="decode_error")

    def _check_shards(self, header: ListHeader, *, typed: bool) -> None:
        # Servers that do not support the parameter ignore it and send everything. Servers that do report it in lists
        # of built-in types, which have kind before the items. Lists of custom resources never report it.
        if typed and not header.shard_info and self._told.is_news("", "shards_ignored"):
            log.warning(_ALL_SENT, self.name, resource=self.name, reason="shards_ignored")
