"""The transform: a user's function applied to each object of a source before it is stored."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kinformer._runtime.clock import UserFunction
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.signatures import check_callback
from kinformer.exceptions import DecodeError, KinformerError
from kinformer.list_watcher import ListerWatcher, WatchEvent
from kinformer.listwatch.wrapper import ConvertingListerWatcher
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.objects.paths.projection import Projection
from kinformer.objects.requests.encoding import encode_result
from kinformer.wire.decoder import EntryDecoder, PoisonObjectError

__all__ = ["TransformError", "TransformingListerWatcher"]

log = get_logger("kinformer.transform")

# The number of keys whose failure is known to be logged. Beyond that, failures may be logged again.

_encode = msgspec.json.Encoder().encode
_identity_only = Projection(())


class TransformError(KinformerError):
    """A transform raised (see `__cause__`), did not return a dict, or changed the identity of the object."""


class TransformingListerWatcher(ConvertingListerWatcher):
    """A wrapper around a `ListerWatcher` that applies a user's transform to every object, once.

    The transform gets its own copy as a dict, and returns a dict (the same or another), or None to leave the object
    out. If it raises, does not return a dict, or changes name, namespace, uid or resourceVersion, the object is left
    out too. This is counted in `transform_errors`, logged once per key, and passed to `on_error`.

    An object that is left out is missing from lists, and becomes a DELETED event in a watch, so that a cached object
    is removed and the resourceVersion advances. Such an event, and the event of a real delete that the transform
    rejected, has the cached object or else only its identity (for an ADDED its key and version, as an
    `UndecodableObject`). It never contains data that the transform might have removed.

    Abilities, order, errors and cancellation are the same as for the inner source. Long lists are transformed in
    slices of 1 ms.

    Args:
        inner: The source.
        transform: Takes a dict, and returns a dict or None. It should return equal results for equal objects, because
            a relist may call it again.
        on_error: Called as `on_error(key, error)` on each failure, with a TransformError. If it raises, the list or
            watch raises that exception.
        known: Returns the object in the cache for a key, or None. An object with the same uid and resourceVersion is
            reused instead of being transformed again.

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
        # managedFields are kept here, so that the transform can use them.
        self._decoder = EntryDecoder(keep_managed_fields=True)
        self._told = LogOnce()
        self._user_function = UserFunction("the transform", log, self.name)

    def read_paths(self, paths: Iterable[str]) -> None:
        """Read the values of these paths with each transformed object from now on."""
        self._decoder.read_paths(paths)

    def convert_event(self, event: WatchEvent) -> WatchEvent:
        """Return the event with the transformed object. BOOKMARKs and unknown objects stay unchanged."""
        if event.type == "BOOKMARK" or type(event.object) is UndecodableObject:
            return event
        entry = _entry(event.object)
        result = self.apply(entry)
        if result is not None:
            return WatchEvent(event.type, result)
        if event.type == "ADDED":  # an UndecodableObject does not end an initial stream
            return WatchEvent("DELETED", UndecodableObject.of(entry.key, entry.resource_version))
        return WatchEvent("DELETED", self._leaving(entry))

    def convert_object(self, obj: Any) -> KubeObject | None:
        """Return the transformed object, or None if it is left out."""
        return self.apply(_entry(obj))

    def apply(self, entry: KubeObject) -> KubeObject | None:
        """Return the transformed object, or None if it is left out.

        Failures are counted and reported as described above.
        """
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
        finally:
            self._user_function.returned(entry.key)
        if result is None:
            return None
        if not isinstance(result, dict):
            if inspect.iscoroutine(result):
                result.close()
            raise TransformError(f"the transform returned {type(result).__name__} instead of a dict for {entry!r}")
        try:
            transformed = self._decoder.item(encode_result(result), entry.api_version, entry.kind)
        except (DecodeError, TypeError, ValueError, RecursionError) as error:
            reason = error.__cause__ if isinstance(error, PoisonObjectError) else error
            raise TransformError(f"the transform returned an invalid object for {entry!r}: {reason}") from error
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
        # It needs the new resourceVersion, from which the reader continues.
        cached = self._cached(entry)
        if cached is None:
            return self._decoder.item(_identity_only(entry.raw))
        document = cached.to_dict()
        document["metadata"]["resourceVersion"] = entry.resource_version
        return self._decoder.item(_encode(document))

    def _failed(self, key: str, error: TransformError) -> None:
        self.transform_errors += 1
        if self._told.is_news(key):
            name = self.name
            cause = error.__cause__
            log.error("left out: %s", error, exc_info=cause, resource=name, key=key, reason="transform_failed")
        if self._on_error is not None:
            self._on_error(key, error)


def _entry(obj: Any) -> KubeObject:
    return obj if isinstance(obj, KubeObject) else KubeObject.from_dict(obj)
