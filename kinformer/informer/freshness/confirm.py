"""Confirmed reads: objects of a cache that are at least as new as the server was when they were asked for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from kinformer._runtime.waiters import within
from kinformer.exceptions import ConnectError
from kinformer.informer.collection import CollectionFace, core_of
from kinformer.informer.freshness.proof import CacheSelection
from kinformer.objects.object import KubeObject
from kinformer.objects.selectors import LabelSelector
from kinformer.objects.types import M

if TYPE_CHECKING:
    from kinformer.informer.core import CollectionCore

__all__ = ["confirmed", "confirming"]


async def confirmed(
    informer: CollectionFace[KubeObject[M]],
    label_selector: str | Mapping[str, str] | None,
    namespace: str | None,
    name: str | None,
    timeout: float | None,
) -> list[KubeObject[M]]:
    """Implement `SharedInformer.confirm`, which documents the arguments and errors."""
    core = core_of(informer)
    lister = informer.lister
    selector = LabelSelector.parse(label_selector)

    def objects(scope: str | None = None) -> list[KubeObject[M]]:
        if name is None:
            return list(lister.list(selector, namespace=scope or namespace))
        obj = lister.get(name, namespace=namespace or "")
        return [obj] if obj is not None and selector.matches(obj.labels) else []

    objects()  # raises for a name without a namespace
    if core.parts.chosen is None:
        core.require_followed(namespace)
    selection = CacheSelection(namespace or "", name or "", str(selector), informer.by_key.get, objects)
    async with confirming(core, timeout, lambda: selection.lacking):
        await informer.wait_synced()
        await core.namespaces_proved()
        core.require_followed(namespace)
        if name is None and not namespace and not selection.label_selector:
            await core.freshness.prove()
        else:
            await core.freshness.holds(selection)
    return objects()


@asynccontextmanager
async def confirming(
    core: CollectionCore, timeout: float | None, lacking: Callable[[], str] = lambda: ""
) -> AsyncIterator[None]:
    """Limit the time of a proof. Only this limit raises a TimeoutError, which says what the proof waited for.

    Args:
        core: The core of the collection.
        timeout: Seconds, or None.
        lacking: Returns the objects whose cached state is too old, or "" if that is not known.

    Raises:
        ConnectError: The server did not answer a request of the proof in its own time.
    """

    def late() -> TimeoutError:
        proofs = [proof for root in core.roots() for proof in root.parts.proofs.values()]
        waits = filter(None, (proof.waits_for for proof in proofs))
        objects = lacking()
        reason = core.unlisted_reason() or (f"the cache still lacks {objects}" if objects else "; ".join(waits))
        message = f"{core.name}: not confirmed within {timeout:g} s: {reason or 'its values are still computed'}"
        return TimeoutError(message)

    async with within(timeout, late):
        try:
            yield
        except TimeoutError as error:
            raise ConnectError(f"{core.name}: not confirmed: {error}") from error
