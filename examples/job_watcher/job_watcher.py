"""An executor's watcher of its pods: a process of its own, whose results come through a queue.

    watcher = JobWatcher("executor=one")
    watcher.start()
    result = watcher.results.get()

See docs/recipes/job-watcher.md.
"""

from __future__ import annotations

import multiprocessing
import queue
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from kinformer import InformerEvent, KubeObject, NotFoundError, blocking

_PROCESSES = multiprocessing.get_context("spawn")  # a fork of a program with threads may hang


@dataclass(frozen=True, slots=True)
class Result:
    """The state of a pod, which may be told more than once.

    Attributes:
        state: `pending`, `running`, `succeeded`, `failed`, `deleted`, or `adopted` by another executor, which has
            relabelled the pod; `synced`, of no pod: all that exist have been told.
        key: `namespace/name`.
        uid: That of the pod: another one may get its name.
        exit_code: Of the first container that failed; None otherwise.
    """

    state: str
    key: str = ""
    uid: str = ""
    exit_code: int | None = None


def state_of(pod: KubeObject) -> Result:
    """Return what an executor needs to know of a pod that exists."""
    codes = pod.path("status.containerStatuses[*].state.terminated.exitCode", [])
    failed = next((code for code in codes if code), None)
    return Result(pod.path("status.phase", "Pending").lower(), pod.key, pod.uid, failed)


def result_of(event: InformerEvent, get: Callable[[KubeObject], KubeObject | None]) -> Result | None:
    """Return what has changed for an executor; None if nothing has.

    Args:
        event: Of an informer with the executor's selector.
        get: Returns a pod as the server has it, whatever its labels are.
    """
    pod: KubeObject = event.object
    if event.type != "DELETED":
        result = state_of(pod)
        return None if event.old is not None and result == state_of(event.old) else result
    if pod.deletion_timestamp is None:
        # It has lost a label, or was deleted without a grace period or unseen. The watch cannot tell, the server can.
        now = get(pod)
        if now is not None and now.uid == pod.uid and now.deletion_timestamp is None:
            return Result("adopted", pod.key, pod.uid)
    last = state_of(pod)
    return last if last.state in ("succeeded", "failed") else Result("deleted", pod.key, pod.uid)


class JobWatcher:
    """Follows pods in a process of its own, once: another run takes another one, whose queue is empty.

    Args:
        selector: The labels of the executor's pods.
        namespaces: The namespaces that they are in; None is all.

    Attributes:
        results: A queue of `Result`s: first the state of each pod that exists, then `synced`, then each change.
    """

    def __init__(self, selector: str, namespaces: list[str] | None = None) -> None:
        self.results: multiprocessing.Queue[Result] = _PROCESSES.Queue(maxsize=10_000)
        self._live = _PROCESSES.Value("b", 0)
        arguments = (selector, namespaces, self.results, self._live)
        self._process = _PROCESSES.Process(target=follow, args=arguments, name="job-watcher", daemon=True)

    def start(self) -> None:
        """Start the process."""
        self._process.start()

    @property
    def exit_status(self) -> int | None:
        """None while the process runs. An executor that finds another value starts another watcher."""
        return self._process.exitcode

    @property
    def live(self) -> bool:
        """True if the process follows the server, and not only runs."""
        return self.exit_status is None and bool(self._live.value)

    def stop(self, timeout: float = 10) -> None:
        """End the process; results that were not read are dropped."""
        self._process.terminate()
        self._process.join(timeout)


def follow(selector: str, namespaces: list[str] | None, results: Any, live: Any) -> None:
    """Put results into the queue until SIGTERM, or until the executor has ended. It is what the process runs."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the executor's
    try:
        with blocking.Informers(namespaces=namespaces) as informers:
            pods = informers.for_resource("v1/pods", label_selector=selector)
            pods.wait_synced(timeout=60, fail_fast=True)
            with pods.events() as events:
                _pass_on(informers, pods, events, results, live)
    finally:
        results.cancel_join_thread()  # a process that ends does not wait for a reader


def _pass_on(informers: blocking.Informers, pods: blocking.Informer, events: Any, results: Any, live: Any) -> None:
    executor = multiprocessing.parent_process()
    synced = False

    def get(pod: KubeObject) -> KubeObject | None:
        try:
            return informers.get("v1/pods", pod.key)
        except NotFoundError:
            return None

    def put(result: Result) -> None:
        while executor is None or executor.is_alive():
            with suppress(queue.Full):  # the executor is behind; the informer folds changes meanwhile
                results.put(result, timeout=1)
                return
        sys.exit("the executor has ended")

    while executor is None or executor.is_alive():
        live.value = pods.health().live
        if events.has_synced and not synced:
            synced = True
            put(Result("synced"))
        with suppress(TimeoutError):
            if (result := result_of(events.get(timeout=0.2), get)) is not None:
                put(result)
