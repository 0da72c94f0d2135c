"""The event loop that something belongs to, and the error for a call from anywhere else."""

from __future__ import annotations

import asyncio
import threading

__all__ = ["require_loop"]


def require_loop(loop: asyncio.AbstractEventLoop | None, method: str, owner: str) -> None:
    """Raise RuntimeError unless `loop` runs in this thread; None is the loop of what has not been entered yet.

    Args:
        loop: The loop that the owner was entered on.
        method: The name of what was called.
        owner: What it was called on, such as `"informer v1/pods"`.
    """
    if loop is None:
        return
    try:
        running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop:
        return
    if running is not None:
        raise RuntimeError(
            f"{method}: {owner} belongs to another event loop; call it there, by asyncio.run_coroutine_threadsafe"
        )
    raise RuntimeError(
        f"{method}: {owner} belongs to the event loop that it was entered on, and this is the thread "
        f"{threading.current_thread().name}; hand a coroutine to that loop with asyncio.run_coroutine_threadsafe, or "
        "use kinformer.blocking, which may be called from any thread"
    )
