"""The receivers of an informer's changes: handlers, each with its own task, and event streams."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import anyio

from kinformer._runtime.clock import UserFunction
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.signatures import check_callback
from kinformer._runtime.tasks import Coro, Tasks
from kinformer.exceptions import ConfigError, StoppedError
from kinformer.objects.types import M
from kinformer.processor.callbacks import Filter
from kinformer.processor.event_stream import EventStream, OpenStream
from kinformer.processor.first_sync import FirstSync
from kinformer.processor.handler import Handler, HandlerRegistration, HandlerRunner
from kinformer.processor.mailbox import Mailbox
from kinformer.processor.publisher import Publisher
from kinformer.processor.resync_schedule import ResyncSchedule
from kinformer.processor.thread_runner import ThreadRunner

__all__ = ["HandlerSet"]

log = get_logger("kinformer.handler")


class HandlerSet:
    """The handlers and event streams of one informer, from their addition to their end.

    Args:
        informer: The name of the informer, for errors and the log.
        publisher: Puts the changes into the mailboxes.
        schedule: The resyncs of the handlers.
        tasks: Owns the handlers' tasks.
        admit: Called with the name of a method that adds a handler or stream. Raises if the informer does not accept
            one.
        sync: The informer's waits for its first sync, with which those of its receivers begin.
        unlisted_reason: Returns why the first list is not in the cache, or "" if it is.
        observer: Called with a handler's name. Returns a function that takes the seconds of each call, or None.
        limiter: Returns the limiter of worker threads, or None for the event loop's.

    Attributes:
        errors: The number of calls of handlers and filters that raised.
    """

    def __init__(
        self,
        informer: str,
        publisher: Publisher,
        schedule: ResyncSchedule,
        tasks: Tasks,
        admit: Callable[[str], None],
        sync: FirstSync,
        unlisted_reason: Callable[[], str],
        observer: Callable[[str], Callable[[float], None] | None] = lambda _: None,
        limiter: Callable[[], anyio.CapacityLimiter | None] = lambda: None,
    ) -> None:
        self.errors = 0
        self._informer = informer
        self._publisher = publisher
        self._schedule = schedule
        self._tasks = tasks
        self._admit = admit
        self._observer = observer
        self._limiter = limiter
        self._sync = sync
        self._unlisted_reason = unlisted_reason
        self._started = False  # handlers that are added before `start` begin with it
        self._runners: list[HandlerRunner] = []
        self._streams: list[OpenStream] = []

    # --- adding and removing ----------------------------------------------------------------------------

    def add(
        self,
        handler: Handler,
        *,
        name: str | None,
        queue_size: int | None,
        only: Filter | None,
        resync_period: float,
        thread: bool = False,
    ) -> HandlerRegistration:
        """Add a handler. It gets the cache as initial adds, and then every change, in a worker thread if `thread`."""
        self._admit("add_event_handler")
        if thread:
            handler.refuse_coroutines()
        mailbox = self._mailbox(name or handler.name, queue_size, only)
        runner: HandlerRunner
        if thread:
            runner = ThreadRunner(handler, mailbox, self._count_error, resource=self._informer, limiter=self._limiter())
        else:
            runner = HandlerRunner(handler, mailbox, self._count_error, resource=self._informer)
        self._attach(mailbox, resync_period)
        self._runners.append(runner)
        if self._started:
            self._run(runner)
        sync = self._sync_of("handler", mailbox)
        return HandlerRegistration(runner, self._informer, resync_period=resync_period, sync=sync)

    async def remove(self, registration: HandlerRegistration, *, drain: bool) -> None:
        """Remove a handler. With `drain`, wait until it has received the waiting calls."""
        runner = registration._runner
        if drain:
            registration._refuse_inside("remove_event_handler(drain=True)")
        if runner in self._runners:
            self._runners.remove(runner)
            self._detach(runner.mailbox)
            runner.mailbox.close(drain=drain and runner.task is not None)
            runner.mailbox.fail(StoppedError(f"handler {registration.name} of {self._informer} was removed"))
        if drain and runner.task is not None:
            await asyncio.wait({runner.task})

    def stream(
        self,
        name: str,
        *,
        queue_size: int | None,
        only: Filter | None,
        resync_period: float,
        make: Callable[..., EventStream[M]],
    ) -> EventStream[M]:
        """Create a stream, which is added on entering. `make` is its class, or a function with the same signature."""
        self._admit("events")

        def attach(stream: OpenStream) -> None:
            self._admit("events")
            self._attach(stream._mailbox, resync_period)
            self._streams.append(stream)

        def detach(stream: OpenStream) -> None:
            self._detach(stream._mailbox)
            if stream in self._streams:
                self._streams.remove(stream)

        mailbox, position = self._mailbox(name, queue_size, only), self._publisher.position
        sync = self._sync_of("stream", mailbox)
        return make(mailbox, attach=attach, detach=detach, sync=sync, position=position)

    def _mailbox(self, name: str, queue_size: int | None, only: Filter | None) -> Mailbox:
        if only is not None:
            check_callback(only, "filter", "obj", f"informer {self._informer}", plain=True)
        if queue_size is not None and queue_size < 1:
            raise ConfigError(f"queue_size={queue_size!r} of handler {name}: pass a number of at least 1, or None")
        logged = LogOnce()

        def filter_failed(key: str, error: BaseException) -> None:
            self.errors += 1
            if logged.is_news(key):
                log.error(
                    "the filter of handler %s of %s failed on %s",
                    mailbox.name,
                    self._informer,
                    key,
                    exc_info=error,
                    resource=self._informer,
                    key=key,
                    reason="filter_failed",
                )

        mailbox = Mailbox(name, queue_size=queue_size, filter=only, on_filter_error=filter_failed)
        return mailbox

    def _attach(self, mailbox: Mailbox, period: float) -> None:
        mailbox.name = self._unique(mailbox.name)
        if mailbox.filters:
            mailbox.filtering = UserFunction(f"the filter of handler {mailbox.name}", log, self._informer)
        self._publisher.attach(mailbox)
        self._schedule.add(mailbox, period)

    def _unique(self, name: str) -> str:
        taken = {mailbox.name for mailbox in self.mailboxes}
        unique, number = name, 2
        while unique in taken:
            unique, number = f"{name}#{number}", number + 1
        return unique

    def _detach(self, mailbox: Mailbox) -> None:
        self._publisher.detach(mailbox)
        self._schedule.remove(mailbox)

    def _count_error(self) -> None:
        self.errors += 1

    # --- start and end ------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the task of each handler. Handlers added from now on start immediately."""
        self._started = True
        for runner in self._runners:
            self._run(runner)

    def _run(self, runner: HandlerRunner) -> None:
        runner.observe = self._observer(runner.mailbox.name)
        name = f"kinformer handler {runner.mailbox.name} of {self._informer}"
        runner.is_ending = self._tasks.is_ending
        runner.task = self._tasks.start_guest(runner.run(), name)

    def refuse_inside(self, refusal: str) -> None:
        """Raise RuntimeError if called from inside a handler that the caller would wait for."""
        for runner in self._runners:
            if runner.is_caller():
                raise RuntimeError(f"{refusal} from inside its handler {runner.mailbox.name}")

    async def finish(self, deadline: float) -> None:
        """Deliver the waiting calls to the handlers, until `deadline` on the loop's clock."""
        for runner in self._runners:
            runner.mailbox.close(drain=True)
        await self._tasks.finish([runner.task for runner in self._runners if runner.task is not None], deadline)

    def end_streams(self, error: BaseException | None) -> None:
        """End each stream after its waiting events, with `error` if there is one."""
        for stream in list(self._streams):
            stream._end(error)

    # --- state ----------------------------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """True if every handler has finished its initial adds."""
        return all(runner.mailbox.has_synced for runner in self._runners)

    def unsynced_reason(self) -> str:
        """Return which handler has not finished its initial adds, or "" if all have."""
        for runner in self._runners:
            if not runner.mailbox.has_synced:
                return (
                    f"handler {runner.mailbox.name} has not finished its initial adds; "
                    f"{len(runner.mailbox)} calls are waiting"
                )
        return ""

    async def wait_synced(self) -> None:
        """Wait until `synced`, for the handlers added so far."""
        for runner in list(self._runners):
            await runner.mailbox.wait_synced()

    @property
    def sync(self) -> FirstSync:
        """The waits for `synced`, of the handlers added so far."""
        return self._first_sync("handlers", self.wait_synced, lambda: self.synced, self.unsynced_reason)

    def _sync_of(self, receiver: str, mailbox: Mailbox) -> FirstSync:
        return self._first_sync(
            f"{receiver} {mailbox.name}",
            mailbox.wait_synced,
            lambda: mailbox.has_synced,
            lambda: f"{len(mailbox)} calls are waiting",
        )

    def _first_sync(
        self, receiver: str, first: Callable[[], Coro[None]], is_done: Callable[[], bool], reason: Callable[[], str]
    ) -> FirstSync:
        """Return waits that begin with those of the informer."""
        sync = FirstSync(
            f"{receiver} of {self._informer}",
            first,
            is_done=is_done,
            reason=lambda: self._unlisted_reason() or reason(),
            errors=self._sync.errors,
            refusals=self._sync.refusals,
            log=log,
        )
        sync.cluster = self._sync.cluster
        return sync

    @property
    def mailboxes(self) -> list[Mailbox]:
        """The mailboxes of all handlers and streams."""
        return [*(runner.mailbox for runner in self._runners), *(stream._mailbox for stream in self._streams)]
