"""The log of a server's requests, for tests. A server that runs for a day keeps the newest ones."""

from __future__ import annotations

from typing import NamedTuple

from kinformer.testing.api.request import RequestInfo, read_request

__all__ = ["LoggedRequest", "RequestLog"]

MOST = 20_000  # 15 MB


class LoggedRequest(NamedTuple):
    """One entry of `APIServer.requests`. `status` is 0 if the request got no response."""

    method: str
    path: str
    params: dict[str, str]
    user: str
    status: int

    @property
    def info(self) -> RequestInfo:
        """What RBAC decides about: `verb`, `group`, `plural`, `subresource`, `name`. `plural` may be empty."""
        return read_request(self.method, self.path, self.params)


class RequestLog(list[LoggedRequest]):
    """A list of requests, oldest first. Of more than 20,000, the oldest are dropped.

    Attributes:
        dropped: The number of dropped requests.
    """

    dropped = 0

    def append(self, request: LoggedRequest) -> None:
        """Append a request, and drop the oldest of too many."""
        super().append(request)
        if len(self) > MOST:
            del self[0]
            self.dropped += 1
