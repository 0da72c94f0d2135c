"""The rights that a program's requests need: verbs by group and resource."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kinformer.cli.doctor.rbac import Rule

__all__ = ["Right", "rights_of", "rules_of"]

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_INCLUDED = {"watch": {"list"}}


class Right(NamedTuple):
    """The right that a request needs: a verb on a resource, or on one object if there is a name."""

    group: str
    resource: str
    subresource: str
    verb: str
    name: str = ""


def rights_of(request: Any) -> Iterator[Right]:
    """Yield the rights that an entry of `APIServer.requests` needs.

    They are two if it made the object that it applied or replaced (apiserver, pkg/endpoints/handlers/patch.go). There
    are none for a path without a resource, such as `/version`, which each user may read.
    """
    info = request.info
    if info.plural:
        name = "" if info.verb == "create" else info.name
        yield Right(info.group, info.plural, info.subresource, info.verb, name)
        if request.status == 201 and info.verb != "create":
            yield Right(info.group, info.plural, info.subresource, "create")


def rules_of(rights: Iterable[Right]) -> list[Rule]:
    """Merge rights into rules. `watch` includes `list`, for servers that do not stream the first list.

    A rule has a name only if all requests for the resource named this one object. Creation cannot be limited to a
    name, since a new object's name is unknown when the server decides.
    """
    names: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    verbs: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
    for right in rights:
        if right.verb != "create":
            names[right.group, right.resource].add(right.name)
        verbs[right.group, right.resource, right.subresource] |= {right.verb} | _INCLUDED.get(right.verb, set())
    merged: defaultdict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
    for (group, resource, subresource), used in sorted(verbs.items()):
        only = "" if len(names[group, resource]) != 1 else min(names[group, resource])
        for name, part in ((only, used - {"create"}), ("", used & {"create"})) if only else (("", used),):
            if part:
                ordered = tuple(sorted(part, key=_VERBS.index))
                merged[group, name, ordered].append(f"{resource}/{subresource}" if subresource else resource)
    return [
        {
            "apiGroups": [group],
            "resources": resources,
            **({"resourceNames": [name]} if name else {}),
            "verbs": [*ordered],
        }
        for (group, name, ordered), resources in merged.items()
    ]
