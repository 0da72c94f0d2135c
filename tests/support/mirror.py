"""A handler that builds a copy of a cache from its calls alone."""

from __future__ import annotations

from typing import Any

from kinformer import KubeObject

Identity = tuple[str, str]


def identity(obj: KubeObject) -> Identity:
    """Return the uid and the resourceVersion."""
    return obj.uid, obj.resource_version


class Mirror:
    """Keeps what it is told of.

    Attributes:
        objects: By key.
        calls: `("add", name, resourceVersion)`, `("update", name, resourceVersion)` and
            `("delete", name, final_state_unknown)`, in order.
        wrong: A sentence for each call that contradicts those before it.
    """

    def __init__(self) -> None:
        self.objects: dict[str, KubeObject] = {}
        self.calls: list[tuple[str, str, Any]] = []
        self.wrong: list[str] = []

    def on_add(self, obj: KubeObject, *, is_in_initial_list: bool) -> Any:
        if obj.key in self.objects:
            self.wrong.append(f"add of {obj.key}, which is known")
        self.objects[obj.key] = obj
        self.calls.append(("add", obj.name, obj.resource_version))

    def on_update(self, old: KubeObject, new: KubeObject) -> Any:
        known = self.objects.get(new.key)
        if known is None or identity(known) != identity(old):
            self.wrong.append(f"update of {new.key} from {identity(old)}, known as {known and identity(known)}")
        if old.uid != new.uid:
            self.wrong.append(f"update of {new.key} into another object")
        if identity(old) == identity(new):
            self.wrong.append(f"update of {new.key} that changes nothing")
        self.objects[new.key] = new
        self.calls.append(("update", new.name, new.resource_version))

    def on_delete(self, obj: KubeObject, *, final_state_unknown: bool) -> Any:
        known = self.objects.pop(obj.key, None)
        if known is None:
            self.wrong.append(f"delete of {obj.key}, which is not known")
        elif known.uid != obj.uid:
            self.wrong.append(f"delete of {obj.key} with the uid of another object")
        self.calls.append(("delete", obj.name, final_state_unknown))

    def of(self, kind: str) -> list[str]:
        """Return the names that the calls of one kind were about."""
        return [name for what, name, _ in self.calls if what == kind]

    @property
    def known(self) -> dict[str, Identity]:
        """By key, the uid and the resourceVersion of each object."""
        return {key: identity(obj) for key, obj in self.objects.items()}
