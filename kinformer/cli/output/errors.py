"""Exit statuses, and the error line on stderr."""

from __future__ import annotations

import os
import re
import sys

from kinformer.cli.output.text import clean

__all__ = [
    "BROKEN_PIPE",
    "FAILED",
    "INTERRUPTED",
    "TERMINATED",
    "USAGE",
    "complain",
    "ended_by",
    "error_text",
    "one_line",
]

FAILED = 1
USAGE = 2
INTERRUPTED = 130  # 128 + SIGINT, as shells expect after Ctrl-C
TERMINATED = 143  # 128 + SIGTERM, for a command whose 0 means that a condition holds
BROKEN_PIPE = 141  # 128 + SIGPIPE, for example after `kinformer watch --once pods | head`

_NO_TLS = "TLS: WRONG_VERSION_NUMBER"
_OPENSSL = re.compile(r"TLS: [A-Z][A-Z0-9]*(_[A-Z0-9]+)+")  # OpenSSL's name of a reason


def complain(error: BaseException | str, status: int = FAILED) -> int:
    """Print an error to stderr, in one line, and return `status`."""
    print(f"kinformer: {one_line(error)}", file=sys.stderr)
    return status


def ended_by(error: OSError) -> int:
    """Return the status for a failed read or write. Remaining output to stdout is dropped."""
    status = BROKEN_PIPE if isinstance(error, BrokenPipeError) else complain(error)
    try:
        sys.stdout.flush()
    except OSError:
        _close_stdout()
    return status


def one_line(error: BaseException | str) -> str:
    """Return the message of an error without control characters, or its type if there is no message.

    System and OpenSSL errors are described in words.
    """
    message = str(error)
    if isinstance(error, OSError) and error.errno is not None and error.strerror:
        reason = error.strerror[:1].lower() + error.strerror[1:]
        message = f"{error.filename}: {reason}" if error.filename else reason
    message = message.replace(_NO_TLS, "the server does not speak TLS there; try http:// instead of https://")
    message = _OPENSSL.sub(lambda match: match[0].lower().replace("_", " ").replace("tls", "TLS"), message)
    return clean(" ".join(message.split())) or type(error).__name__


def error_text(error: BaseException | None) -> str | None:
    """Return an error's message with its type, unless the message begins with a status. None for None."""
    from kinformer import APIError  # imported here, because help needs only the rest of this module

    if error is None:
        return None
    return f"{error}" if isinstance(error, APIError) else f"{type(error).__name__}: {error}"


def _close_stdout() -> None:
    # The interpreter flushes stdout again when it exits, and would report the failure (Python documentation,
    # library/signal, "Note on SIGPIPE").
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # stdout is not a file, because a test has replaced it
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
