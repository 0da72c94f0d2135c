"""The log of a container as lines, which are read as they arrive."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack

from kinformer._runtime.clock import YieldBudget
from kinformer.connection.connection import Connection
from kinformer.exceptions import ConfigError, NotFoundError
from kinformer.objects.meta import GroupVersionResource, split_meta_namespace_key
from kinformer.verbs.targets import about

__all__ = ["MAX_LINE_BYTES", "log_batches"]

MAX_LINE_BYTES = 1024 * 1024
_SLICE = 32 * 1024  # bytes that are cut into lines at once, which takes up to a millisecond

_PODS = GroupVersionResource("", "v1", "pods")


def log_batches(
    client: Connection, key: str, *, container: str | None, previous: bool, follow: bool, tail: int | None
) -> AsyncGenerator[list[str], None]:
    """Return the lines of a log, in lists of those that arrived together. See `Client.logs`.

    Raises:
        ConfigError: The key or `tail` is invalid.
    """
    try:
        namespace, name = split_meta_namespace_key(key)
    except ValueError as error:
        raise ConfigError(f"logs: {error}") from None
    if not namespace:
        raise ConfigError(f"logs: the key {key!r} has no namespace: expected 'namespace/name' of a pod")
    if tail is not None and (isinstance(tail, bool) or not isinstance(tail, int) or tail < 0):
        raise ConfigError(f"logs of {key}: invalid tail={tail!r}: expected a whole number, 0 or more")
    params = {
        **({} if container is None else {"container": container}),
        **({"previous": "true"} if previous else {}),
        **({"follow": "true"} if follow else {}),
        **({} if tail is None else {"tailLines": str(tail)}),
    }
    return _read(client, _PODS.path(namespace, name, "log"), params, f"logs of {key}")


async def _read(client: Connection, path: str, params: dict[str, str], what: str) -> AsyncGenerator[list[str], None]:
    lines, budget = _Lines(), YieldBudget()
    async with AsyncExitStack() as stack:
        try:
            body = await stack.enter_async_context(client.stream(path, params, accept="*/*"))
        except NotFoundError as error:
            raise about(error, what) from None
        while chunk := await body.read():
            for start in range(0, len(chunk), _SLICE):
                batch = lines.feed(chunk[start : start + _SLICE])
                if batch:
                    yield batch
                if budget.exhausted():
                    await budget.pause()
        rest = lines.close()
        if rest:
            yield rest


class _Lines:
    """Cuts chunks into lines, and keeps at most one unfinished line of `MAX_LINE_BYTES`."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, chunk: bytes) -> list[str]:
        """Return the lines that are complete, and parts of a line that is too long."""
        end = chunk.rfind(b"\n")
        if end < 0:
            self._rest += chunk
            return self._parts()
        whole = bytes(self._rest) + chunk[:end]
        self._rest = bytearray(chunk[end + 1 :])
        return [part for line in whole.split(b"\n") for part in _cut(line)]

    def close(self) -> list[str]:
        """Return the last line, if it has no line break."""
        rest, self._rest = bytes(self._rest), bytearray()
        return _cut(rest) if rest else []

    def _parts(self) -> list[str]:
        parts: list[str] = []
        while len(self._rest) > MAX_LINE_BYTES:
            end = _boundary(self._rest)
            parts.append(self._rest[:end].decode(errors="replace"))
            del self._rest[:end]
        return parts


def _cut(line: bytes) -> list[str]:
    line = line.removesuffix(b"\r")  # containers on Windows end lines with it
    parts: list[str] = []
    while len(line) > MAX_LINE_BYTES:
        end = _boundary(line)
        parts.append(line[:end].decode(errors="replace"))
        line = line[end:]
    return [*parts, line.decode(errors="replace")]


def _boundary(line: bytes | bytearray) -> int:
    """Return the length of a part that ends between two characters."""
    for end in range(MAX_LINE_BYTES, MAX_LINE_BYTES - 4, -1):
        if line[end] & 0xC0 != 0x80:
            return end
    return MAX_LINE_BYTES  # not UTF-8
