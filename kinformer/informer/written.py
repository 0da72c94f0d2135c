"""The response to a write, reduced to the data that a cache needs to catch up with the write."""

from __future__ import annotations

from typing import NamedTuple

from kinformer.exceptions import KeyFuncError
from kinformer.objects.accessors import has_ended, key_of, namespace_of, resource_version_of, uid_of
from kinformer.objects.types import ApiObject

__all__ = ["Written"]


class ObjectIdentity(NamedTuple):
    """The identity of one object, as opposed to a later one with its name."""

    key: str
    uid: str


class Written(NamedTuple):
    """A write to wait for.

    Attributes:
        version: The resourceVersion that the cache must reach.
        namespace: The namespace that the caller named, or else the object's. None if neither is known.
        ended: The object that the write ended. The response has the version before the end, so the cache has caught up
            once the object is gone.
    """

    version: str
    namespace: str | None
    ended: ObjectIdentity | None = None

    @classmethod
    def of(cls, answer: str | ApiObject, namespace: str | None) -> Written:
        """Read a response, or take a resourceVersion as it is.

        Raises:
            ValueError: The response has no resourceVersion.
        """
        if isinstance(answer, str):
            return cls(answer, namespace)
        version = resource_version_of(answer)
        if not version:
            raise ValueError(
                f"invalid response {_described(answer)}: it has no metadata.resourceVersion; responses to DELETE have "
                "one since Kubernetes 1.38; before that, wait with wait_for(informer, key, is_deleted(uid))"
            )
        namespace = namespace or namespace_of(answer) or None
        if not has_ended(answer):
            return cls(version, namespace)
        try:
            return cls(version, namespace, ObjectIdentity(key_of(answer), uid_of(answer)))
        except KeyFuncError:  # without a name, it cannot be looked up
            return cls(version, namespace)


def _described(answer: object) -> str:
    """Describe a response without its values, because it may be a Secret."""
    names = f" with {', '.join(map(str, answer))[:100] or 'no fields'}" if isinstance(answer, dict) else ""
    return f"({type(answer).__name__}{names})"
