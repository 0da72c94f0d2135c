"""URLs of requests: a path is sent as it is written, or refused. It is never shortened.

URL libraries remove `.` and `..`, and servers treat an empty name as the collection. So a name from an object's spec
could make a request for one object a request for all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote

from yarl import URL

from kinformer.exceptions import ConfigError

__all__ = ["request_url"]

# Everything that a path or a query may contain unquoted (RFC 3986), and `%`, since the path may be quoted already.
_AS_WRITTEN = "/:@!$&'()*+,;=~%?"


def request_url(server: str, path: str, params: Mapping[str, str] | None = None, *, method: str = "GET") -> URL:
    """Return the URL of a path below the URL of a server.

    Args:
        server: The server's URL, which may have a path of its own.
        path: The path, and perhaps a query. Segments are expected in quoted form. Characters that no URL may contain
            are quoted.
        params: Query parameters, in addition to those in `path`.
        method: Writes are also refused with a trailing slash, which means the collection to a server.

    Raises:
        ConfigError: The path does not begin with a slash, or a segment is empty, `.` or `..`, in quoted form too.
    """
    wrong = _fault(path, method)
    if wrong:
        raise ConfigError(f"invalid path {path!r}: {wrong}")
    try:
        written = quote(path, safe=_AS_WRITTEN)
    except UnicodeEncodeError as error:
        raise ConfigError(f"invalid path {path!r}: {error.reason}") from None
    url = URL(str(URL(server)).rstrip("/") + written, encoded=True)
    return url.update_query(params) if params else url


def _fault(path: str, method: str) -> str:
    if not path.startswith("/"):
        return "must begin with a slash"
    segments = [unquote(segment) for segment in path.partition("?")[0].split("/")[1:]]
    if any(segment in (".", "..") for segment in segments):
        return "a segment '.' or '..' would make it another path"
    if "" in segments[:-1] or (segments[-1] == "" and method not in ("GET", "HEAD")):
        return "a segment is empty, as if a name were missing"
    return ""
