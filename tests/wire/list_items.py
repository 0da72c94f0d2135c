"""Items of a list as `ListWatch` takes them: an object that cannot be kept is left out.

Internals: the decoder, as a ListWatch uses it.
"""

from __future__ import annotations

from collections.abc import Callable

from kinformer import KubeObject
from kinformer.wire.decoder import EntryDecoder, PoisonObjectError


def kept_by(decoder: EntryDecoder) -> Callable[[bytes, str, str], KubeObject | None]:
    """What a `ListSplitter` calls for each item."""

    def item(data: bytes, api_version: str, kind: str) -> KubeObject | None:
        try:
            return decoder.item(data, api_version, kind)
        except PoisonObjectError:
            return None

    return item
