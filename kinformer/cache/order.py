"""The order of a DELETED and a stored object of the same name: whether the delete is about this object.

A server, a proxy or a source may send an event twice or late. By then, another object may have the name.
"""

from __future__ import annotations

from kinformer.objects.accessors import resource_version_of, uid_of
from kinformer.objects.meta import compare_resource_versions

__all__ = ["is_another", "is_gone"]


def is_gone(uid: str, version: str, deleted_uid: str, deleted_version: str) -> bool:
    """Return True if an object is gone after a DELETED event of its name.

    A uid never comes back, so the versions of an object and its own DELETED do not matter. The DELETED of another uid
    is about an earlier object if it has an older version. If it has a newer one, another object took the place of this
    one, and is deleted too. If one of the versions is not a number, only the uids are compared.
    """
    if uid == deleted_uid and uid:
        return True
    unidentified = not (uid and deleted_uid)
    try:
        order = compare_resource_versions(deleted_version, version)
    except ValueError:
        return unidentified
    return order > 0 or (order == 0 and unidentified)


def is_another(held: object, deleted: object) -> bool:
    """Return True if a DELETED is certainly about an earlier object than the one in a store: see `is_gone`.

    Both may be of any type. Without a uid, nothing is certain.
    """
    uid, deleted_uid = uid_of(held), uid_of(deleted)
    if not (uid and deleted_uid):
        return False
    return not is_gone(uid, resource_version_of(held), deleted_uid, resource_version_of(deleted))
