"""Parses and validates the query of a LIST or watch, including continue tokens.

Rules and messages are from apimachinery/pkg/apis/meta/internalversion/validation and
apiserver/pkg/storage/continue.go.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from kinformer.serving.sharding import Shards
from kinformer.serving.status import StatusError, bad_request, cause, internal, invalid_options

__all__ = ["ContinueToken", "Options", "ReadFeatures", "read_options"]

NOT_OLDER_THAN = "NotOlderThan"
EXACT = "Exact"


class ReadFeatures(Protocol):
    """The switches of a server that change how it reads a query."""

    @property
    def watch_list(self) -> bool: ...
    @property
    def sharding(self) -> bool: ...


class _Defaults(NamedTuple):
    watch_list: bool = True
    sharding: bool = False


_DEFAULT = _Defaults()


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a request for a collection. `revision` is None if resourceVersion is not given."""

    watch: bool = False
    label_selector: str = ""
    field_selector: str = ""
    revision: int | None = None
    match: str = ""
    limit: int = 0
    token: str = ""
    timeout: float = 0.0
    bookmarks: bool = False
    initial_events: bool | None = None
    shards: Shards | None = None
    promoted: bool = True  # a watch without a version is one with initial events
    as_of: int = 0  # the revision of a lagging cache, or 0


class ContinueToken(NamedTuple):
    """The position of the next page: after key `start`, relative to its prefix, at `revision` (-1: now)."""

    revision: int
    start: str

    def encode(self) -> str:
        """Encode the token as kube-apiserver does: base64url without padding."""
        document = json.dumps(
            {"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start + "\0"}, separators=(",", ":")
        )
        return base64.urlsafe_b64encode(document.encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> ContinueToken:
        """Decode the token of a query. Raises a 400 `StatusError` for an invalid token."""
        try:
            data = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (binascii.Error, ValueError):
            raise bad_request("invalid continue token: continue key is not valid: illegal base64 data") from None
        try:
            fields = json.loads(data)
        except ValueError:
            first = data[:1].decode("latin-1")
            what = f"invalid character {_go_char(first)} looking for beginning of value" if first else "unexpected end"
            raise bad_request(f"invalid continue token: continue key is not valid: {what}") from None
        if not isinstance(fields, dict) or fields.get("v") != "meta.k8s.io/v1":
            version = fields.get("v", "") if isinstance(fields, dict) else ""
            raise bad_request(
                "invalid continue token: continue key is not valid: server does not recognize this encoded version"
                f" {version}"
            )
        revision, start = fields.get("rv"), fields.get("start")
        if not isinstance(revision, int) or not isinstance(start, str) or not start or revision == 0:
            raise bad_request("invalid continue token: continue key is not valid: incorrect encoded start key")
        return cls(revision, start.rstrip("\0"))


def _go_char(char: str) -> str:
    return f"'{char}'" if char.isprintable() and ord(char) < 128 else f"'\\u{ord(char):04x}'"


def _boolean(params: Mapping[str, str], name: str) -> bool | None:
    """Parse as runtime.Convert_Slice_string_To_bool does: any value except "0" and "false" is true, even ""."""
    if name not in params:
        return None
    return params[name].lower() not in ("0", "false")


def _integer(params: Mapping[str, str], name: str) -> int:
    number = params.get(name, "")
    if not number:
        return 0
    if not re.fullmatch(r"[+-]?[0-9]+", number):
        raise bad_request(f'strconv.ParseInt: parsing "{number}": invalid syntax')
    return int(number)


def read_options(
    params: Mapping[str, str], *, forced_watch: bool = False, features: ReadFeatures = _DEFAULT
) -> Options:
    """Parse and validate a query. Raises a `StatusError` of 400, 422 or (a watch with a bad resourceVersion) 500."""
    watch = forced_watch or bool(_boolean(params, "watch"))
    version = params.get("resourceVersion", "")
    options = Options(
        watch=watch,
        label_selector=params.get("labelSelector", ""),
        field_selector=params.get("fieldSelector", ""),
        match=params.get("resourceVersionMatch", ""),
        limit=max(0, _integer(params, "limit")),
        token=params.get("continue", ""),
        timeout=float(max(0, _integer(params, "timeoutSeconds"))),
        bookmarks=bool(_boolean(params, "allowWatchBookmarks")),
        initial_events=_boolean(params, "sendInitialEvents"),
        shards=Shards(params["shardSelector"]) if features.sharding and "shardSelector" in params else None,
        promoted=features.watch_list,
    )
    if options.watch and options.initial_events is not None and not features.watch_list:
        message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        raise invalid_options("ListOptions", [_forbid(message, "sendInitialEvents")])
    _validate(options, version)
    if version and not re.fullmatch(r"[0-9]{1,19}", version):
        raise bad_version(version, watch=watch)
    return replace(options, revision=int(version)) if version else options


def bad_version(text: str, *, watch: bool) -> StatusError:
    """Return the error for a non-numeric resourceVersion: 400 for a LIST, or 500 without a reason for GET and watch."""
    message = f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
    return internal(message) if watch else bad_request(f"invalid resource version: {message}")


def _forbid(text: str, field: str = "resourceVersionMatch") -> dict[str, str]:
    return cause("FieldValueForbidden", f"Forbidden: {text}", field)


def _unsupported(value: str, supported: str) -> dict[str, str]:
    message = f'Unsupported value: "{value}": supported values: {supported}'
    return cause("FieldValueNotSupported", message, "resourceVersionMatch")


def _validate(options: Options, version: str) -> None:
    causes = _watch_causes(options) if options.watch else _list_causes(options, version)
    if causes:
        raise invalid_options("ListOptions", causes)
    if not options.watch and options.token and version not in ("", "0"):
        raise bad_request("specifying resource version is not allowed when using continue")


def _watch_causes(options: Options) -> list[dict[str, str]]:
    causes = []
    match = options.match
    if options.initial_events is not None:
        if match != NOT_OLDER_THAN:
            causes.append(_forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    elif match:
        causes.append(_forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
    if match and match != NOT_OLDER_THAN:
        causes.append(_unsupported(match, '"NotOlderThan"'))
    if options.token:
        causes.append(_forbid("continue is forbidden for watch", "continue"))
    return causes


def _list_causes(options: Options, version: str) -> list[dict[str, str]]:
    causes = []
    match = options.match
    if match:
        if not version:
            causes.append(_forbid("resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.token:
            causes.append(_forbid("resourceVersionMatch is forbidden when continue is provided"))
        if match not in (EXACT, NOT_OLDER_THAN):
            causes.append(_unsupported(match, '"Exact", "NotOlderThan", ""'))
        if match == EXACT and version == "0":
            causes.append(_forbid('resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.initial_events is not None:
        causes.append(_forbid("sendInitialEvents is forbidden for list", "sendInitialEvents"))
    return causes
