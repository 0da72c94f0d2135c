"""Converts responses and failed requests to results and to errors that name the cause."""

from __future__ import annotations

import email.utils
import os
import re
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kinformer._runtime.json_depth import bounded
from kinformer.connection.aiohttp_internals import system_error
from kinformer.connection.showable import showable_url
from kinformer.exceptions import MALFORMED, APIError, DecodeError, api_error
from kinformer.objects.excerpts import excerpt_of_page, text_of
from kinformer.objects.object import KubeObject
from kinformer.objects.requests.path import RequestPath
from kinformer.objects.types import JSON

__all__ = ["decode_answer", "failure", "most_bytes", "reason_of"]


def reason_of(error: BaseException) -> str:
    """Return only the reason: "connection refused", "the name does not resolve", "TLS: certificate has expired".

    The caller adds the server's host and port. The reason includes a proxy's host and port, which no caller knows. It
    is never empty.
    """
    proxy, cause = system_error(error)
    if cause is not None:
        return f"the proxy {proxy}: {_of_system(cause)}" if proxy else _of_system(cause)
    if isinstance(error, OSError) and (error.errno is not None or isinstance(error, ssl.SSLError)):
        return _of_system(error)
    return str(error) or type(error).__name__


def _of_system(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: certificate verify failed: {error.verify_message or error.reason or error}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason or error}"
    if isinstance(error, socket.gaierror):
        return f"the name does not resolve: {error.strerror or error}"
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:
        # asyncio replaces the system's message with the address.
        words = os.strerror(error.errno)
        return words[:1].lower() + words[1:]
    return str(error) or type(error).__name__


_MOST_OF_ONE = 16 * 1024 * 1024  # bytes of an object, as of an item or an event. Ten times what etcd takes
_MOST = 1024 * 1024 * 1024  # bytes of a list, or of what is not known. A longer response is endless, or needs `stream`
_SPARE = 3  # objects more than a page may have
_DIGITS = 6  # of a number of objects that makes no difference
_DOCUMENTS = ("api", "apis", "version", "readyz", "livez", "healthz")
_OF_OTHERS = ("proxy", "log")  # subresources whose responses come from a program


def most_bytes(method: str, path: str, params: Mapping[str, str]) -> int:
    """Return the limit of a response that is read as a whole, by its kind: an object, a page, a list, a document."""
    target = RequestPath.of(path)
    if target is None:
        return _MOST_OF_ONE if path.strip("/").partition("/")[0] in _DOCUMENTS else _MOST
    if target.subresource in _OF_OTHERS:
        return _MOST
    if target.name or method not in ("GET", "DELETE"):
        return _MOST_OF_ONE
    page = str(params.get("limit", ""))  # a program that is not type-checked passes an int, which aiohttp takes
    size = int(page) if page.isdecimal() and len(page) < _DIGITS else 0  # 0 is no limit
    return min(_MOST, (size + _SPARE) * _MOST_OF_ONE) if size else _MOST


_decode: Callable[[bytes], JSON] = bounded(msgspec.json.Decoder().decode)


def decode_answer(body: bytes) -> KubeObject | dict[str, Any]:
    """Decode a body to a KubeObject if it is one, or to a dict for lists, a Status, versions and an empty body.

    Raises:
        DecodeError: The body is not a JSON object. The message quotes the beginning of other text.
    """
    if not body.strip():
        return {}
    try:
        document = _decode(body)
    except MALFORMED as error:
        raise DecodeError(f"the response is not JSON: {error}: {excerpt_of_page(body)}") from error
    if not isinstance(document, dict):
        raise DecodeError(f"the response is not a JSON object: {excerpt_of_page(body)}")
    metadata = document.get("metadata")
    is_object = isinstance(metadata, dict) and bool(metadata.get("name"))
    if is_object and document.get("apiVersion") and document.get("kind") not in (None, "", "Status"):
        return KubeObject.from_json(body)
    return document


def failure(status: int, headers: Mapping[str, str], body: bytes, reason: str = "") -> APIError:
    """Create the error for a response with a status other than 2xx.

    The body is parsed as a Status if it looks like one, whatever its Content-Type, because the Status of a request
    timeout has neither Content-Type nor kind (apiserver, pkg/server/filters/timeout.go). Otherwise it is quoted
    without HTML tags. `reason` is appended to its message. The code is the HTTP status. `Retry-After` takes precedence
    over `details.retryAfterSeconds`.
    """
    try:
        parsed = _decode(body) if body.lstrip()[:1] == b"{" else None
    except MALFORMED:
        parsed = None  # quoted below, like any other body
    retry_after = _retry_after(headers)
    if not isinstance(parsed, dict) or not (parsed.get("kind") == "Status" or "status" in parsed):
        message = text_of(body)
        if 300 <= status < 400:
            message = f"the server redirects to {_place(headers.get('Location', ''))}; configure that URL instead"
        return api_error(status, "", _joined(message, reason), retry_after)
    details = parsed.get("details")
    details = details if isinstance(details, dict) else {}
    seconds = details.get("retryAfterSeconds")
    if retry_after is None and isinstance(seconds, int | float) and seconds is not True and seconds > 0:
        retry_after = seconds
    message = _joined(str(parsed.get("message") or ""), reason)
    return api_error(status, str(parsed.get("reason") or ""), message, retry_after, details)


def _joined(*parts: str) -> str:
    return "; ".join(filter(None, parts))


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return seconds from now. A date is relative to the server's clock if it sends its time (RFC 9110, 10.2.3)."""
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    if re.fullmatch(r"\+?[0-9]{1,9}(\.[0-9]+)?", value):
        return float(value)
    then, now = _seconds(value), _seconds(headers.get("Date", ""))
    return None if then is None else max(0.0, then - (time.time() if now is None else now))


def _seconds(date: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp()
    except Exception:  # noqa: BLE001 - for a year, a day or a zone out of range it raises four types of errors
        return None


def _place(location: str) -> str:
    return showable_url(location).partition("?")[0] if location else "another place"
