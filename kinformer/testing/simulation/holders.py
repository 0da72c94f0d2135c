"""The places that hold a function under a name: globals of modules, classes, and defaults and closures of functions.

A program that says `from time import monotonic` holds the function itself, so replacing `time.monotonic` is not enough.
Compiled code is not searched, nor are objects and containers that may hold a function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

__all__ = ["replaced_everywhere"]

_OWN = __name__.rpartition(".")[0]
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: the class is written in Python


@contextmanager
def replaced_everywhere(functions: Mapping[Any, Any]) -> Iterator[None]:
    """Replace functions in all loaded modules by others, in the block. `functions` has the old one and the new one.

    A module that is loaded meanwhile imports the new functions, and gets the old ones at the end.
    """
    before = set(sys.modules)
    search = _Search(functions)
    search.replace(sys.modules)
    try:
        yield
    finally:
        search.undo()
        back = _Search({new: old for old, new in functions.items()})
        back.replace({name: module for name, module in sys.modules.items() if name not in before})


class _Search:
    """Replaces functions under each name that it finds, and keeps how to undo that."""

    def __init__(self, functions: Mapping[Any, Any]) -> None:
        self._new = {id(old): new for old, new in functions.items()}
        # The new functions hold the old ones, to call them outside a simulation.
        self._seen = {id(function) for pair in functions.items() for function in pair}
        self._seen |= {id(vars(module)) for name, module in list(sys.modules.items()) if name.startswith(_OWN)}
        self._undo: list[Callable[[], None]] = []

    def replace(self, modules: Mapping[str, Any]) -> None:
        for module in list(modules.values()):
            try:
                # A lazy module would load if it were asked for its attributes.
                names = object.__getattribute__(module, "__dict__")
            except AttributeError:
                continue  # a library may put any object among the modules
            if isinstance(names, dict):
                self._in_names(names)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()

    def _is_new_here(self, value: object) -> bool:
        if id(value) in self._seen:
            return False
        self._seen.add(id(value))
        return True

    def _in_names(self, names: dict[Any, Any]) -> None:
        if not self._is_new_here(names):
            return
        for name, value in list(names.items()):
            if (new := self._new.get(id(value))) is not None:
                self._set_name(names, name, value, new)
            else:
                self._in_value(value)

    def _set_name(self, names: dict[Any, Any], name: Any, old: Any, new: Any) -> None:
        def undo() -> None:
            if names.get(name) is new:
                names[name] = old

        names[name] = new
        self._undo.append(undo)

    def _in_value(self, value: object) -> None:
        if type(value) is FunctionType:
            self._in_function(value)
        elif issubclass(type(value), type) and value.__flags__ & _HEAP_TYPE:  # type: ignore[attr-defined]
            self._in_class(value)  # type: ignore[arg-type]

    def _in_class(self, cls: type) -> None:
        if not self._is_new_here(cls):
            return
        for name, raw in list(type.__dict__["__dict__"].__get__(cls).items()):
            held = raw.__func__ if isinstance(raw, staticmethod | classmethod) else raw
            if (new := self._new.get(id(held))) is not None:
                type.__setattr__(cls, name, staticmethod(new))  # a function in Python would become a method
                self._undo.append(lambda name=name, raw=raw: type.__setattr__(cls, name, raw))  # type: ignore[misc]
            elif isinstance(held, property):
                for accessor in (held.fget, held.fset):
                    self._in_value(accessor)
            else:
                self._in_value(held)

    def _in_function(self, function: FunctionType) -> None:
        if not self._is_new_here(function):
            return
        defaults, keywords = function.__defaults__, function.__kwdefaults__
        if defaults and any(id(default) in self._new for default in defaults):
            function.__defaults__ = tuple(self._new.get(id(default), default) for default in defaults)
            self._undo.append(lambda: setattr(function, "__defaults__", defaults))
        if keywords:
            self._in_names(keywords)
        for cell in function.__closure__ or ():
            self._in_cell(cell)
        self._in_names(function.__globals__)  # of code that was generated, such as the constructors of attrs

    def _in_cell(self, cell: Any) -> None:
        try:
            value = cell.cell_contents
        except ValueError:  # it is empty
            return
        if (new := self._new.get(id(value))) is not None:
            cell.cell_contents = new
            self._undo.append(lambda: setattr(cell, "cell_contents", value))
        else:
            self._in_value(value)
