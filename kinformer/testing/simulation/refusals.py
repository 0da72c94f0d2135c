"""Refusals: the errors for calls of a program that would reach the real machine from within a simulation."""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from types import FrameType
from typing import NamedTuple

__all__ = ["IN_REAL_TIME", "Caller", "NotSimulatedError", "caller_in_program"]

IN_REAL_TIME = "threads run in real time; use asyncio.to_thread or loop.run_in_executor, which are simulated"
"""The advice to a program that starts a thread, or calls back from one."""

_HERE = str(Path(__file__).parent) + os.sep
_KINFORMER = str(Path(__file__).parents[2]) + os.sep
_STANDARD = tuple(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib"))
_INSTALLED = ("/site-packages/", "/dist-packages/", "\\site-packages\\")
_GENERATED = ("<frozen", "<string>", "<attrs")
_DEBUGGERS = ("debugpy", "pydevd", "_pydev", "pudb", "IPython", "/pdb.py", "/bdb.py")
_END = "run_ready"  # the function of the simulated loop that runs a program


class NotSimulatedError(NotImplementedError):
    """A call that is not simulated. It is a NotImplementedError, which programs expect of an event loop."""


class Caller(NamedTuple):
    """The line of a program that made a call.

    Attributes:
        place: The file, line and function, or "" if it is unknown.
        function: The function of a library that the program called there, or "" if it made the call itself.
    """

    place: str
    function: str


def caller_in_program() -> Caller | None:
    """Find the innermost line of the program among the callers. Return None if a debugger makes the call.

    A line of an installed library is returned only if no line of the program is among its callers.
    """
    frame: FrameType | None = sys._getframe(1)
    called, library = "", None
    while frame is not None and not _is_end(frame):
        file = frame.f_code.co_filename
        if any(mark in file for mark in _DEBUGGERS):
            return None
        if not file.startswith((_KINFORMER, *_GENERATED)):
            if any(part in file for part in _INSTALLED):
                library = library or Caller(_place(frame), called)
            elif not file.startswith(_STANDARD):
                return Caller(_place(frame), called)
        if not file.startswith((_HERE, *_GENERATED)):
            called = f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_qualname}"
        frame = frame.f_back
    return library or Caller("", "")


def _is_end(frame: FrameType) -> bool:
    return frame.f_code.co_name == _END and frame.f_code.co_filename.startswith(_HERE)


def _place(frame: FrameType) -> str:
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno} in {frame.f_code.co_name}"
