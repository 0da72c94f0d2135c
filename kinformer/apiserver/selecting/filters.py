"""Selects the objects of a request by namespace, labels and fields."""

from __future__ import annotations

from typing import Protocol

from kinformer.apiserver.options import Options
from kinformer.apiserver.selecting.selection import parse_fields, parse_labels
from kinformer.apiserver.status import StatusError
from kinformer.apiserver.storage import Stored

__all__ = ["FieldReader", "Selector"]


class FieldReader(Protocol):
    """The fields of a resource, besides `metadata.name`, that field selectors can name."""

    @property
    def selects_namespace(self) -> bool: ...
    def has(self, label: str, /) -> bool: ...
    def read(self, stored: Stored, label: str, /) -> str: ...
    def refusal(self, label: str, /) -> StatusError: ...


class Selector:
    """A predicate over stored objects. The constructor raises a 400 `StatusError` for an invalid selector."""

    def __init__(self, fields: FieldReader, namespace: str, options: Options) -> None:
        self.namespace = namespace
        self._labels = parse_labels(options.label_selector) if options.label_selector else None
        self._fields = fields
        self._field_terms: list[tuple[str, str, bool]] = []
        self._metadata_terms: list[tuple[str, str, bool]] = []
        self.name = ""  # a selector for one name counts as one object in authorization too
        for label, value, wanted in parse_fields(options.field_selector):
            if label == "metadata.name" or (label == "metadata.namespace" and fields.selects_namespace):
                self._metadata_terms.append((label, value, wanted))
                if label == "metadata.name" and wanted:
                    self.name = value
            elif fields.has(label):
                self._field_terms.append((label, value, wanted))
            else:
                raise fields.refusal(label)
        self.shards = options.shards
        # True if it selects by more than the namespace.
        self.selects = bool(self._labels or self._field_terms or self._metadata_terms or self.shards)
        self.everything = not self.selects and not namespace

    def matches(self, stored: Stored) -> bool:
        """True if the object is selected."""
        if self.everything:
            return True
        if self.namespace and stored.namespace != self.namespace:
            return False
        if self.shards is not None and not self.shards.matches(stored):
            return False
        for label, value, wanted in self._metadata_terms:
            own = stored.name if label == "metadata.name" else stored.namespace
            if (own == value) is not wanted:
                return False
        if self._labels is not None and not self._labels(stored.labels):
            return False
        return all((self._field(stored, label) == value) is wanted for label, value, wanted in self._field_terms)

    def _field(self, stored: Stored, label: str) -> str:
        # Cached in the object, because the next list and every watcher need the same fields.
        if stored.fields is None:
            stored.fields = {}
        value = stored.fields.get(label)
        if value is None:
            value = stored.fields[label] = self._fields.read(stored, label)
        return value
