"""Waits for one object by listing and watching only that object."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kinformer._runtime.chunks import ChunkedList
from kinformer._runtime.signatures import check_callback
from kinformer._runtime.waiters import within
from kinformer.connection.connection import Connection
from kinformer.connection.refusals import FINAL
from kinformer.exceptions import APIError, DeletedError, describe
from kinformer.list_watcher import ListOptions, WatchEvent
from kinformer.listwatch.http_source import ListWatch
from kinformer.objects.accessors import string_at, tables_at, value_at
from kinformer.objects.meta import GroupVersionResource, split_meta_namespace_key
from kinformer.objects.object import KubeObject, UndecodableObject, view
from kinformer.objects.pod_status import PodState
from kinformer.objects.selectors import FieldSelector
from kinformer.reflector.reflector import Reflector
from kinformer.verbs.targets import check_key
from kinformer.watching.stream import following

__all__ = ["describe_object", "wait_for_object"]

ObjectCondition = Callable[[KubeObject | None], object]

_REFUSALS = (400, 401, 403, 404, 405, 406, 415, 422)
_ENOUGH = 2  # a first refusal may come from a token being renewed, a role not yet in effect, or a missing feature


async def wait_for_object(
    client: Connection,
    resource: str | GroupVersionResource,
    key: str,
    condition: ObjectCondition,
    timeout: float | None = None,
    *,
    allow_recreate: bool = False,
) -> KubeObject | None:
    """Wait until a condition holds for one object. See `Client.wait_for`."""
    gvr = GroupVersionResource.parse(resource)
    namespace, name = split_meta_namespace_key(key)
    if not name:
        raise ValueError(f"the key {key!r} has no name, expected 'namespace/name' or 'name'")
    check_callback(condition, "condition", "obj", f"wait_for {gvr} {key}", plain=True)
    state = _ObjectState(key, condition, f"{gvr} {key}", allow_recreate=allow_recreate)

    def late() -> TimeoutError:
        what = getattr(condition, "__name__", "the condition")
        return TimeoutError(f"{state.title}: no {what} within {timeout:g} s; {state.in_words()}")

    try:
        async with within(timeout, late):
            await check_key(client, "wait_for", gvr, key)
            source = ListWatch(
                client,
                gvr,
                namespace=namespace or None,
                field_selector=str(FieldSelector((("metadata.name", "=", name),))),
                tweak_list_options=_newest,
            )
            state.source = source
            state.reflector = Reflector(source, state, name=state.title, on_error=state.failed)
            async with following(state.reflector) as running:
                await asyncio.wait((running, state.result), return_when=asyncio.FIRST_COMPLETED)
                if not state.result.done():
                    running.result()  # raises the error that ended the reflector
                return state.result.result()
    finally:
        state.close()


def _newest(options: ListOptions) -> ListOptions:
    """Request the newest state. A server's watch cache may be older than the awaited write."""
    return options.replace(resource_version=None) if options.resource_version == "0" else options


class _ObjectState:
    """The store of a reflector that follows one object, which evaluates the condition for each state.

    Args:
        key: The key of the object.
        condition: The condition.
        title: The resource and key, for errors.
        allow_recreate: True to keep waiting after the object was deleted.

    Attributes:
        result: The object for which the condition held, None if it held for its absence, or the error that ends the
            wait.
        title: See above.
        source: The source of the reflector.
        reflector: The reflector that writes to this store.
    """

    known = None
    at_once = 1

    def __init__(self, key: str, condition: ObjectCondition, title: str, *, allow_recreate: bool) -> None:
        self.title = title
        self.result: asyncio.Future[KubeObject | None] = asyncio.get_running_loop().create_future()
        self.source: ListWatch | None = None
        self.reflector: Reflector | None = None
        self._key = key
        self._condition = condition
        self._allow_recreate = allow_recreate
        self._present: KubeObject | None = None
        self._last: KubeObject | None = None  # the newest observed state, even of a deleted object
        self._told_absent = False
        self._undecodable = ""
        self._left_out = 0  # states skipped by the source because they cannot be decoded

    # --- the store ----------------------------------------------------------------------------------------------

    def write(self, events: Sequence[WatchEvent], resource_version: str) -> None:
        """Process the events of a watch."""
        for kind, obj in events:
            if kind == "BOOKMARK" or obj.key != self._key:
                continue
            if type(obj) is UndecodableObject:
                self._undecodable = obj.resource_version
                self._left_out += 1
            elif kind == "DELETED":
                self._last = obj
                self._set(None)
            else:
                self._set(obj)

    def replace(self, items: ChunkedList[object], resource_version: str) -> None:
        """Process the result of a list."""
        matching = (obj for obj in items.drain() if isinstance(obj, KubeObject) and obj.key == self._key)
        present = next(matching, None)
        left_out, self._left_out = self._left_out, self.source.stats.decode_errors if self.source is not None else 0
        if present is None and self._left_out > left_out:
            self._undecodable = resource_version
        else:
            self._set(present)

    def resync(self) -> None:
        """Do nothing, because the condition has been evaluated for the current state."""

    def _set(self, obj: KubeObject | None) -> None:
        before, self._present = self._present, obj
        if obj is None:
            if before is not None or not self._told_absent:
                self._absent(deleted=before is not None)
            return
        self._undecodable = ""
        if before is not None and before.uid == obj.uid and before.resource_version == obj.resource_version:
            return
        if before is not None and before.uid != obj.uid:
            self._absent(deleted=True)
        self._last, self._told_absent = obj, False
        self._ask(obj)

    def _absent(self, *, deleted: bool) -> None:
        self._told_absent = True
        self._ask(None)
        if deleted and not self._allow_recreate and not self.result.done():
            assert self._last is not None
            message = f"{self.title} was deleted during the wait; its last state {describe_object(self._last)}"
            self.result.set_exception(DeletedError(message, self._last))

    def _ask(self, obj: KubeObject | None) -> None:
        if self.result.done():
            return
        seen = None if obj is None else view(obj)
        try:
            met = self._condition(seen)
            if inspect.isawaitable(met):
                _drop(met)
                raise TypeError(f"condition={self._condition!r} is asynchronous: pass a plain function")
        except Exception as error:  # noqa: BLE001 - passed to the caller of wait_for
            self.result.set_exception(error)
            return
        if met:
            self.result.set_result(seen)

    # --- failures -----------------------------------------------------------------------------------------------

    def failed(self, reflector: Reflector, error: Exception) -> None:
        """Process an error of a request. The second consecutive refusal ends the wait, or that it cannot be watched."""
        if isinstance(error, FINAL) and not self.result.done():
            self.result.set_exception(error)
        if self.result.done() or not isinstance(error, APIError) or error.status not in _REFUSALS:
            return
        if reflector.health().consecutive_failures >= _ENOUGH:
            message = f"{error.message or error.reason}; {self.title}: {self._stood()}"
            refused = type(error)(error.status, error.reason, message, error.retry_after, error.details)
            self.result.set_exception(refused)

    def in_words(self) -> str:
        """Describe the state of the object, and the error that prevents a newer one, if any."""
        error = self.reflector.health().last_error if self.reflector is not None else None
        return self._stood() + (f"; {describe(error)}" if error is not None else "")

    def _stood(self) -> str:
        if self._undecodable:
            return f"its state at resourceVersion {self._undecodable} cannot be decoded"
        if self._present is None and not self._told_absent:
            return "it was never seen, because no list has succeeded"
        if self._present is None and self._last is not None:
            return f"it was deleted; its last state {describe_object(self._last)}"
        return f"it {describe_object(self._present)}"

    def close(self) -> None:
        """Discard the result. An error that occurred as the wait ended counts as retrieved."""
        if not self.result.cancel():
            self.result.exception()


def _drop(awaitable: object) -> None:
    close = getattr(awaitable, "close", None)
    if close is not None:
        close()


_MOST = 6  # conditions
_LONGEST = 120  # characters of a message


def describe_object(obj: KubeObject | None) -> str:
    """Describe an object's state, as the end of a sentence: `is Pending, Ready=False (...), at resourceVersion 7`."""
    if obj is None:
        return "is absent"
    return "is " + ", ".join(_parts(obj))


def _parts(obj: KubeObject) -> Iterator[str]:
    if obj.kind == "Pod":
        state = PodState.of(obj)
        yield f"{state.reason or 'without a phase'} ({state.ready}/{state.total} containers ready)"
    elif phase := string_at(obj, "status", "phase"):
        yield phase
    for condition in tables_at(obj, "status", "conditions")[:_MOST]:
        yield _condition(condition)
    if since := value_at(obj, "metadata", "deletionTimestamp"):
        finalizers = ", ".join(value_at(obj, "metadata", "finalizers") or ())
        yield f"being deleted since {since}" + f" (waiting for {finalizers})" * bool(finalizers)
    yield f"at resourceVersion {obj.resource_version}"


def _condition(condition: Mapping[str, Any]) -> str:
    kind, status = condition.get("type"), condition.get("status")
    why = ": ".join(str(part) for part in (condition.get("reason"), condition.get("message")) if part)
    if status == "True" or not why:
        return f"{kind}={status}"
    return f"{kind}={status} ({why if len(why) <= _LONGEST else why[:_LONGEST] + '...'})"
