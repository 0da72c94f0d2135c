"""Handlers: a user's callbacks, the task that calls them, and the handle to an added handler."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from types import CoroutineType

from kinformer._runtime.cancellation import settled
from kinformer._runtime.clock import UserFunction, YieldBudget, in_steps
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.signatures import check_callback, is_coroutine_function, name_of, takes, takes_by_name
from kinformer.exceptions import ConfigError, StoppedError
from kinformer.objects.object import KubeObject, ObjectView, fields_of, view
from kinformer.processor.first_sync import FirstSync
from kinformer.processor.mailbox import ADD, DELETE, SYNC, UPDATE, Delivery, EventType, Mailbox, Notification

__all__ = ["Handler", "HandlerRegistration", "HandlerRunner"]

log = get_logger("kinformer.handler")

Callback = Callable[..., object]

_ADVICE = "await what takes long, or pass thread=True to add_event_handler"


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
        callbacks: By the type of a call: its callback, or None, and the names of the keywords that this takes.

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
        flags = {"on_add": "is_in_initial_list", "on_delete": "final_state_unknown"}
        keywords: dict[str, list[str]] = {}
        for option, callback in callbacks.items():
            flag = [flags[option]] if option in flags and takes(callback, flags[option]) else []
            keywords[option] = flag + ["key"] * takes_by_name(callback, "key")
            if callback is not None:
                arguments = "old, new" if option == "on_update" else "obj"
                check_callback(callback, option, arguments, owner, keywords=", ".join(keywords[option]))
        kinds: dict[EventType, str] = {ADD: "on_add", UPDATE: "on_update", SYNC: "on_update", DELETE: "on_delete"}
        self.callbacks = {kind: (callbacks[option], keywords[option]) for kind, option in kinds.items()}

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
        function, keywords = self.callbacks[kind]
        if function is None:
            return None
        obj = view(new)
        objects = (obj,) if kind in {ADD, DELETE} else (view(old) if kind == UPDATE else obj, obj)
        return function(*objects, **{keyword: key if keyword == "key" else flag for keyword in keywords})

    def plain(self, kind: EventType) -> Callback | None:
        """Return the callback for a type of calls if it takes only objects, or else None."""
        function, keywords = self.callbacks[kind]
        return None if keywords else function


class HandlerRunner:
    """Takes calls from a mailbox and makes them one after the other, in a task.

    Attributes:
        handler: The handler to call.
        mailbox: The calls that wait for it.
        task: The task, once it has been started.
        observe: If set, called with the seconds that each call took.
        is_ending: Returns True if the owner of the task ends it. Until then a cancellation during a call is a failure
            of that call, because a handler may cancel the task that it runs in.
    """

    def __init__(self, handler: Handler, mailbox: Mailbox, on_error: Callable[[], None], *, resource: str) -> None:
        self.handler = handler
        self.mailbox = mailbox
        self.task: asyncio.Task[None] | None = None
        self.observe: Callable[[float], None] | None = None
        self.is_ending: Callable[[], bool] = lambda: True
        self._on_error = on_error
        self._logged = LogOnce()
        self._resource = resource

    def is_caller(self) -> bool:
        """True if called from inside the handler."""
        try:
            return self.task is not None and asyncio.current_task() is self.task
        except RuntimeError:  # a thread without an event loop
            return False

    async def run(self) -> None:
        """Make calls until the mailbox is closed, or is draining and empty."""
        function = UserFunction(f"handler {self.mailbox.name}", log, self._resource, advice=_ADVICE)
        budget = self.mailbox.budget = YieldBudget(function)
        await in_steps(self._make_calls(budget), budget)

    async def _make_calls(self, budget: YieldBudget) -> None:
        mailbox, observe = self.mailbox, self.observe
        take, make, plain = mailbox.take, self.handler.call, mailbox.plain
        add, update = self.handler.plain(ADD), self.handler.plain(UPDATE)
        perf, now = budget.perf, budget.began
        task = asyncio.current_task()
        assert task is not None
        requests_to_cancel = task.cancelling
        while True:
            call = plain.popleft() if plain and not mailbox.folds else take()
            if call is None:
                if mailbox.draining and not len(mailbox):
                    return
                budget.key, budget.turn.looked = "", now
                await mailbox.wait()
                now = budget.began
                continue
            error: BaseException | None = None
            try:
                # These are inlined, which saves a function call, because nearly all calls are updates or adds. The
                # fields are read by index, because most calls are plain tuples: see `Notification`.
                if call[0] == UPDATE and update is not None:
                    old, new = call[2], call[3]
                    result = (
                        update(ObjectView(*fields_of(old)), ObjectView(*fields_of(new)))
                        if type(old) is KubeObject and type(new) is KubeObject
                        else update(view(old), view(new))
                    )
                elif call[0] == ADD and add is not None:
                    new = call[3]
                    result = add(ObjectView(*fields_of(new)) if type(new) is KubeObject else view(new))
                else:
                    result = make(call)
                if type(result) is CoroutineType or (result is not None and inspect.isawaitable(result)):
                    budget.key = call[1]
                    await result
            except BaseException as raised:  # noqa: BLE001 - counted and logged, and the other objects follow
                error = raised
            if call[4]:  # only initial adds are waited for
                mailbox.finished(call)
            if observe is not None:
                observe(perf() - now)
            if error is not None or requests_to_cancel():
                await self._settle(call, error)
                error = None
            now = perf()
            if now >= budget.limit:
                budget.key = call[1]
                await budget.pause()
                now = budget.began

    async def _settle(self, call: Notification, error: BaseException | None) -> None:
        """Log and count the failure of a call that has raised an error or cancelled this task, if it is one."""
        failure = await settled(error, self.is_ending, f"handler {self.mailbox.name}")
        if failure is not None:
            self._failed(Delivery._make(call), failure)
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise asyncio.CancelledError

    def _failed(self, call: Delivery, error: BaseException) -> None:
        self._on_error()
        # With a traceback only once per object and type of error, because it usually fails again at each event.
        level = logging.ERROR if self._logged.is_news((call.key, type(error))) else logging.DEBUG
        log.log(
            level,
            "handler %s failed on %s of %s%s",
            self.mailbox.name,
            call.type,
            call.key,
            self._logged.notice if level == logging.ERROR else "",
            exc_info=error if level == logging.ERROR else None,
            resource=self._resource,
            key=call.key,
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
