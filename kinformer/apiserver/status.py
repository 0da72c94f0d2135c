"""The Status bodies of an API server's failures, worded as in kube-apiserver, and JSON as Go encodes it.

Messages, reasons and key order follow apimachinery/pkg/api/errors/errors.go and were compared with the responses of a
v1.36 server.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from kinformer.exceptions import APIError, api_error

__all__ = [
    "Causes",
    "Document",
    "StatusError",
    "already_exists",
    "bad_request",
    "cause",
    "conflict",
    "expired",
    "failure",
    "forbidden",
    "internal",
    "invalid",
    "invalid_options",
    "method_not_allowed",
    "missing_resource",
    "not_acceptable",
    "not_found",
    "page_not_found",
    "qualified",
    "quoted",
    "success",
    "timeout_too_large",
    "unauthorized",
]

Causes = list[dict[str, str]]  # the causes of a failure with the reason Invalid
Document = dict[str, Any]

_QUOTED = {char: f"\\{letter}" for char, letter in zip('"\\\a\b\f\n\r\t\v', '"\\abfnrtv', strict=True)}

REASONS: dict[int, str] = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    406: "NotAcceptable",
    409: "Conflict",
    410: "Expired",
    413: "RequestEntityTooLarge",
    415: "UnsupportedMediaType",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
TOO_OLD_LIST = "The resourceVersion for the provided list is too old."
TOO_OLD_CONTINUE = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter, or use the continue token in this response to retrieve the remainder of the results."
    " Continuing with the provided token results in an inconsistent list - objects that were created, modified, or"
    " deleted between the time the first chunk was returned and now may show up in the list."
)
CHANGED = "the object has been modified; please apply your changes to the latest version and try again"


class StatusError(Exception):
    """A failure response. `body` is a Status (a dict, sent as JSON) or a string (sent as text/plain)."""

    def __init__(self, code: int, body: Document | str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(code, body)
        self.code = code
        self.body = body
        self.headers = dict(headers or {})

    def __str__(self) -> str:
        return self.body if isinstance(self.body, str) else str(self.body.get("message", self.code))

    def to_api_error(self) -> APIError:
        """Return the exception that a kinformer client raises for this failure."""
        if isinstance(self.body, str):
            return api_error(self.code, "", self.body)
        details = self.body.get("details") or {}
        return api_error(
            self.code,
            self.body.get("reason", ""),
            self.body.get("message", ""),
            details.get("retryAfterSeconds"),
            details,
        )


def failure(
    code: int,
    message: str,
    *,
    reason: str | None = None,
    details: Mapping[str, object] | None = None,
    metadata: Mapping[str, object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> StatusError:
    """Return a Failure. The reason defaults to the code's usual one ("" omits the key)."""
    body: Document = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": dict(metadata or {}),
        "status": "Failure",
        "message": message,
    }
    reason = REASONS.get(code, "") if reason is None else reason
    if reason:
        body["reason"] = reason
    if details is not None:
        body["details"] = dict(details)
    body["code"] = code
    sent = dict(headers or {})
    if details and details.get("retryAfterSeconds"):
        sent.setdefault("Retry-After", str(details["retryAfterSeconds"]))
    return StatusError(code, body, headers=sent)


def success(*, details: Mapping[str, object] | None = None, code: int | None = None) -> Document:
    """Return a Status with status Success."""
    body: Document = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    if details is not None:
        body["details"] = dict(details)
    if code is not None:
        body["code"] = code
    return body


def _details(group: str, kind: str, name: str = "") -> Document:
    details: Document = {}
    if name:
        details["name"] = name
    if group:
        details["group"] = group
    if kind:
        details["kind"] = kind
    return details


def qualified(group: str, resource: str) -> str:
    """Return `pods` for the core group, and `widgets.example.com` for others."""
    return f"{resource}.{group}" if group else resource


def cause(reason: str, message: str, field: str) -> dict[str, str]:
    """Return a cause of an Invalid. `reason` is, for example, FieldValueRequired."""
    return {"reason": reason, "message": message, "field": field}


def quoted(text: str) -> str:
    """Return a text as Go's `%q` writes it."""
    return f'"{"".join(map(_quoted, text))}"'


def _quoted(char: str) -> str:
    if char in _QUOTED:
        return _QUOTED[char]
    if char == " " or unicodedata.category(char)[0] in "LMNPS":
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def invalid(group: str, kind: str, name: str, causes: Sequence[Mapping[str, str]]) -> StatusError:
    """Return a 422 with its causes. Several causes are put in brackets (validation/field ErrorList)."""
    messages = list(dict.fromkeys(f"{cause['field']}: {cause['message']}" for cause in causes))
    listed = messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]"
    details = _details(group, kind, name)
    details["causes"] = [dict(cause) for cause in causes]
    return failure(422, f'{qualified(group, kind)} "{name}" is invalid: {listed}', details=details)


def invalid_options(kind: str, causes: Sequence[Mapping[str, str]]) -> StatusError:
    """Return a 422 about query options: ListOptions, PatchOptions of group meta.k8s.io."""
    return invalid("meta.k8s.io", kind, "", causes)


def not_found(group: str, resource: str, name: str) -> StatusError:
    """Return a 404 for one object."""
    message = f"{qualified(group, resource)} {quoted(name)} not found"
    return failure(404, message, details=_details(group, resource, name))


def missing_resource() -> StatusError:
    """Return a 404 as JSON: the group version is served, but the resource is not."""
    return failure(404, "the server could not find the requested resource", details={})


def page_not_found() -> StatusError:
    """Return a 404 in plain text, for a path that is not served."""
    return StatusError(404, "404 page not found\n", headers={"X-Content-Type-Options": "nosniff"})


def already_exists(group: str, resource: str, name: str, *, terminating: bool = False) -> StatusError:
    """Return a 409 for a create."""
    prefix = "object is being deleted: " if terminating else ""
    message = f'{prefix}{qualified(group, resource)} "{name}" already exists'
    return failure(409, message, reason="AlreadyExists", details=_details(group, resource, name))


def conflict(group: str, resource: str, name: str, message: str = CHANGED) -> StatusError:
    """Return a 409 for an update or a precondition."""
    sentence = f'Operation cannot be fulfilled on {qualified(group, resource)} "{name}": {message}'
    return failure(409, sentence, details=_details(group, resource, name))


def bad_request(message: str) -> StatusError:
    """Return a 400."""
    return failure(400, message)


def internal(message: str, *, reason: str = "") -> StatusError:
    """Return a 500. kube-apiserver gives no reason for an unclassified error."""
    return failure(500, message, reason=reason)


def method_not_allowed() -> StatusError:
    """Return a 405."""
    return failure(405, "the server does not allow this method on the requested resource", details={})


def not_acceptable(message: str) -> StatusError:
    """Return a 406."""
    return failure(406, message)


def unauthorized() -> StatusError:
    """Return a 401."""
    return failure(401, "Unauthorized")


def forbidden(group: str, resource: str, name: str, text: str) -> StatusError:
    """Return a 403. `text` names the user and the forbidden action."""
    subject = qualified(group, resource) + (f' "{name}"' if name else "")
    return failure(
        403,
        f"{subject} is forbidden: {text}",
        details=_details(group, resource, name),
        headers={"X-Content-Type-Options": "nosniff"},
    )


def expired(message: str, *, token: str = "") -> StatusError:
    """Return a 410, with a fresh continue token if the list can continue inconsistently."""
    return failure(410, message, metadata={"continue": token} if token else None)


def timeout_too_large(requested: int, current: int) -> StatusError:
    """Return a 504 for a resourceVersion that this server has not reached (apiserver/pkg/storage/errors.go)."""
    return failure(
        504,
        f"Timeout: Too large resource version: {requested}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )
