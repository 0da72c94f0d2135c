"""Confirmed reads: objects of a cache that are at least as new as the server was when they were asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from kinformer.informer.collection import CollectionFace
from kinformer.informer.freshness.freshness import Freshness
from kinformer.informer.freshness.proof import Selection
from kinformer.objects.object import KubeObject
from kinformer.objects.selectors import LabelSelector
from kinformer.objects.types import M

__all__ = ["confirmed"]


async def confirmed(
    informer: CollectionFace[KubeObject[M]],
    freshness: Freshness,
    label_selector: str | Mapping[str, str] | None,
    namespace: str | None,
    name: str | None,
    timeout: float | None,
) -> list[KubeObject[M]]:
    """Implement `SharedInformer.confirm`, which documents the arguments and errors."""
    lister = informer.lister
    selector = LabelSelector.parse(label_selector)

    def objects(scope: str | None = None) -> list[KubeObject[M]]:
        if name is None:
            return list(lister.list(selector, namespace=scope or namespace))
        found = lister.get(name, namespace=namespace or "")
        return [found] if found is not None and selector.matches(found.labels) else []

    objects()  # raises for a name without a namespace
    selection = Selection(namespace or "", name or "", str(selector), informer.by_key.get, objects)
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            await informer.wait_synced()
            if name is None and not namespace and not selection.label_selector:
                await freshness.prove()
            else:
                await freshness.holds(selection)
    except TimeoutError:
        if not limit.expired():
            raise  # a request's
        lacking = selection.lacking
        reason = f"the cache still lacks {lacking}" if lacking else "the server has not proved it"
        raise TimeoutError(f"{informer.name}: not confirmed within {timeout:g} s: {reason}") from None
    return objects()
