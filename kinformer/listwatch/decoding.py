"""A wrapper that converts the objects of a custom source, such as dicts, to `KubeObject`s."""

from __future__ import annotations

from typing import Any

from kinformer._runtime.logs import LogOnce, get_logger
from kinformer.exceptions import DecodeError, KeyFuncError, WatchError
from kinformer.list_watcher import ListerWatcher, WatchEvent
from kinformer.listwatch.wrapper import ConvertingListerWatcher
from kinformer.objects.accessors import key_of, resource_version_of
from kinformer.objects.object import KubeObject, UndecodableObject
from kinformer.objects.packed import as_entry

__all__ = ["DecodingListerWatcher"]

log = get_logger("kinformer.list_watch")

_DECODED = frozenset(("ADDED", "MODIFIED", "DELETED"))


class DecodingListerWatcher(ConvertingListerWatcher):
    """A wrapper around a `ListerWatcher` that converts all objects to `KubeObject`s.

    An object that cannot be converted is skipped, counted and logged once per key, like an object that a `ListWatch`
    cannot decode. In a watch it becomes a DELETED for its key, so that an older state is removed from the cache, or a
    BOOKMARK with its resourceVersion if it has no name. Without either, it is unknown which change was lost, so the
    stream ends with a WatchError, and a reflector lists again.

    Abilities, order, errors and cancellation are the same as for the inner source. It works in slices of 1 ms.

    Args:
        inner: The source.

    Attributes:
        decode_errors: The number of skipped objects.
        bytes: Always 0, because only the inner source can count received bytes.
    """

    def __init__(self, inner: ListerWatcher) -> None:
        super().__init__(inner)
        self.decode_errors = 0
        self.bytes = 0
        self._told = LogOnce()

    def convert_object(self, obj: Any) -> KubeObject | None:
        """Return the object as a `KubeObject`, or None if it cannot become one."""
        if type(obj) is KubeObject:
            return obj
        try:
            return as_entry(obj)
        except DecodeError as error:
            self._count(_key_of(obj), error)
            return None

    def convert_event(self, event: WatchEvent) -> WatchEvent:
        """Return the event with a `KubeObject`, or with an `UndecodableObject` if the conversion fails."""
        kind, obj = event
        if type(obj) is KubeObject or kind not in _DECODED:
            return event
        try:
            return WatchEvent(kind, as_entry(obj))
        except DecodeError as error:
            key, version = _key_of(obj), resource_version_of(obj)
            self._count(key, error)
            if not key and not version:
                message = f"{self.name}: an event whose object has neither a name nor a resourceVersion"
                raise WatchError(message) from error
            return WatchEvent("DELETED" if key else "BOOKMARK", UndecodableObject.of(key, version))

    def _count(self, key: str, error: DecodeError) -> None:
        self.decode_errors += 1
        name = key or "(an object without a name)"
        if not self._told.is_news(name):
            return
        source = self.name
        cause = error.__cause__ or "metadata.name is missing"  # the error's own message quotes the object
        message = "%s: %s cannot be decoded and is left out: %s"
        log.error(message, source, name, cause, resource=source, key=key, reason="decode_error")


def _key_of(obj: object) -> str:
    try:
        return key_of(obj)
    except KeyFuncError:
        return ""
