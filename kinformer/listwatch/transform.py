"""The transform: a user's function between a source and everything that is kept of it."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.signatures import check_callback
from kinformer.exceptions import DecodeError, KinformerError
from kinformer.list_watcher import Capabilities, ListerWatcher, WatchEvent
from kinformer.listwatch.wrapper import ConvertingListerWatcher
from kinformer.objects.json_path import Projection
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.wire.decoder import EntryDecoder, PoisonObjectError

__all__ = ["TransformError", "TransformingListerWatcher"]

log = get_logger("kinformer.transform")

# The number of keys whose failure is remembered as logged; beyond that all may be logged once more.

_encode = msgspec.json.Encoder().encode
_identity_only = Projection(())


class TransformError(KinformerError):
    """A transform raised (then `__cause__` has it), returned no dict, or changed what identifies the object."""


class TransformingListerWatcher(ConvertingListerWatcher):
    """A `ListerWatcher` around another, which applies a user's transform to every object, once.

    The transform gets a dict of its own and returns one (the same or another), or None to leave the object out. If it
    raises, returns no dict, or changes name, namespace, uid or resourceVersion, the object is left out too, which is
    counted in `transform_errors`, logged once per key, and given to `on_error`.

    An object that is left out is missing from lists, and is a DELETED event in a watch, so that a cached one goes and
    the resourceVersion advances. Such an event, and that of a real delete which the transform did not take, carries the
    cached object, else only its identity (for an ADDED its key and version, as an `UndecodableObject`): never data that
    the transform might have removed.

    It offers what the inner source offers; order, errors and cancellation are those of the inner source. Long lists are
    transformed in slices of 1 ms.

    Args:
        inner: The source.
        transform: dict -> dict or None. It should give equal results for equal objects, for a relist may ask again.
        on_error: Called as `on_error(key, error)` at each failure with a TransformError; if it raises, the list or
            watch raises that.
        known: key -> the object in the cache, or None. One of the same uid and resourceVersion is used again, instead
            of transforming anew.

    Raises:
        TypeError: The transform cannot be called with a document, or is a coroutine function.
    """

    def __init__(
        self,
        inner: ListerWatcher,
        transform: Callable[[dict[str, Any]], dict[str, Any] | None],
        *,
        on_error: Callable[[str, TransformError], Any] | None = None,
        known: Callable[[str], Any] | None = None,
    ) -> None:
        check_callback(transform, "transform", "document", type(self).__name__, plain=True)
        self.transform_errors = 0
        super().__init__(inner)
        self._transform = transform
        self._on_error = on_error
        self._known = known
        # managedFields are kept here, so that the transform can decide about them.
        self._decoder = EntryDecoder(keep_managed_fields=True)
        self._told = LogOnce()

    @property
    def capabilities(self) -> Capabilities:
        """Those of the inner source, except that paths are read of what the transform returns."""
        return dataclasses.replace(super().capabilities, path_reading=self)

    def read_paths(self, paths: Iterable[str]) -> None:
        """Read the values of these paths with each transformed object from now on."""
        self._decoder.read_paths(paths)

    def convert_event(self, event: WatchEvent) -> WatchEvent:
        """Return the event with the transformed object; BOOKMARKs, and objects that are unknown, stay as they are."""
        if event.type == "BOOKMARK" or type(event.object) is UndecodableObject:
            return event
        entry = _entry(event.object)
        result = self.apply(entry)
        if result is not None:
            return WatchEvent(event.type, result)
        if event.type == "ADDED":  # an UndecodableObject may come of an initial event, and so ends no initial stream
            return WatchEvent("DELETED", UndecodableObject.of(entry.key, entry.resource_version))
        return WatchEvent("DELETED", self._leaving(entry))

    def convert_object(self, obj: Any) -> KubeObject | None:
        """Return the transformed object, or None if it is left out."""
        return self.apply(_entry(obj))

    def apply(self, entry: KubeObject) -> KubeObject | None:
        """The transformed object, or None if it is left out; failures are counted and reported as described above."""
        cached = self._cached(entry)
        if cached is not None and cached.resource_version == entry.resource_version:
            return cached
        try:
            result = self._transformed(entry)
        except TransformError as error:
            self._failed(entry.key, error)
            return None
        return result

    def _transformed(self, entry: KubeObject) -> KubeObject | None:
        try:
            result: Any = self._transform(entry.to_dict())
        except Exception as error:
            raise TransformError(f"the transform raised on {entry!r}: {error!r}") from error
        if result is None:
            return None
        if not isinstance(result, dict):
            if inspect.iscoroutine(result):
                result.close()
            raise TransformError(f"the transform returned {type(result).__name__}, no dict, for {entry!r}")
        try:
            transformed = self._decoder.item(_encode(result), entry.api_version, entry.kind)
        except (DecodeError, TypeError, ValueError, RecursionError) as error:
            reason = error.__cause__ if isinstance(error, PoisonObjectError) else error
            raise TransformError(f"the transform returned no object for {entry!r}: {reason}") from error
        if (transformed.key, transformed.uid, transformed.resource_version) != (
            entry.key,
            entry.uid,
            entry.resource_version,
        ):
            raise TransformError(f"the transform changed name, namespace, uid or resourceVersion of {entry!r}")
        return transformed

    def _cached(self, entry: KubeObject) -> KubeObject | None:
        if self._known is None:
            return None
        cached = self._known(entry.key)
        return cached if isinstance(cached, KubeObject) and entry.uid and cached.uid == entry.uid else None

    def _leaving(self, entry: KubeObject) -> KubeObject:
        # With the new resourceVersion, which the reader goes on from.
        cached = self._cached(entry)
        if cached is None:
            return self._decoder.item(_identity_only(entry.raw))
        document = cached.to_dict()
        document["metadata"]["resourceVersion"] = entry.resource_version
        return self._decoder.item(_encode(document))

    def _failed(self, key: str, error: TransformError) -> None:
        self.transform_errors += 1
        if self._told.is_news(key):
            name = self.capabilities.name
            cause = error.__cause__
            log.error("left out: %s", error, exc_info=cause, resource=name, key=key, reason="transform_failed")
        if self._on_error is not None:
            self._on_error(key, error)


def _entry(obj: Any) -> KubeObject:
    return obj if isinstance(obj, KubeObject) else KubeObject.from_dict(obj)
