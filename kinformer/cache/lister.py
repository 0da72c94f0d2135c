"""Read-only views of the cache: by name, namespace and selector, and by key and index.

All reads are plain functions that return snapshots. None sends a request (client-go, tools/cache/listers.go).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Generic, Protocol, TypeAlias

from kinformer._runtime.logs import get_logger
from kinformer.cache.indexer import Indexer
from kinformer.cache.label_groups import Matches
from kinformer.cache.store import Keys, Objects
from kinformer.objects.object import view
from kinformer.objects.selectors import LabelSelector
from kinformer.objects.types import ObjectT

__all__ = ["IndexView", "Lister", "NamespaceLister", "ReadableIndexer", "Selector"]

Selector: TypeAlias = str | Mapping[str, str] | LabelSelector
"""A label selector: a string in kubectl's syntax, a mapping of labels that must be equal, or a parsed selector."""


class ReadableIndexer(Protocol[ObjectT]):
    """The reads that a lister needs. `Indexer` and its views have them."""

    @property
    def get_by_key(self) -> Callable[[str], ObjectT | None]: ...
    @property
    def list(self) -> Callable[[], Objects[ObjectT]]: ...
    @property
    def list_keys(self) -> Callable[[], Keys]: ...
    @property
    def by_index(self) -> Callable[[str, str], Objects[ObjectT]]: ...
    @property
    def index_values(self) -> Callable[[str], Keys]: ...
    @property
    def select(self) -> Callable[[Matches, str | None], Objects[ObjectT]]: ...
    @property
    def in_namespace(self) -> Callable[[str], Objects[ObjectT]]: ...
    @property
    def any_key(self) -> Callable[[], str | None]: ...
    def __len__(self) -> int: ...


log = get_logger("kinformer.lister")

_MOST_HINTS = 1000
_hinted: set[str] = set()  # selectors that have been logged as namespaces


def _require_text(method: str, namespace: object) -> None:
    if not isinstance(namespace, str):
        raise TypeError(f"{method}: invalid namespace={namespace!r}: expected a string; call it once per namespace")


def _require_name(name: str, namespace: str) -> None:
    if "/" in name:
        raise ValueError(
            f"get({name!r}): {name!r} is a key, and the namespace is {namespace!r}; use the mapping `by_key` of the "
            f"informer, or get({name.rpartition('/')[2]!r}, namespace={name.partition('/')[0]!r})"
        )


def _refuse_text(obj: object) -> None:
    if isinstance(obj, str):
        raise TypeError(
            f"{obj!r} in lister: a lister holds objects, not keys; use `{obj!r} in informer.by_key`, or "
            "`lister.get(name, namespace=...) is not None`"
        )


@lru_cache(maxsize=512)
def _parse(selector: str) -> LabelSelector:
    # Programs use the same few selectors over and over, and a parsed one costs only a dict entry.
    return LabelSelector.parse(selector)


class _Listed(Generic[ObjectT]):
    """The members that a lister has because it has objects: its truth, its iterator, and its repr."""

    __slots__ = ()

    def list(self) -> Objects[ObjectT]:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self.list())

    def __bool__(self) -> bool:
        return True  # a lister of an empty cache is truthy

    def __iter__(self) -> Iterator[ObjectT]:
        """Iterate over a snapshot of the objects."""
        return iter(self.list())

    def __contains__(self, obj: object) -> bool:
        """True if it has an object that equals this one.

        Raises:
            TypeError: It is a string. A lister holds objects. Keys are in the informer's `by_key`.
        """
        _refuse_text(obj)
        return obj in self.list()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {len(self)} objects>"


class Lister(_Listed[ObjectT]):
    """The reads of one cache, for any thread. They return snapshots, which may be kept across awaits.

    Args:
        indexer: An `Indexer`, or the `indexer` of an informer.
        default_namespace: The namespace if a call passes none, for the cache of a single namespace.
    """

    def __init__(self, indexer: ReadableIndexer[ObjectT], *, default_namespace: str = "") -> None:
        self._indexer = indexer
        self._get = indexer.get_by_key
        self.default_namespace = default_namespace

    def get(self, name: str, *, namespace: str = "") -> ObjectT | None:
        """Return the object of this name, or None if there is none.

        Raises:
            ValueError: There is no such object, and the call is wrong: the objects have namespaces and none was passed,
                or one was passed and `name` is a key.
        """
        namespace = namespace or self.default_namespace
        if namespace:
            obj = self._get(f"{namespace}/{name}")
            if obj is None and namespace == self.default_namespace and "/" not in name:
                obj = self._get(name)  # of a resource without namespaces, to which a default does not apply
            if obj is None:
                _require_text("get", namespace)
                _require_name(name, namespace)
            return obj
        obj = self._get(name)
        if obj is None:
            self._require_no_namespace(name)
        return obj

    def by_namespace(self, namespace: str) -> NamespaceLister[ObjectT]:
        """Return the reads of one namespace, or of all for `""`, as in client-go (`NamespaceAll`)."""
        _require_text("by_namespace", namespace)
        return NamespaceLister(self, namespace)

    def list(self, label_selector: Selector | None = None, *, namespace: str | None = None) -> Objects[ObjectT]:
        """Return the objects that match, in no order.

        Without a selector, all objects match. Without a namespace, or with `""`, all namespaces are included.

        Raises:
            SelectorError: The selector does not parse. `position` is where it fails.
            TypeError: `namespace` is not a string.
        """
        if namespace is not None:
            _require_text("list", namespace)
        if label_selector is not None:
            selector = (
                _parse(label_selector) if isinstance(label_selector, str) else LabelSelector.parse(label_selector)
            )
            if selector:
                objects = self._indexer.select(selector.matches, namespace or None)
                if not objects and isinstance(label_selector, str):
                    self._hint_at_namespace(label_selector)
                return objects
        return self._indexer.in_namespace(namespace) if namespace else self._indexer.list()

    def by_index(self, index: str, value: str) -> Objects[ObjectT]:
        """Return the objects that have `value` in an index, in no order.

        Raises:
            IndexNotFoundError: There is no such index. The message names the existing ones.
        """
        return self._indexer.by_index(index, value)

    def index_values(self, index: str) -> Keys:
        """Return all values in an index that have an object, in no order.

        Raises:
            IndexNotFoundError: There is no such index. The message names the existing ones.
        """
        return self._indexer.index_values(index)

    def keys(self) -> Keys:
        """Return the keys of all objects, in no order."""
        return self._indexer.list_keys()

    def __len__(self) -> int:
        return len(self._indexer)

    def _hint_at_namespace(self, selector: str) -> None:
        """Log, once per selector, that a selector which matched nothing is the name of a namespace that has objects."""
        if selector not in _hinted and self._indexer.in_namespace(selector):
            if len(_hinted) < _MOST_HINTS:
                _hinted.add(selector)
            log.warning(
                "list(%r) found nothing: %r was parsed as a label selector; "
                "to list a namespace, use list(namespace=%r)",
                selector,
                selector,
                selector,
                reason="namespace_as_selector",
            )

    def _require_no_namespace(self, name: str) -> None:
        if "/" not in name and "/" in (self._indexer.any_key() or ""):
            raise ValueError(f"get({name!r}): the objects here have a namespace; pass it: get({name!r}, namespace=...)")


class NamespaceLister(_Listed[ObjectT]):
    """The reads of one namespace of a `Lister`."""

    __slots__ = ("_lister", "namespace")

    def __init__(self, lister: Lister[ObjectT], namespace: str) -> None:
        self._lister = lister
        self.namespace = namespace

    def get(self, name: str) -> ObjectT | None:
        """Return the object of this name in the namespace, or None if there is none."""
        return self._lister.get(name, namespace=self.namespace)

    def list(self, label_selector: Selector | None = None) -> Objects[ObjectT]:
        """Return the objects of the namespace that match, in no order. Without a selector, all match.

        Raises:
            SelectorError: The selector does not parse. `position` is where it fails.
        """
        return self._lister.list(label_selector, namespace=self.namespace)


class IndexView(Generic[ObjectT]):
    """The reads of an `Indexer`, without its writes, because an informer's cache has one writer.

    Every read returns a snapshot, which may be kept across awaits. Reads may come from any thread. The methods are the
    indexer's own, so a read costs no extra call.

    Attributes:
        view: Converts a cached object to the one that callbacks receive.
    """

    def __init__(self, indexer: Indexer[ObjectT]) -> None:
        self._indexer = indexer
        self.any_key = indexer.any_key
        self.get = indexer.get
        self.get_by_key = indexer.get_by_key
        self.list = indexer.list
        self.list_keys = indexer.list_keys
        self.in_namespace = indexer.in_namespace
        self.index = indexer.index
        self.by_index = indexer.by_index
        self.index_keys = indexer.index_keys
        self.index_values = indexer.index_values
        self.sample = indexer.sample
        self.select = indexer.select
        self.view: Callable[[ObjectT], ObjectT] = view

    def __repr__(self) -> str:
        return f"<IndexView of {len(self)} objects>"

    def __len__(self) -> int:
        return len(self._indexer)
