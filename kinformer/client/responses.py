"""Turns responses, and failures to get one, into errors that name the cause."""

from __future__ import annotations

import email.utils
import os
import re
import socket
import ssl
import time
from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

from kinformer.exceptions import MALFORMED, APIError, DecodeError, api_error
from kinformer.objects.object import KubeObject

__all__ = ["decode_answer", "failure", "reason_of"]


def reason_of(error: BaseException) -> str:
    """The reason alone: "connection refused", "the name does not resolve", "TLS: certificate has expired".

    Host and port are the caller's to name, but for those of a proxy, which nobody else names. Never empty.
    """
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"the proxy {error.host}:{error.port}: {_of_system(error.os_error)}"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _of_system(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return _of_system(error.os_error)
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
        # asyncio puts the address in the place of the kernel's words.
        words = os.strerror(error.errno)
        return words[:1].lower() + words[1:]
    return str(error) or type(error).__name__


_EXCERPT = 300  # characters of a text that an error quotes
_decode = msgspec.json.Decoder().decode


def decode_answer(body: bytes) -> KubeObject | dict[str, Any]:
    """A KubeObject where the body is one; a dict for lists, a Status, versions and an empty body.

    Raises:
        DecodeError: The body is no JSON object; the text quotes its beginning.
    """
    if not body.strip():
        return {}
    try:
        document = _decode(body)
    except MALFORMED as error:
        raise DecodeError(f"the answer is not JSON: {error}: {_excerpt(body)!r}") from error
    if not isinstance(document, dict):
        raise DecodeError(f"the answer is no JSON object: {_excerpt(body)!r}")
    metadata = document.get("metadata")
    is_object = isinstance(metadata, dict) and bool(metadata.get("name"))
    if is_object and document.get("apiVersion") and document.get("kind") not in (None, "", "Status"):
        return KubeObject.from_json(body)
    return document


def failure(status: int, headers: Mapping[str, str], body: bytes) -> APIError:
    """The error that an answer other than 2xx stands for.

    The body is believed to be a Status if it looks like one, whatever its Content-Type: that of the request
    timeout comes without one, and without a kind (apiserver, pkg/server/filters/timeout.go). Else it is quoted,
    tags removed. The code is that of HTTP; `Retry-After` wins over `details.retryAfterSeconds`.
    """
    try:
        parsed = _decode(body) if body.lstrip()[:1] == b"{" else None
    except MALFORMED:
        parsed = None  # quoted below, as any other text
    retry_after = _retry_after(headers)
    if not isinstance(parsed, dict) or not (parsed.get("kind") == "Status" or "status" in parsed):
        message = _excerpt(body)
        if 300 <= status < 400:
            message = f"the server sends us to {_place(headers.get('Location', ''))}; configure that URL"
        return api_error(status, "", message, retry_after)
    details = parsed.get("details")
    details = details if isinstance(details, dict) else {}
    seconds = details.get("retryAfterSeconds")
    if retry_after is None and isinstance(seconds, int | float) and seconds > 0:
        retry_after = seconds
    return api_error(status, str(parsed.get("reason") or ""), str(parsed.get("message") or ""), retry_after, details)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds from now; a date is read against the server's own clock where it tells (RFC 9110, 10.2.3)."""
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    if re.fullmatch(r"\d{1,9}(\.\d+)?", value):
        return float(value)
    then, now = _seconds(value), _seconds(headers.get("Date", ""))
    return None if then is None else max(0.0, then - (time.time() if now is None else now))


def _seconds(date: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError):
        return None


def _excerpt(body: bytes) -> str:
    text = body[: 16 * _EXCERPT].decode(errors="replace")
    if "<" in text[:200]:
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        text = title[1] if title else re.sub(r"<(script|style).*?</\1>|<[^>]*>", " ", text, flags=re.DOTALL)
    text = " ".join(text.split())
    return text if len(text) <= _EXCERPT else f"{text[:_EXCERPT]}..."


def _place(location: str) -> str:
    # The query of a login page may hold a secret.
    return location.partition("?")[0] or "another place"
