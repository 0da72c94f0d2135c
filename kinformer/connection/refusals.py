"""The refusals of a server that end a wait: 401, 403 and 404, and a resource that cannot be watched."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Protocol

from kinformer.exceptions import APIError, KinformerError, NotWatchableError, ScopeError

__all__ = ["FINAL", "Answers", "Refusals", "refuses"]

_STATUSES = (401, 403, 404)
_REPEATED = 2  # the first one may come from a token that is being renewed, or a role that is just being created
_LASTING = 4
_LONG = 15.0  # seconds, because an API server that starts answers 403 until its roles are loaded


FINAL = (NotWatchableError, ScopeError)
"""The errors that no wait changes."""


def refuses(error: BaseException | None) -> bool:
    """True if the server answered 401, 403 or 404."""
    return isinstance(error, APIError) and error.status in _STATUSES


class _Health(Protocol):
    @property
    def synced(self) -> bool: ...


class _Source(Protocol):
    """The source of answers: a reflector, whose health says whether it has synced."""

    @property
    def has_followed(self) -> bool: ...

    def health(self) -> _Health: ...


class Answers:
    """The answers to the requests of one source. `note` changes everything here, once per answer.

    Attributes:
        last: The last answer, if it is a refusal.
        at: The time of the last answer, on the loop's clock.
        is_final: True if no wait changes it, because the resource cannot be watched, or has no namespaces.
        is_repeated: True if the last answer is a refusal, and not the first one with its status.
        is_lasting: True if there have been at least 4 refusals for at least 15 s, and nothing else in between.
    """

    def __init__(self) -> None:
        self.last: KinformerError | None = None
        self.is_final = False
        self.is_repeated = False
        self.is_lasting = False
        self.at = 0.0
        # The refusals since the last other answer: by status, the time of the first one, and their number.
        self._counts: Counter[int] = Counter()
        self._since = 0.0
        self._alone = 0

    def note(self, error: BaseException | None) -> None:
        """Record an answer: its error, or None for a success."""
        self.at = now = asyncio.get_running_loop().time()
        self.is_final = isinstance(error, FINAL)
        if not isinstance(error, APIError) or not refuses(error):
            self.last = error if isinstance(error, FINAL) else None
            self.is_repeated = self.is_lasting = False
            return
        if self.last is None:
            self._since, self._alone = now, 0
        self.last = error
        self._alone += 1
        self._counts[error.status] += 1
        self.is_repeated = self._counts[error.status] >= _REPEATED
        self.is_lasting = self._alone >= _LASTING and now - self._since >= _LONG


class Refusals:
    """The answers 401, 403 and 404 to the requests of one informer, which end a wait for its first sync.

    `fail_fast=True` ends it at the second one. None ends it once there has been nothing else for 15 s, in at least 4
    answers of which the last one came during the wait. False never does. A resource that cannot be watched, or not in
    a namespace, ends each wait. A wait goes on after the first list until a watch is open, if the last answer before
    was a refusal.

    Args:
        name: The name of the informer.
        optional: True if the informer does without the resource. Then None never ends a wait.
    """

    def __init__(self, name: str, *, optional: bool = False) -> None:
        self.name = name
        self._optional = optional
        self._answers: dict[_Source, Answers] = {}

    def note(self, source: _Source, error: BaseException) -> None:
        """Record the error of a request or a stream of a source."""
        self._answers.setdefault(source, Answers()).note(error)

    def forget(self, source: _Source) -> None:
        """Forget a source that is no longer waited for."""
        self._answers.pop(source, None)

    def clear(self) -> None:
        """Forget all sources, because there will be no further answer."""
        self._answers.clear()

    @property
    def last(self) -> KinformerError | None:
        """The refusal that prevents the sync of a source, or that its watch got last, or None."""
        return next((answers.last for answers in self._preventing(True)), None)

    def prevent(self, fail_fast: bool | None) -> bool:
        """Return True if a refusal prevents the sync of a source, or has met its watch alone, and may end the wait."""
        return bool(self._preventing(fail_fast))

    def ended_by(self, fail_fast: bool | None, since: float) -> KinformerError | None:
        """Return the refusal that ends a wait which began at `since`, or None."""
        for answers in self._preventing(fail_fast):
            is_enough = answers.is_repeated if fail_fast else answers.is_lasting and answers.at >= since
            if is_enough or answers.is_final:
                return answers.last
        return None

    def _preventing(self, fail_fast: bool | None) -> list[Answers]:
        final_only = fail_fast is False or (fail_fast is None and self._optional)
        preventing = []
        for source, answers in self._answers.items():
            is_over = answers.last is None or (source.has_followed and source.health().synced)
            if not is_over and (answers.is_final or not final_only):
                preventing.append(answers)
        return preventing
