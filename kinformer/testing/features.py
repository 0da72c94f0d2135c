"""The switches of an embedded server, for the differences between servers and releases."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Features"]


@dataclass(frozen=True, slots=True)
class Features:
    """`APIServer(features=Features(...))`. Without any, a v1.36 as it is installed.

    Args:
        watch_list: Streaming lists (the gate WatchList, on since v1.34). False: sendInitialEvents is refused with a
            422, and a watch from no version tells what there is without a bookmark behind it, as before.
        compress_watches: Streaming lists come gzipped, each flush a gzip member of its own, to clients that accept it
            (WatchListCompression, on since v1.37).
        sharding: `shardSelector` filters lists and watches (ShardedListAndWatch, alpha). False: it is ignored.
        initializing: Seconds behind an edit of a CustomResourceDefinition during which its kinds answer 429, as a
            real server does for a moment. 0: never.
        delete_versions: The Status that answers a DELETE, an eviction or a binding has the resourceVersion of the write
            (since v1.38).
        drop_managed_fields: Objects come without managedFields to clients that ask with
            `Accept: application/json;drop=metadata.managedFields` (ManagedFieldsOptOut, alpha in v1.38). False: the
            parameter is ignored, as unknown ones are.
    """

    watch_list: bool = True
    compress_watches: bool = False
    sharding: bool = False
    initializing: float = 0.0
    delete_versions: bool = False
    drop_managed_fields: bool = False
