"""Parses the options of a write from its query, and validates them as the server does (meta/v1/validation)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kinformer.apiserver.status import Causes, cause, invalid_options
from kinformer.testing.rules.builtin.pod_rules import unsupported
from kinformer.testing.rules.metadata_rules import invalid_value
from kinformer.testing.store.ownership import FieldManager

__all__ = ["WriteOptions", "dry_run_causes", "read_write_options"]

MAX_MANAGER = 128  # bytes
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")


@dataclass(slots=True)
class WriteOptions:
    """The options of one write.

    They begin with the query of a request. Its handler then adds what the path and the body say, and the write appends
    to `warnings`.

    Attributes:
        manager: The field manager that will own the written fields.
        dry_run: Respond as usual, but store nothing.
        admin: A direct call of a test. It may write the status, and missing namespaces are created.
        internal: A write by the server's own controllers, which need no resourceVersion.
        tracks_fields: Keep managedFields up to date.
        validation: The fieldValidation.
        patch: The strategic merge patch, for error messages.
        json_patch: The body is a JSON patch, and `duplicates` are fields of that.
        duplicates: The fields that the body has twice.
        places: The position of each field in the body, by the message that would name it. Empty if there are no
            duplicates.
        force: Take fields from other managers (apply).
        applied: The body is an apply configuration for a new object. Its nulls are kept, and refused.
        warnings: The warnings for the client.
        user: The UserInfo (authentication.k8s.io) of the writing user. Empty for the server's own calls.
        stored_later: A dry run whose caller stores the object.
    """

    manager: FieldManager = field(default_factory=lambda: FieldManager("unknown"))
    dry_run: bool = False
    admin: bool = False
    internal: bool = False
    tracks_fields: bool = True
    validation: str = "Warn"
    patch: Any = None
    json_patch: bool = False
    duplicates: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    force: bool = False
    applied: bool = False
    warnings: list[str] = field(default_factory=list)
    user: Mapping[str, Any] = field(default_factory=dict)
    stored_later: bool = False


def dry_run_causes(values: Sequence[str]) -> Causes:
    """Return the errors of `dryRun`, whose only valid value is `All`."""
    if all(value == "All" for value in values):
        return []
    message = f'Unsupported value: {json.dumps(list(values))}: supported values: "All"'
    return [cause("FieldValueNotSupported", message, "dryRun")]


def _manager_causes(manager: str) -> Causes:
    causes: Causes = []
    if len(manager.encode()) > MAX_MANAGER:
        causes.append(cause("FieldValueTooLong", f"Too long: may not be more than {MAX_MANAGER} bytes", "fieldManager"))
    for index, char in enumerate(manager):
        if not char.isprintable():
            causes.append(
                invalid_value("fieldManager", manager, f"invalid character U+{ord(char):04X} (at position {index})")
            )
    return causes


def read_write_options(params: Mapping[str, str], agent: str, kind: str, *, patch: str = "") -> WriteOptions:
    """Parse and validate a query. `kind` is the kind of the options (`CreateOptions`). Raises a 422 `StatusError`.

    Without a fieldManager, the manager is the program named in the User-Agent.
    """
    manager, validation = params.get("fieldManager", ""), params.get("fieldValidation", "")
    forced = params.get("force", "").lower() in ("1", "true")
    causes: Causes = []
    if "force" in params and patch != "apply" and kind == "PatchOptions":
        causes.append(cause("FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force"))
    if patch == "apply" and not manager:
        causes.append(cause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager"))
    causes += _manager_causes(manager)
    if "dryRun" in params:
        causes += dry_run_causes([params["dryRun"]])
    if validation not in _VALIDATIONS:
        causes.append(unsupported("fieldValidation", validation, _VALIDATIONS))
    if causes:
        raise invalid_options(kind, causes)
    name = manager or agent.partition("/")[0][:MAX_MANAGER] or "unknown"
    return WriteOptions(
        manager=FieldManager(name), dry_run="dryRun" in params, validation=validation or "Warn", force=forced
    )
