"""A progress line on stderr, on a terminal only, while a large list loads."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["Loading"]

_PATIENCE = 0.4  # seconds before anything is shown: most lists take less, and a flash would only disturb


class Loading:
    """A spinner with a text; leaving removes it.

    Args:
        what: The thing that is being loaded, such as "pods".
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._since = time.monotonic()
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._wanted = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def update(self, text: str) -> None:
        """Show how far it has come, such as "12.4 MB"."""
        if not self._wanted or time.monotonic() - self._since < _PATIENCE:
            return
        if self._progress is None:
            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                TimeElapsedColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task(self._what, total=None)
            self._progress.start()
        if self._task is not None:
            self._progress.update(self._task, description=f"loading {self._what}: {text}")
