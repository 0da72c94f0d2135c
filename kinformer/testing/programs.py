"""Programs that run beside a test, such as an operator. The end of one ends the test, with its error."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NoReturn

from kinformer._runtime.cancellation import BodyCancellation, shielded_from_scopes

__all__ = ["Programs", "running"]

SHUTDOWN_TIMEOUT = 5.0
"""Seconds that a program may take to end after its cancellation."""


class Programs:
    """Coroutines that run in tasks beside a body of code.

    The body is cancelled once one of them ends by itself. A program that the body cancels has not ended by itself.
    """

    def __init__(self) -> None:
        self._names: dict[asyncio.Task[Any], str] = {}  # of all programs, in the order of their starts
        self._exits: dict[asyncio.Task[Any], SystemExit] = {}
        self._told: set[asyncio.Task[Any]] = set()  # whose ends were raised or noted
        self._body: BodyCancellation | None = None  # only within `beside`

    def start(self, program: Coroutine[Any, Any, object]) -> asyncio.Task[Any]:
        """Run a program until `end`, and return its task.

        Raises:
            TypeError: `program` is not a coroutine.
        """
        if not inspect.iscoroutine(program):
            hint = "; call it" if inspect.iscoroutinefunction(program) else ""
            raise TypeError(f"invalid program {program!r}: expected a coroutine, such as main(client){hint}")
        name = program.__qualname__
        task = asyncio.get_running_loop().create_task(self._run(program), name=name)
        self._names[task] = name
        task.add_done_callback(lambda _: program.close())  # it has not begun if it was cancelled at once
        task.add_done_callback(self._ended)
        return task

    async def _run(self, program: Coroutine[Any, Any, object]) -> object:
        try:
            return await program
        except SystemExit as error:  # asyncio would end the event loop with it
            task = asyncio.current_task()
            assert task is not None
            self._exits[task] = error
            return None

    def _ended(self, task: asyncio.Task[Any]) -> None:
        if not task.cancelled():
            task.exception()  # retrieved here, and raised later
        if self._body is not None and not task.cancelling():
            self._body.cancel()

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Cancel the body if a program ends by itself, and raise the program's error.

        Raises:
            BaseException: The error of the program, as itself.
            RuntimeError: The program returned.
        """
        body = self._body = BodyCancellation()
        if self._failure() is not None:
            body.cancel()
        try:
            yield
        except BaseException as error:
            if not await body.leave(error):
                self._note(error)
                raise
        else:
            await body.leave(None)
        finally:
            self._body = None
        self._raise_failure()

    @shielded_from_scopes
    async def end(self) -> None:
        """Cancel the programs that run, and wait for 5 s until they have ended.

        Raises:
            BaseException: The error of a program that has not been raised yet.
            RuntimeError: A program did not end.
        """
        pending = [task for task in self._names if not task.done()]
        for task in pending:
            task.cancel()
        _, stuck = await asyncio.wait(pending, timeout=SHUTDOWN_TIMEOUT) if pending else (None, set())
        self._raise_failure()
        for task in self._names:
            if task in stuck:
                name = self._names[task]
                raise RuntimeError(f"{name} did not end within {SHUTDOWN_TIMEOUT:g} s of its cancellation: {task!r}")
            if (error := self._error_of(task)) is not None and task not in self._told:
                self._told.add(task)
                _raise_as_it_is(error)

    def _error_of(self, task: asyncio.Task[Any]) -> BaseException | None:
        """Return the error that a task ended with, or None if it was cancelled, has returned, or runs."""
        if not task.done() or task.cancelled():
            return None
        return self._exits.get(task) or task.exception()

    def _failure(self) -> tuple[asyncio.Task[Any], BaseException] | None:
        """Return the first program that ended by itself, and its error. Each is returned until it is raised."""
        for task, name in self._names.items():
            if not task.done() or task.cancelling() or task in self._told:
                continue
            if task.cancelled():
                return task, RuntimeError(f"{name} ended with a CancelledError, although it was not cancelled")
            error = self._error_of(task)
            return task, error or RuntimeError(f"{name} returned {task.result()!r} while the test was running")
        return None

    def _raise_failure(self) -> None:
        failure = self._failure()
        if failure is not None:
            self._told.add(failure[0])
            _raise_as_it_is(failure[1])

    def _note(self, error: BaseException) -> None:
        """Add a program that ended by itself to the error of the body, which is raised instead."""
        failure = self._failure()
        if failure is not None:
            task, reason = failure
            self._told.add(task)
            error.add_note(f"{self._names[task]} had ended with {type(reason).__name__}: {reason}")


def _raise_as_it_is(error: BaseException) -> NoReturn:
    """Raise an error without the cancellation of the body as its context."""
    context = error.__context__
    try:
        raise error
    finally:
        error.__context__ = context


@asynccontextmanager
async def running(program: Coroutine[Any, Any, object]) -> AsyncIterator[asyncio.Task[Any]]:
    """Run a program beside the body of an `async with`, such as an operator beside its test.

    ::

        async with running(main(client)):
            await client.wait_for("v1/configmaps", "default/made", is_there, timeout=10)

    If the program ends first, the body is cancelled, so that a test does not wait for what can no longer happen. On
    leaving, the program is cancelled, and has 5 s to end. The value is its task, which the body may cancel.

    Args:
        program: The coroutine.

    Raises:
        BaseException: The program's error, as itself. If the body raised an error of its own, that one, with a note.
        RuntimeError: The program returned while the body was running, or did not end after its cancellation.
        TypeError: `program` is not a coroutine.
    """
    programs = Programs()
    task = programs.start(program)
    try:
        async with programs.beside():
            yield task
    except BaseException as error:
        await _end_after(programs, error)
        raise
    await programs.end()


async def _end_after(programs: Programs, error: BaseException) -> None:
    """End the programs after an error, which stays the one that is raised."""
    try:
        await programs.end()
    except asyncio.CancelledError:
        raise
    except BaseException as another:  # noqa: BLE001 - noted
        error.add_note(f"and then, on leaving: {type(another).__name__}: {another}")
