"""One run of a controller: from events to reconciles, and from their results back to the queue."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial

from kinformer._runtime.backoff import RETRY_AFTER_CAP
from kinformer._runtime.cancellation import guarded, shielded_from_scopes
from kinformer._runtime.clock import UserFunction, YieldBudget, in_steps
from kinformer._runtime.fence import check_fences
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.request_context import Write, logged_writes
from kinformer._runtime.tasks import Tasks
from kinformer.controller.metrics import ControllerMetrics
from kinformer.controller.options import ControllerOptions
from kinformer.controller.own_writes import WAIT_LIMIT, OwnWrites, object_in
from kinformer.controller.reconcile import Reason, ReconcileFunction, Request, Result
from kinformer.controller.sources import ControllerSource, SourceFeed, has_clusters, keys_have_clusters
from kinformer.exceptions import (
    APIError,
    ConflictError,
    KinformerError,
    LeadershipLostError,
    TemporaryError,
    TerminalError,
)
from kinformer.informer.collection import core_of
from kinformer.informer.core import CollectionCore
from kinformer.informer.freshness.freshness import Freshness, too_old
from kinformer.processor.first_sync import FirstSync
from kinformer.workqueue.delaying_queue import RateLimitingQueue

__all__ = ["ControllerRun"]

log = get_logger("kinformer.controller")

_REASONS = 8  # the most reasons that a request has
_RETRY = Reason("RETRY")
_REQUEUE = Reason("REQUEUE")


class ControllerRun:
    """The queue, the feeds and the reconciles, from the start of `Controller.run` to its end.

    When a worker is free, a dispatcher takes a key from the queue and starts a task for its reconcile. So each
    reconcile has its own context, and a name in a dump of tasks. At most `workers` of them run at once.

    Attributes:
        abandoned: Reconciles of this and earlier runs that continued after they were cancelled, by key. Their keys wait
            for them, because a key never has more than one reconcile.
    """

    def __init__(
        self,
        name: str,
        reconcile: ReconcileFunction,
        sources: Sequence[ControllerSource],
        options: ControllerOptions,
        metrics: ControllerMetrics,
        queue: RateLimitingQueue[str],
        abandoned: Mapping[str, asyncio.Task[None]],
    ) -> None:
        self._name = name
        self._reconcile = reconcile
        self._options = options
        self._metrics = metrics
        self.queue = queue
        self._has_synced = False
        cores = [core for source in sources if (core := core_of(source.informer)) is not None]
        self.own_writes = OwnWrites(
            lambda cluster: [root.face for core in cores for root in core.roots(cluster)],
            clusters=has_clusters(sources),
        )
        self._cores: list[CollectionCore] = cores
        clusters, completes = has_clusters(sources), keys_have_clusters(sources)
        self._tasks = Tasks(self._task_crashed)
        failed = partial(metrics.count, "source_errors")
        self._feeds = [
            SourceFeed(
                source, name, self.trigger, failed, self._tasks.is_ending, clusters=clusters, completes=completes
            )
            for source in sources
        ]
        self._sync = FirstSync(
            f"controller {name}",
            partial(_all_synced, self._feeds),
            is_done=lambda: all(feed.has_synced for feed in self._feeds),
            reason=partial(_unsynced_reasons, self._feeds),
            errors=lambda: {feed.informer.name: None for feed in self._feeds if not feed.has_synced},
            refusals=lambda strict: [refusals for core in cores for refusals in core.sync.refusals(strict)],
            log=log,
        )
        self._free_workers = asyncio.Semaphore(options.workers)
        self._active: dict[asyncio.Task[None], str] = {}
        self.abandoned = {key: task for key, task in abandoned.items() if not task.done()}
        self._reasons: dict[str, tuple[Reason, ...]] = {}
        self._logged = LogOnce()
        advice = "await what takes long, or call it with asyncio.to_thread"
        self._function = UserFunction(f"the reconcile of controller {name}", log, self._resource, advice=advice)
        self._logged_stale = False
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def synced(self) -> bool:
        """True while reconciles are made."""
        return self._has_synced and bool(self._tasks.running)  # a task whose loop was closed does not run

    @property
    def active(self) -> int:
        """The number of running reconciles."""
        return len(self._active)

    @property
    def _resource(self) -> str:
        return next((feed.informer.name for feed in self._feeds), "")

    def trigger(self, key: str, reason: Reason, priority: int = 0) -> None:
        """Queue a key, after the debounce if there is one."""
        self._note_reason(key, reason)
        if self._options.debounce:
            self.queue.add_after(key, self._options.debounce, priority=priority)
        else:
            self.queue.add(key, priority=priority)

    def _note_reason(self, key: str, reason: Reason) -> None:
        noted = self._reasons.get(key, ())
        if len(noted) < _REASONS and reason not in noted:
            self._reasons[key] = (*noted, reason)

    # --- running ----------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Reconcile until cancelled. See `Controller.run`."""
        name = self._name
        feeding = [
            self._tasks.start_guest(feed.run(), f"kinformer controller {name}: feed of {feed.informer.name}")
            for feed in self._feeds
        ]
        self._metrics.open(self._options.workers, lambda: self.active)
        dispatching: list[asyncio.Task[None]] = []
        try:
            await self._wait_synced()
            self._has_synced = True
            what = f"kinformer controller {name}: dispatcher"
            dispatching.append(self._tasks.start(self._dispatch(), what, vital=True))
            await self._end
        finally:
            self._has_synced = False
            try:
                await self._leave([*feeding, *dispatching])
            finally:
                self._metrics.close()

    def _task_crashed(self, task: str, error: BaseException) -> None:
        if not self._end.done():
            self._end.set_exception(error)
            self._end.exception()  # marked as retrieved, because nothing awaits it if the run is being cancelled
        elif isinstance(error, LeadershipLostError) or (self.queue.shutting_down and isinstance(error, KinformerError)):
            # The informers stop at the same time, so this is no failure of the task.
            log.debug("%s ended with %s: %s", task, type(error).__name__, error, reason=error)
        else:
            log.error("%s ended with %s: %s", task, type(error).__name__, error, exc_info=error, reason=error)

    async def _wait_synced(self) -> None:
        waiting = asyncio.ensure_future(self._sync.wait(None))
        try:
            await asyncio.wait({waiting, self._end}, return_when=asyncio.FIRST_COMPLETED)
            if self._end.done():
                self._end.result()
            waiting.result()
        finally:
            waiting.cancel()
            await asyncio.wait({waiting})

    @shielded_from_scopes
    async def _leave(self, producers: list[asyncio.Task[None]]) -> None:
        """Take no new key, wait for running reconciles until the deadline, and then cancel them once."""
        deadline = asyncio.get_running_loop().time() + self._options.shutdown_timeout
        self.queue.shut_down()
        self._tasks.drop(producers)
        try:
            check_fences()
            await self._tasks.finish(self._active, deadline)
        except KinformerError as error:
            log.info("controller %s: %s; cancelling its reconciles", self._name, error, reason=error)
        finally:
            await self._tasks.cancel()
            self.abandoned |= {key: task for task, key in self._active.items() if not task.done()}
            self.queue.clear()
            if not self._end.done():
                self._end.cancel()

    # --- reconciles ---------------------------------------------------------------------------------------

    async def _dispatch(self) -> None:
        while True:
            await self._free_workers.acquire()
            key = await self.queue.get()
            try:
                check_fences()
            except BaseException:
                self.queue.done(key)
                raise
            abandoned = self.abandoned.get(key)
            if abandoned is not None and not abandoned.done():
                self._free_workers.release()
                self._start_task(key, self._wait_for_abandoned(key, abandoned), f"{key} is waiting for an earlier run")
                continue
            if self.own_writes.is_behind(key) or self._is_deriving:
                self._free_workers.release()
                self._metrics.count("own_write_waits")
                self._start_task(key, self._wait_for_own_writes(key), f"{key} is waiting for its writes")
                continue
            if stale := self._stale():
                self._free_workers.release()
                self._metrics.count("stale_waits")
                self._start_task(key, self._wait_for_fresh(key, stale), f"{key} is waiting for a current cache")
                continue
            task = self._start_task(key, self._reconcile_key(key), f"reconcile {key}")
            self._active[task] = key
            task.add_done_callback(self._reconcile_ended)

    def _start_task(self, key: str, coroutine: Coroutine[object, object, None], what: str) -> asyncio.Task[None]:
        """Start a task for a key in process. The key is done when the task ends, even if cancelled before it began."""
        task: asyncio.Task[None] = self._tasks.start(coroutine, f"kinformer controller {self._name}: {what}")
        task.add_done_callback(lambda _: self.queue.done(key))
        return task

    def _reconcile_ended(self, task: asyncio.Task[None]) -> None:
        self._active.pop(task, None)
        self._free_workers.release()

    async def _wait_for_abandoned(self, key: str, abandoned: asyncio.Task[None]) -> None:
        message = "controller %s: %s is waiting for its reconcile of an earlier run, which ignored its cancellation"
        log.warning(message, self._name, key, resource=self._resource, key=key, reason="abandoned")
        await asyncio.wait({abandoned})
        self.queue.add(key, priority=self.queue.priority(key))

    async def _wait_for_own_writes(self, key: str) -> None:
        # The queue still has the key in process, so it collects triggers of the key, and no other worker gets it.
        if not await self.own_writes.wait(key):
            self._metrics.count("own_write_timeouts")
            message = "controller %s: %s: its own writes were not seen within %g s; reconciling without them"
            notice = (self._name, key, WAIT_LIMIT)
            log.warning(message, *notice, resource=self._resource, key=key, reason="own_write_unseen")
        await self._derive_rest()
        self.queue.add(key, priority=self.queue.priority(key))

    def _stale(self) -> list[Freshness]:
        """Return the informers whose cache was last proved current more than `max_staleness` ago."""
        limit = self._options.max_staleness
        stale = [] if limit is None else [freshness for core in self._cores for freshness in too_old(core, limit)]
        if not stale:
            self._logged_stale = False
        elif not self._logged_stale:
            self._logged_stale = True
            message = "controller %s: reconciles wait, because a cache may be stale: %s"
            log.warning(message, self._name, ", ".join(map(str, stale)), resource=self._resource, reason="stale")
        return stale

    async def _wait_for_fresh(self, key: str, stale: Sequence[Freshness]) -> None:
        assert self._options.max_staleness is not None
        for freshness in stale:
            await freshness.until_within(self._options.max_staleness)
        self.queue.add(key, priority=self.queue.priority(key))

    @property
    def _is_deriving(self) -> bool:
        """True if the values of a derived collection are not up to date with its inputs."""
        return any(core.has_work for core in self._cores)

    async def _derive_rest(self) -> None:
        """Wait until derived collections are up to date (at most 10 s), so that a reconcile reads one state."""
        with suppress(TimeoutError):
            async with asyncio.timeout(WAIT_LIMIT):
                for core in self._cores:
                    await core.settled()

    async def _catch_up(self, key: str, timeout: float) -> None:
        if not self.own_writes.is_behind(key):
            await self._derive_rest()
            return
        self._metrics.count("caught_up_waits")
        try:
            await self.own_writes.catch_up(key, timeout)
            await self._derive_rest()
        except TimeoutError:
            self._metrics.count("caught_up_timeouts")
            raise

    async def _reconcile_key(self, key: str) -> None:
        target = Request.of(key)
        request = Request(
            target.namespace,
            target.name,
            self._reasons.pop(key, ()),
            self.queue.num_requeues(key),
            lambda obj: self.own_writes.note_object(key, obj),
            lambda timeout: self._catch_up(key, timeout),
            target.cluster,
        )
        clock, budget = asyncio.get_running_loop(), YieldBudget(self._function)
        began, budget.key = clock.time(), key
        limit = asyncio.timeout(self._options.timeout)
        written: set[object] = set()

        def note(write: Write) -> None:
            written.add(object_in(write))
            self.own_writes.note_request(key, write)

        try:
            with logged_writes(note):
                steps = in_steps(self._reconciled(request, limit), budget)
                result = await guarded(steps, self._tasks.is_ending, "the reconcile")
            if result is not None and not isinstance(result, Result):
                raise TerminalError(f"the reconcile returned {result!r}, expected a Result or None")
            self._succeeded(key, result, clock.time() - began)
        except LeadershipLostError:
            raise
        except TemporaryError as error:
            self._not_done(key, error, clock.time() - began)
        except Exception as error:  # noqa: BLE001 - logged, counted and retried, and other keys continue
            self._failed(request, error, clock.time() - began, written, timed_out=limit.expired())

    async def _reconciled(self, request: Request, limit: asyncio.Timeout) -> Result | None:
        async with limit:
            return await self._reconcile(request)

    def _succeeded(self, key: str, result: Result | None, seconds: float) -> None:
        self.queue.forget(key)
        self._logged.forget(key)
        after = None if result is None else result.requeue_after
        if after is None:
            self._metrics.reconcile_ended("success", seconds)
            return
        self._requeue(key, after, "requeue_after" if after else "requeue", seconds)

    def _not_done(self, key: str, error: TemporaryError, seconds: float) -> None:
        after = self.queue.limiter.when(key) if error.requeue_after is None else error.requeue_after
        level = logging.INFO if self._logged.is_news(key, str(error)) else logging.DEBUG
        message, notice = "controller %s: %s is not done yet: %s; running it again in %.3g s", (self._name, key)
        log.log(level, message, *notice, error, after, resource=self._resource, key=key, reason="not_done")
        self._requeue(key, after, "requeue_after" if error.requeue_after else "requeue", seconds)

    def _requeue(self, key: str, after: float, outcome: str, seconds: float) -> None:
        self._metrics.reconcile_ended(outcome, seconds)
        self._note_reason(key, _REQUEUE)
        self.queue.add_after(key, after, priority=self.queue.priority(key))

    def _failed(
        self, request: Request, error: BaseException, seconds: float, written: Set[object], *, timed_out: bool = False
    ) -> None:
        key, why = request.key, ", ".join(map(str, request.reasons))
        if isinstance(error, TerminalError):
            self._metrics.reconcile_ended("error", seconds, "terminal_errors")
            self.queue.forget(key)
            self._logged.forget(key)  # it runs again only after a change, so log its next failure
            message = "controller %s: %s failed and is not retried (%s): %s"
            # Log only one traceback: the cause's, if there is one. The message has the TerminalError itself.
            cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
            self._log_failure(key, cause or error, message, self._name, key, why, error, reason="terminal_error")
            return
        self._metrics.reconcile_ended("error", seconds, "timeouts" if timed_out else "")
        delay = self.queue.limiter.when(key)
        if isinstance(error, APIError) and error.retry_after is not None:
            delay = max(delay, min(error.retry_after, RETRY_AFTER_CAP))
        self._note_reason(key, _RETRY)
        self.queue.add_after(key, delay, priority=self.queue.priority(key))
        if isinstance(error, ConflictError):
            message, by = "controller %s: %s: %s was changed by %s; retrying in %.3g s", "another client"
            target = tuple(str(error.details.get(part) or "") for part in ("group", "kind", "name"))
            if target in written and not error.details.get("causes"):  # a conflict of field managers has causes
                by = "this reconcile, perhaps by another client too: use the object that its write returned"
            args = (self._name, key, " ".join(target[1:]).strip() or "the object", by, delay)
            log.info(message, *args, resource=self._resource, key=key, reason=error)
        elif timed_out:
            message, limit = "controller %s: %s took longer than %g s (%s); retrying in %.3g s", self._options.timeout
            self._log_failure(key, None, message, self._name, key, limit, why, delay, reason="reconcile_timeout")
        else:
            message, attempt = "controller %s: %s failed (%s; attempt %d); retrying in %.3g s", request.attempt + 1
            self._log_failure(key, error, message, self._name, key, why, attempt, delay, reason="reconcile_failed")

    def _log_failure(self, key: str, error: BaseException | None, message: str, *args: object, reason: str) -> None:
        # Log an ERROR with a traceback once per key and type of error, and further failures of that type at DEBUG.
        level = logging.ERROR if self._logged.is_news(key, (reason, type(error).__name__)) else logging.DEBUG
        shown = error if level == logging.ERROR else None
        message, notice = f"{message}%s", self._logged.notice if level == logging.ERROR else ""
        log.log(level, message, *args, notice, exc_info=shown, resource=self._resource, key=key, reason=reason)


def _unsynced_reasons(feeds: Sequence[SourceFeed]) -> str:
    return "; ".join(f"{feed.informer.name}: {feed.unsynced_reason()}" for feed in feeds if not feed.has_synced)


async def _all_synced(feeds: Sequence[SourceFeed]) -> None:
    for feed in feeds:
        await feed.wait_synced()
