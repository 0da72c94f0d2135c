"""The answer to a write, as far as a cache needs it to catch up with the write."""

from __future__ import annotations

from typing import NamedTuple

from kinformer.exceptions import KeyFuncError
from kinformer.objects.accessors import has_ended, key_of, namespace_of, resource_version_of, uid_of
from kinformer.objects.types import ApiObject

__all__ = ["Written"]


class Identity(NamedTuple):
    """One object, and no later one of its name."""

    key: str
    uid: str


class Written(NamedTuple):
    """A write to be waited for.

    Attributes:
        version: The resourceVersion that the cache has to reach.
        namespace: That of the object, or the one that the caller named; None if neither is known.
        ended: The object that the write has ended: the answer has the version from before, so the cache
            has caught up once the object is gone.
    """

    version: str
    namespace: str | None
    ended: Identity | None = None

    @classmethod
    def of(cls, answer: str | ApiObject, namespace: str | None) -> Written:
        """Read an answer, or take a resourceVersion as it is.

        Raises:
            ValueError: The answer has no resourceVersion.
        """
        if isinstance(answer, str):
            return cls(answer, namespace)
        version = resource_version_of(answer)
        if not version:
            raise ValueError(
                f"invalid answer {_excerpt(answer)}: it has no metadata.resourceVersion; that of a DELETE has one from "
                "Kubernetes 1.38 on, else wait for the end with wait_for(informer, key, is_deleted(uid))"
            )
        namespace = namespace or namespace_of(answer) or None
        if not has_ended(answer):
            return cls(version, namespace)
        try:
            return cls(version, namespace, Identity(key_of(answer), uid_of(answer)))
        except KeyFuncError:  # it has no name, so there is nothing to look for
            return cls(version, namespace)


def _excerpt(answer: object) -> str:
    text = repr(answer)
    return text if len(text) <= 100 else f"{text[:100]}..."
