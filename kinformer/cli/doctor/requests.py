"""The rights that a program's requests need: verbs by group and resource."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kinformer.cli.doctor.rbac import Rule

__all__ = ["Right", "rights_of", "rules_of"]

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_OPEN = {"api", "apis", "openapi", "version", "healthz", "livez", "readyz"}  # to each user (system:discovery)


class Right(NamedTuple):
    """The right that a request needs: a verb on a resource, of one object if there is a name, or on a path."""

    group: str
    resource: str
    subresource: str
    verb: str
    name: str = ""
    url: str = ""


def rights_of(request: Any) -> Iterator[Right]:
    """Yield the rights that an entry of `APIServer.requests` needs.

    They are two if it made the object that it applied or replaced (apiserver, pkg/endpoints/handlers/patch.go).
    """
    info = request.info
    if not info.plural:
        if request.path.split("/")[1] not in _OPEN:
            yield Right("", "", "", info.verb, url=request.path)
        return
    name = "" if info.verb == "create" else info.name
    yield Right(info.group, info.plural, info.subresource, info.verb, name)
    if request.status == 201 and info.verb in ("patch", "update"):
        yield Right(info.group, info.plural, info.subresource, "create")


def rules_of(rights: Iterable[Right]) -> list[Rule]:
    """Merge rights into rules. `watch` includes `list`, for servers that do not stream the first list.

    A rule has a name only if all requests for the resource named this one object. Creation cannot be limited to a
    name, since a new object's name is unknown when the server decides.
    """
    names, verbs, urls = defaultdict(set), defaultdict(set), defaultdict(set)
    for right in rights:
        if right.url:
            urls[right.verb].add(right.url)
            continue
        if right.verb != "create":
            names[right.group, right.resource].add(right.name)
        path = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
        verbs[right.group, right.resource, path] |= {right.verb} | ({"list"} if right.verb == "watch" else set())
    resources = defaultdict(list)  # of rules that differ in nothing else
    for (group, resource, path), some in sorted(verbs.items()):
        known = names[group, resource]
        only = tuple(known) if len(known) == 1 and "" not in known else ()
        for part, limit in ((some - {"create"}, only), (some & {"create"}, ())) if only else ((some, ()),):
            if part:
                resources[group, tuple(sorted(part, key=_VERBS.index)), limit].append(path)
    rules = [Rule(group, tuple(paths), ordered, limit) for (group, ordered, limit), paths in resources.items()]
    return rules + [Rule("", (), (verb,), urls=tuple(sorted(some))) for verb, some in sorted(urls.items())]
