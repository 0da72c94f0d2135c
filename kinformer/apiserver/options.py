"""Parses and validates the query of a LIST or watch, including continue tokens.

Rules and messages are from apimachinery/pkg/apis/meta/internalversion/validation and
apiserver/pkg/storage/continue.go.
"""

from __future__ import annotations

import base64
import json
import posixpath
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl

from multidict import MultiDict

from kinformer.apiserver.selecting.names import parse_number
from kinformer.apiserver.selecting.selection import parse_fields, parse_labels
from kinformer.apiserver.selecting.shards import Shards
from kinformer.apiserver.status import StatusError, bad_request, cause, internal, invalid_options, quoted
from kinformer.objects.paths.printing import go_json

__all__ = [
    "USUAL",
    "ContinueToken",
    "Options",
    "ReadFeatures",
    "boolean_of",
    "integer_of",
    "query_of",
    "read_options",
    "read_version",
]

NOT_OLDER_THAN = "NotOlderThan"
EXACT = "Exact"
_REFUSED = re.compile(r";|%(?![0-9A-Fa-f]{2})")  # Go's url.ParseQuery refuses these in a parameter
_BASE64 = f"{string.ascii_letters}{string.digits}-_"


class ReadFeatures(Protocol):
    """The switches of a server that change how it answers a LIST or watch."""

    @property
    def watch_list(self) -> bool: ...
    @property
    def sharding(self) -> bool: ...
    @property
    def compress_watches(self) -> bool: ...


class _Usual(NamedTuple):
    watch_list: bool = True
    sharding: bool = False
    compress_watches: bool = False


USUAL: ReadFeatures = _Usual()


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a request for a collection.

    `revision` is None if resourceVersion is not given, and `timeout` is 0 without a limit. A negative one has passed.
    """

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
    """The position of the next page: from key `start` on, relative to its prefix, at `revision` (-1: now)."""

    revision: int
    start: str

    def encode(self) -> str:
        """Encode the token as kube-apiserver does: base64url without padding."""
        document = go_json({"v": "meta.k8s.io/v1", "rv": self.revision, "start": self.start})
        return base64.urlsafe_b64encode(document).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> ContinueToken:
        """Decode the token of a query. Raises a 400 `StatusError` for an invalid token."""
        text = text.replace("\r", "").replace("\n", "")
        digits = len(text) - len(text.lstrip(_BASE64))
        if digits < len(text) or digits % 4 == 1:
            raise _bad_token(f"illegal base64 data at input byte {min(digits, len(text) - 1)}")
        data = base64.urlsafe_b64decode(text + "=" * (-digits % 4))
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError):
            first = quoted(data[:1].decode("latin-1"))[1:-1]
            raise _bad_token(f"invalid character '{first}' looking for beginning of value") from None
        if not isinstance(fields, dict) or fields.get("v") != "meta.k8s.io/v1":
            version = (fields.get("v") if isinstance(fields, dict) else None) or ""
            raise _bad_token(f"server does not recognize this encoded version {version}")
        revision, start = fields.get("rv") or 0, fields.get("start") or ""
        if type(revision) is not int or not isinstance(start, str):
            raise _bad_token("incorrect encoded start key")
        if not revision:
            raise _bad_token("incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
        if not start:
            raise _bad_token("encoded start key empty (version meta.k8s.io/v1)")
        key = start if start.startswith("/") else f"/{start}"
        if key.startswith("//") or posixpath.normpath(key) != key:
            raise _bad_token(start)
        return cls(revision, start)


def _bad_token(reason: str) -> StatusError:
    return bad_request(f"invalid continue token: continue key is not valid: {reason}")


def query_of(raw: str) -> MultiDict[str]:
    """Parse the query of a URL as Go's net/http does: without parameters with a semicolon or a broken escape."""
    pairs = (pair for pair in raw.split("&") if not _REFUSED.search(pair))
    return MultiDict(parse_qsl("&".join(pairs), keep_blank_values=True))


def boolean_of(params: Mapping[str, str], name: str) -> bool:
    """Return True if a parameter is given and not "0" or "false" (runtime.Convert_Slice_string_To_bool)."""
    return params.get(name, "0").lower() not in ("0", "false")


def integer_of(params: Mapping[str, str], name: str) -> int:
    """Return a parameter, or 0 if it is not given. Raises a 400 `StatusError` if it is no integer."""
    try:
        return parse_number(params.get(name, "0"))
    except ValueError as error:
        raise bad_request(str(error)) from None


def read_options(params: Mapping[str, str], *, forced_watch: bool = False, features: ReadFeatures = USUAL) -> Options:
    """Parse and validate a query. Raises a `StatusError` of 400, 422 or (a watch with a bad resourceVersion) 500."""
    watch = forced_watch or boolean_of(params, "watch")
    version = params.get("resourceVersion", "")
    options = Options(
        watch=watch,
        label_selector=params.get("labelSelector", ""),
        field_selector=params.get("fieldSelector", ""),
        match=params.get("resourceVersionMatch", ""),
        limit=max(0, integer_of(params, "limit")),
        token=params.get("continue", ""),
        timeout=float(integer_of(params, "timeoutSeconds")),
        bookmarks=boolean_of(params, "allowWatchBookmarks"),
        initial_events=boolean_of(params, "sendInitialEvents") if "sendInitialEvents" in params else None,
        shards=Shards(params["shardSelector"]) if features.sharding and "shardSelector" in params else None,
        promoted=features.watch_list,
    )
    if options.watch and options.initial_events is not None and not features.watch_list:
        message = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        raise invalid_options("ListOptions", [_forbid(message, "sendInitialEvents")])
    parse_labels(options.label_selector)  # an API server reports an invalid selector before other errors
    parse_fields(options.field_selector)
    _validate(options, version)
    return replace(options, revision=read_version(version, watch=watch)) if version else options


def read_version(text: str, *, watch: bool = True) -> int:
    """Parse a resourceVersion. Raises a 400 `StatusError` for a LIST, or a 500 without a reason for GET and watch."""
    try:
        return parse_number(text, signed=False)
    except ValueError as error:
        message = f"resourceVersion: Invalid value: {quoted(text)}: {error}"
        raise (internal(message) if watch else bad_request(f"invalid resource version: {message}")) from None


def _forbid(text: str, field: str = "resourceVersionMatch") -> dict[str, str]:
    return cause("FieldValueForbidden", f"Forbidden: {text}", field)


def _unsupported(value: str, supported: str) -> dict[str, str]:
    message = f"Unsupported value: {go_json(value).decode()}: supported values: {supported}"
    return cause("FieldValueNotSupported", message, "resourceVersionMatch")


def _validate(options: Options, version: str) -> None:
    causes = _watch_causes(options, version) if options.watch else _list_causes(options, version)
    if causes:
        raise invalid_options("ListOptions", causes)
    if not options.watch and options.token and version not in ("", "0"):
        ContinueToken.decode(options.token)
        raise bad_request("specifying resource version is not allowed when using continue")


def _watch_causes(options: Options, version: str) -> list[dict[str, str]]:
    causes = []
    match = options.match
    promoted = options.promoted and options.initial_events is None and not match and version in ("", "0")
    if options.initial_events is not None:
        if match != NOT_OLDER_THAN:
            causes.append(_forbid("sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    elif match:
        causes.append(_forbid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"))
    if match and match != NOT_OLDER_THAN:
        causes.append(_unsupported(match, '"NotOlderThan"'))
    if options.token and (match or promoted):
        causes.append(_forbid("resourceVersionMatch is forbidden when continue is provided"))
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
