"""The steps of a script, which people do while the program runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kinformer.exceptions import NotFoundError
from kinformer.objects.requests.encoding import refuse_faults

if TYPE_CHECKING:
    from kinformer.testing.explore.server import ExploredServer

__all__ = ["PEOPLE", "Step"]

PEOPLE = "people"


class Step(msgspec.Struct, frozen=True):
    """One step: a create, a patch (a merge patch), or a delete.

    Attributes:
        verb: "create", "patch" or "delete".
        resource: For example "v1/configmaps", or "" for a create.
        key: "namespace/name" or "name", or "" for a create.
        body: The object, or the patch.
    """

    verb: str
    resource: str = ""
    key: str = ""
    body: dict[str, Any] | None = None

    def __post_init__(self) -> None:
        refuse_faults(self.body)

    def do(self, server: ExploredServer) -> None:
        """Perform the step. Raises the `APIError` that a client would get."""
        try:
            self._do(server)
        except LookupError as error:  # not served
            if not server.lost:
                raise
            raise NotFoundError(404, "NotFound", str(error)) from error

    def _do(self, server: ExploredServer) -> None:
        namespace, _, name = self.key.rpartition("/")
        if self.verb == "create":
            server.create(self.body or {})
        elif self.verb == "delete":
            server.delete(self.resource, namespace, name)
        else:
            obj = server.get(self.resource, namespace, name)
            if obj is None:
                raise NotFoundError(404, "NotFound", f"{self.resource} {self.key} not found")
            server.update(_merged(obj, self.body))

    def text(self) -> str:
        """Describe the step."""
        if self.verb == "create":
            body = self.body or {}
            return f"create {body.get('kind')} {body.get('metadata', {}).get('name')}"
        return f"{self.verb} {self.resource} {self.key}"


def _merged(target: Any, patch: Any) -> Any:
    """Return a document with a merge patch applied (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged
