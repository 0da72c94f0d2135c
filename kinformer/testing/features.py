"""Feature switches of the embedded server, which reproduce differences between servers and releases."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Features"]


@dataclass(frozen=True, slots=True)
class Features:
    """`APIServer(features=Features(...))`. The default is a v1.36 with its default settings.

    Args:
        watch_list: Streaming lists (the gate WatchList, on since v1.34). False: sendInitialEvents is refused with a
            422, and a watch without a resourceVersion sends the existing objects without a bookmark after them, as
            older servers do.
        compress_watches: Streaming lists are gzipped for clients that accept it. Each flush is a separate gzip member
            (WatchListCompression, on since v1.37).
        sharding: `shardSelector` filters lists and watches (ShardedListAndWatch, alpha). False: it is ignored.
        initializing: Seconds after an edit of a CustomResourceDefinition during which requests for its kinds get a
            429, as a real server responds for a moment. 0: never.
        delete_versions: The Status returned for a DELETE, an eviction or a binding has the resourceVersion of the
            write (since v1.38).
        drop_managed_fields: Objects are sent without managedFields to clients that request it with `Accept:
            application/json;drop=metadata.managedFields` (ManagedFieldsOptOut, alpha in v1.38). False: the parameter
            is ignored, like any unknown one.
    """

    watch_list: bool = True
    compress_watches: bool = False
    sharding: bool = False
    initializing: float = 0.0
    delete_versions: bool = False
    drop_managed_fields: bool = False
