"""The rights that a program's requests need: verbs by group and resource."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from kinformer.cli.doctor.rbac import Rule

__all__ = ["Rights"]

_VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
_READABLE = ("/api", "/openapi", "/version", "/healthz", "/livez", "/readyz")  # by each user (system:discovery)


class Rights:
    """The rights that requests have needed. `add` adds to them, and nothing is removed.

    Attributes:
        unknown: The resources that the server does not have.
        paths: The paths without a resource, besides those that each user may read.
    """

    def __init__(self) -> None:
        self.unknown: set[str] = set()
        self.paths: set[str] = set()
        self._verbs: defaultdict[tuple[str, str, str], set[str]] = defaultdict(set)
        self._names: defaultdict[tuple[str, str], set[str]] = defaultdict(set)

    def add(self, request: Any) -> bool:
        """Add an entry of `APIServer.requests`. True if it needed another verb on a resource.

        `watch` includes `list`, for servers that do not stream the first list, and a patch or update that made its
        object `create`, as a server asks for both.
        """
        info = request.info
        if not info.plural:
            self.paths |= set() if request.path.startswith(_READABLE) else {request.path}
            return False
        if request.status == 404 and info.verb in ("list", "watch"):
            self.unknown.add(f"{info.plural}.{info.group}")
        if info.verb != "create":
            self._names[info.group, info.plural].add(info.name)
        more = {"list"} if info.verb == "watch" else {"create"} if request.status == 201 else set()
        verbs = self._verbs[info.group, info.plural, info.subresource]
        before = len(verbs)
        verbs |= {info.verb} | more
        return len(verbs) > before

    def rules(self) -> list[Rule]:
        """Return the rules of a role. One has a name only if all requests for the resource named this one object.

        Creation cannot be limited to a name, since a new object's name is unknown when the server decides.
        """
        paths: defaultdict[tuple[str, str, tuple[str, ...]], list[str]] = defaultdict(list)
        for (group, resource, subresource), verbs in sorted(self._verbs.items()):
            names = self._names[group, resource]
            name = min(names) if len(names) == 1 else ""
            for only, part in ((name, verbs - {"create"}), ("", verbs & {"create"})) if name else (("", verbs),):
                key = (group, only, tuple(verb for verb in _VERBS if verb in part))
                paths[key].append(f"{resource}/{subresource}" if subresource else resource)
        return [
            {"apiGroups": [group], "resources": resources, "verbs": list(verbs)}
            | ({"resourceNames": [name]} if name else {})
            for (group, name, verbs), resources in paths.items()
            if verbs
        ]
