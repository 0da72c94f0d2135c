"""The types of a program's callbacks for an informer, and of handlers with some of them as methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from kinformer.objects.object import KubeObject
from kinformer.objects.types import M, M_contra

__all__ = ["EventHandler", "Filter", "OnAdd", "OnDelete", "OnUpdate", "Transform"]


class AddCallback(Protocol[M_contra]):
    """A callback for an added object, which takes the flag."""

    def __call__(self, obj: KubeObject[M_contra], /, *, is_in_initial_list: bool) -> object: ...


class DeleteCallback(Protocol[M_contra]):
    """A callback for a deleted object, which takes the flag."""

    def __call__(self, obj: KubeObject[M_contra], /, *, final_state_unknown: bool) -> object: ...


# Coroutine functions or plain functions. A plain function's result is awaited if it is awaitable, or else dropped.
OnAdd: TypeAlias = Callable[[KubeObject[M]], object] | AddCallback[M]
OnUpdate: TypeAlias = Callable[[KubeObject[M], KubeObject[M]], object]
OnDelete: TypeAlias = Callable[[KubeObject[M]], object] | DeleteCallback[M]
Filter: TypeAlias = Callable[[KubeObject[M]], object]
Transform: TypeAlias = Callable[[dict[str, Any]], dict[str, Any] | None]


class HandlesAdds(Protocol[M_contra]):
    """An object with a method `on_add`."""

    @property
    def on_add(self) -> OnAdd[M_contra]: ...


class HandlesUpdates(Protocol[M_contra]):
    """An object with a method `on_update`."""

    @property
    def on_update(self) -> OnUpdate[M_contra]: ...


class HandlesDeletes(Protocol[M_contra]):
    """An object with a method `on_delete`."""

    @property
    def on_delete(self) -> OnDelete[M_contra]: ...


EventHandler: TypeAlias = HandlesAdds[M] | HandlesUpdates[M] | HandlesDeletes[M]
