"""Handlers: a user's callbacks, the task that calls them, and the handle to an added handler."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from time import perf_counter
from types import CoroutineType

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.signatures import check_callback, is_coroutine_function, name_of, takes, takes_by_name
from kinformer.exceptions import ConfigError, StoppedError
from kinformer.objects.object import KubeObject, ObjectView, fields_of, view
from kinformer.processor.first_sync import FirstSync
from kinformer.processor.mailbox import ADD, DELETE, UPDATE, Mailbox, Notification

__all__ = ["Handler", "HandlerRegistration", "HandlerRunner"]

log = get_logger("kinformer.handler")

_MAX_CALLS = 32  # the most calls between two checks of the clock, fewer if calls are slow
_LONG = 0.0005  # seconds between two checks above which the number of calls is halved
_HOLDS = 0.1  # seconds for which a plain callback may block the event loop before a warning

Callback = Callable[..., object]


class Handler:
    """The three callbacks of a handler. Each is a coroutine function, a plain function, or None.

    `is_in_initial_list`, `final_state_unknown` and the object's `key` are passed only to callbacks that take them
    (client-go, tools/cache/controller.go: `ResourceEventHandlerDetailedFuncs`).

    Args:
        handler: An object with some of the callbacks as methods.
        on_add, on_update, on_delete: The callbacks, instead of a handler.
        owner: The name of the informer in errors.

    Attributes:
        name: The name in the log and statistics.
        has_plain: True if at least one callback is a plain function, which may block the event loop.

    Raises:
        ConfigError: There is no callback, or both a handler and callbacks.
        TypeError: A callback is not callable, or cannot be called with its arguments. See `check_callback`.
    """

    def __init__(
        self,
        handler: object = None,
        *,
        on_add: Callback | None = None,
        on_update: Callback | None = None,
        on_delete: Callback | None = None,
        owner: str = "handler",
    ) -> None:
        if handler is not None:
            if on_add or on_update or on_delete:
                name = type(handler).__name__
                raise ConfigError(f"add_event_handler: got the handler {name} and callbacks; pass one or the other")
            on_add, on_update, on_delete = (
                getattr(handler, method, None) for method in ("on_add", "on_update", "on_delete")
            )
            if not (on_add or on_update or on_delete):
                raise ConfigError(
                    f"add_event_handler: the handler {type(handler).__name__} has no on_add, on_update or on_delete; "
                    "it needs at least one of them"
                )
        elif not (on_add or on_update or on_delete):
            raise ConfigError(
                "add_event_handler: got no handler and no callback; pass a handler, on_add, on_update or on_delete"
            )
        self.name = name_of(handler if handler is not None else on_add or on_update or on_delete)
        callbacks = {"on_add": on_add, "on_update": on_update, "on_delete": on_delete}
        self._coroutine_functions = [name for name, callback in callbacks.items() if is_coroutine_function(callback)]
        self.has_plain = len(self._coroutine_functions) < sum(callback is not None for callback in callbacks.values())
        self._on_add, self._add_flag = on_add, takes(on_add, "is_in_initial_list")
        self.on_update = on_update
        self._on_delete, self._delete_flag = on_delete, takes(on_delete, "final_state_unknown")
        self._keyed = {name for name, callback in callbacks.items() if takes_by_name(callback, "key")}
        flags = {
            "on_add": "is_in_initial_list" if self._add_flag else "",
            "on_delete": "final_state_unknown" if self._delete_flag else "",
        }
        for option, callback in callbacks.items():
            if callback is not None:
                keywords = ", ".join(filter(None, (flags.get(option), "key" if option in self._keyed else "")))
                arguments = "old, new" if option == "on_update" else "obj"
                check_callback(callback, option, arguments, owner, keywords=keywords)

    def refuse_coroutines(self) -> None:
        """Raise ConfigError if a callback is a coroutine function, which cannot run in a worker thread."""
        if self._coroutine_functions:
            raise ConfigError(
                f"add_event_handler(thread=True): {self._coroutine_functions[0]} of handler {self.name} is a coroutine "
                "function, which runs on the event loop; pass a plain function, or leave out thread=True"
            )

    def call(self, call: Notification) -> object:
        """Make a call and return its result, which may be an awaitable."""
        kind, key, old, new, flag = call
        if kind == ADD:
            if self._on_add is not None:
                keywords: dict[str, object] = {"key": key} if "on_add" in self._keyed else {}
                if self._add_flag:
                    keywords["is_in_initial_list"] = flag
                return self._on_add(view(new), **keywords)
        elif kind == DELETE:
            if self._on_delete is not None:
                keywords = {"key": key} if "on_delete" in self._keyed else {}
                if self._delete_flag:
                    keywords["final_state_unknown"] = flag
                return self._on_delete(view(new), **keywords)
        elif self.on_update is not None:
            obj = view(new)
            keywords = {"key": key} if "on_update" in self._keyed else {}
            return self.on_update(view(old) if kind == UPDATE else obj, obj, **keywords)
        return None

    @property
    def plain_update(self) -> Callback | None:
        """`on_update` if it takes only the two objects, or else None."""
        return None if "on_update" in self._keyed else self.on_update


class _Pace:
    """Adapts the number of non-suspending calls between two checks of the clock. It is halved while calls are slow.

    Attributes:
        step: The number of calls until the next check, from 1 to 32.
    """

    __slots__ = ("_budget", "_looked", "step")

    def __init__(self) -> None:
        self._budget = YieldBudget()
        self._looked = perf_counter()
        self.step = _MAX_CALLS

    def waited(self) -> None:
        """Record that the runner had nothing to do."""
        self._budget.rested = True
        self._looked = perf_counter()

    async def look(self) -> None:
        """Let other tasks run if it is time to, and set the number of calls until the next check."""
        if perf_counter() - self._looked > _LONG:
            self.step = max(1, self.step // 2)
        else:
            self.step = min(_MAX_CALLS, self.step * 2)
        if self._budget.exhausted():
            await self._budget.pause()
        self._looked = perf_counter()


class HandlerRunner:
    """Takes calls from a mailbox and makes them one after the other, in a task.

    Attributes:
        handler: The handler to call.
        mailbox: The calls that wait for it.
        task: The task, once it has been started.
        observe: If set, called with the seconds that each call took.
    """

    def __init__(self, handler: Handler, mailbox: Mailbox, on_error: Callable[[], None], *, resource: str) -> None:
        self.handler = handler
        self.mailbox = mailbox
        self.task: asyncio.Task[None] | None = None
        self.observe: Callable[[float], None] | None = None
        self._on_error = on_error
        self._logged = LogOnce()
        self._named = False  # in the warning about blocking the loop
        self._resource = resource

    def is_caller(self) -> bool:
        """True if called from inside the handler."""
        try:
            return self.task is not None and asyncio.current_task() is self.task
        except RuntimeError:  # a thread without an event loop
            return False

    async def run(self) -> None:
        """Make calls until the mailbox is closed, or is draining and empty."""
        mailbox, observe = self.mailbox, self.observe
        take, make, plain = mailbox.take, self.handler.call, mailbox.plain
        update = self.handler.plain_update
        pace = _Pace()
        left = pace.step
        started, awaits = 0.0, False
        clocked = observe is not None or self.handler.has_plain
        while not mailbox.closed:
            call = plain.popleft() if plain and not mailbox.folds else take()
            if call is None:
                if mailbox.draining and not len(mailbox):
                    return
                await mailbox.wait()
                pace.waited()
                continue
            if clocked:
                started, awaits = perf_counter(), False
            try:
                # Updates are inlined, which saves a function call, because nearly all calls are updates.
                if call[0] == UPDATE and update is not None:
                    old, new = call[2], call[3]
                    if type(old) is KubeObject and type(new) is KubeObject:
                        result = update(ObjectView(*fields_of(old)), ObjectView(*fields_of(new)))
                    else:
                        result = update(view(old), view(new))
                else:
                    result = make(call)
                if type(result) is CoroutineType or (result is not None and inspect.isawaitable(result)):
                    awaits = True
                    await result
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                # This task was not cancelled: the handler awaited something that was.
                self._failed(call, error)
            except Exception as error:  # noqa: BLE001 - counted and logged, and the other objects follow
                self._failed(call, error)
            finally:
                if call[4]:  # only initial adds are waited for
                    mailbox.finished(call)
                if clocked and (observe is not None or perf_counter() - started > _HOLDS):
                    self._clocked(call, perf_counter() - started, awaits=awaits)
            left -= 1
            if not left:
                await pace.look()
                left = pace.step

    def _clocked(self, call: Notification, seconds: float, *, awaits: bool) -> None:
        """Report the duration of a call. Log the handler's name, once, if the call held the loop throughout."""
        if self.observe is not None:
            self.observe(seconds)
        if awaits or seconds < _HOLDS or self._named:
            return
        self._named = True
        log.warning(
            "handler %s blocked the event loop for %.1f s on %s of %s: make it a coroutine function that awaits, "
            "or pass thread=True to add_event_handler",
            self.mailbox.name,
            seconds,
            call[0],
            call[1],
            resource=self._resource,
            key=call[1],
            reason="loop_held",
        )

    def _failed(self, call: Notification, error: BaseException) -> None:
        self._on_error()
        # With a traceback only once per object and type of error, because it usually fails again at each event.
        level = logging.ERROR if self._logged.is_news((call[1], type(error))) else logging.DEBUG
        log.log(
            level,
            "handler %s failed on %s of %s%s",
            self.mailbox.name,
            call[0],
            call[1],
            self._logged.notice if level == logging.ERROR else "",
            exc_info=error if level == logging.ERROR else None,
            resource=self._resource,
            key=call[1],
            reason="handler_failed",
        )


class HandlerRegistration:
    """The handle to an added handler (client-go: `ResourceEventHandlerRegistration`).

    It is returned by `SharedInformer.add_event_handler` and passed to `remove_event_handler`.
    """

    def __init__(self, runner: HandlerRunner, resource: str, *, resync_period: float, sync: FirstSync) -> None:
        self._runner = runner
        self._resource = resource
        self._sync = sync
        self.resync_period = resync_period
        """Seconds between resyncs (replays of the cache) to this handler, or 0 for none."""

    @property
    def name(self) -> str:
        """The handler's name, as in `statistics().pending` and the log."""
        return self._runner.mailbox.name

    @property
    def has_synced(self) -> bool:
        """True if the handler has finished its initial adds."""
        return self._runner.mailbox.has_synced

    async def wait_synced(self, timeout: float | None = None, *, fail_fast: bool | None = None) -> None:
        """Wait until `has_synced`. After 5 s, and every 10 s from then on, log a warning with the reason.

        Args:
            timeout: Seconds, or None to wait forever.
            fail_fast: Which refusals of the server end the wait. See `SharedInformerFactory.wait_for_cache_sync`.

        Raises:
            NotSyncedError: `timeout` seconds have passed. `unsynced` and the message have the last error.
            APIError: The server keeps refusing the first list.
            StoppedError: The handler was removed, or the informer was stopped. If it crashed, its error is raised.
            RuntimeError: Called from inside the handler itself.
        """
        self._refuse_inside("wait_synced")
        mailbox = self._runner.mailbox
        if mailbox.closed and not mailbox.has_synced:
            raise StoppedError(f"handler {self.name} of {self._resource} was removed before it synced")
        if not mailbox.has_synced:
            await self._sync.wait(timeout, fail_fast=fail_fast)

    def _refuse_inside(self, method: str) -> None:
        """Raise RuntimeError if the handler itself calls a method that would wait for it."""
        if self._runner.is_caller():
            raise RuntimeError(
                f"{method} was called inside handler {self.name} and would wait for it; call it from another task"
            )

    def __repr__(self) -> str:
        return f"<HandlerRegistration {self.name} of {self._resource}>"
