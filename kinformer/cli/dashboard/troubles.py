"""The troubles of informers by cause, each with its resources and since when, and the resources that are withheld."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from kinformer import APIError, ConnectError, ForbiddenError, NotFoundError, SharedInformer, UnauthorizedError
from kinformer.cli.coverage import is_withheld, withheld_words
from kinformer.cli.dashboard.catalogue import Catalogue
from kinformer.cli.output.errors import error_text

__all__ = ["Troubles"]

_LOOKS = 0.5  # seconds between two checks of the informers, and so the precision of "since"


class Troubles:
    """Records since when informers are not live, and groups them by cause.

    Args:
        informers: Returns the current informers by name.
        catalogue: Used to find the missing rights after a 403. Without it, only the error is shown.
    """

    def __init__(self, informers: Callable[[], Mapping[str, SharedInformer]], catalogue: Catalogue | None) -> None:
        self._informers = informers
        self._catalogue = catalogue
        self._since: dict[str, float] = {}  # of the informers that are not live
        self._missing: dict[str, tuple[str, ...]] = {}  # the verbs that the user may not use, once the server was asked
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False
        self._look()

    def end(self) -> None:
        """Stop checking, because the informers have ended."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._asking.values():
            task.cancel()

    def since(self, name: str) -> float | None:
        """Return the time at which an informer stopped being live, or started. None if it is live."""
        return self._since.get(name)

    def report(self) -> list[dict[str, Any]]:
        """Return the troubles, each with `cause`, `reason`, `since`, `resources` and `synced`.

        `cause` is `unreachable`, `unauthorized`, `forbidden`, `absent` or `failing`. The most widespread comes first.
        Each forbidden resource is a separate trouble, with the missing `rights`. One that the user could never read is
        not a trouble, but `withheld`.
        """
        troubles: dict[tuple[str, str], dict[str, Any]] = {}
        self._note()
        for name, informer in self._informers().items():
            health = informer.health()
            if health.live or health.last_error is None or is_withheld(health):
                continue
            cause, reason, group = _cause(name, health.last_error)
            trouble = troubles.setdefault(
                (cause, group), {"cause": cause, "reason": reason, "resources": [], "rights": self._rights(name)}
            )
            trouble["resources"].append(name)
            trouble["since"] = min(trouble.get("since", self._since[name]), self._since[name])
            trouble["synced"] = trouble.get("synced", False) or health.synced
        return sorted(troubles.values(), key=lambda trouble: (-len(trouble["resources"]), trouble["since"]))

    def withheld(self) -> dict[str, Any]:
        """Return the resources that the user has no right to read as `items`, and their number in words."""
        informers = self._informers()
        items = [
            {"resource": name, "rights": self._rights(name), "reason": error_text(health.last_error)}
            for name, informer in sorted(informers.items())
            if is_withheld(health := informer.health())
        ]
        return {"words": withheld_words(len(items), len(informers)), "items": items}

    def _rights(self, name: str) -> str:
        missing = self._missing.get(name)
        return f"no right to {' and '.join(missing)}" if missing else "a right is missing"

    def _look(self) -> None:
        self._note()
        self._timer = asyncio.get_running_loop().call_later(_LOOKS, self._look)

    def _note(self) -> None:
        now = time.time()
        informers = self._informers()
        for name, informer in informers.items():
            health = informer.health()
            if health.live:
                self._since.pop(name, None)
            else:
                self._since.setdefault(name, now)
            if isinstance(health.last_error, ForbiddenError):
                is_known = name in self._missing or name in self._asking
                if self._catalogue is not None and not is_known and not self._ended:
                    self._ask(name, self._catalogue)
            elif name not in self._asking:
                self._missing.pop(name, None)

    def _ask(self, name: str, catalogue: Catalogue) -> None:
        async def ask() -> None:
            self._missing[name] = await catalogue.missing_rights(name.partition("#")[0])

        task = self._asking[name] = asyncio.create_task(ask(), name=f"kinformer dashboard: rights for {name}")
        task.add_done_callback(lambda _: self._asking.pop(name, None))


def _cause(name: str, error: BaseException) -> tuple[str, str, str]:
    """Return the cause, its reason in words, and the key by which resources share a trouble."""
    if isinstance(error, ConnectError):
        return "unreachable", str(error).partition(": ")[2] or str(error), ""
    if isinstance(error, TimeoutError):
        return "unreachable", "no response in time", ""
    if isinstance(error, ForbiddenError):
        return "forbidden", str(error), name
    if isinstance(error, UnauthorizedError):
        return "unauthorized", str(error), ""
    if isinstance(error, NotFoundError):
        return "absent", str(error), name
    if isinstance(error, APIError):
        return "failing", str(error), str(error.status)
    message = error_text(error) or ""
    return "failing", message, message
