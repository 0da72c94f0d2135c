"""A reflector with an indexer that it writes to, without an informer."""

from __future__ import annotations

from typing import Any

from kinformer.cache.indexer import Indexer
from kinformer.cache.namespace_index import NAMESPACE_INDEX, meta_namespace_index_func
from kinformer.list_watcher import ListerWatcher
from kinformer.objects.meta import meta_namespace_key
from kinformer.reflector.reflector import Reflector

__all__ = ["namespace_keyed_indexer_and_reflector"]


def namespace_keyed_indexer_and_reflector(lister_watcher: ListerWatcher, **options: Any) -> tuple[Indexer, Reflector]:
    """Create an indexer, and a reflector with these options that writes to it.

    (client-go, tools/cache/reflector.go, `NewNamespaceKeyedIndexerAndReflector`)
    """
    indexer = Indexer(meta_namespace_key, {NAMESPACE_INDEX: meta_namespace_index_func})
    return indexer, Reflector(lister_watcher, indexer, **options)
