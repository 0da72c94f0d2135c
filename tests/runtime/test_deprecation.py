"""A deprecated name still works, and says what to use instead.

Internals: the decorator, since nothing is deprecated for long.
"""

from __future__ import annotations

import warnings

import pytest

from kinformer._runtime.deprecation import deprecated


@deprecated(use="new", until="0.4")
def old(number: int, *, factor: int = 2) -> int:
    """Return the product."""
    return number * factor


@deprecated(use="new", until="0.4")
async def old_wait() -> str:
    return "waited"


class Old:
    @deprecated(use="New", until="0.4")
    def __init__(self, name: str) -> None:
        self.name = name


def test_a_call_works_and_warns_at_the_line_of_the_caller() -> None:
    with pytest.warns(DeprecationWarning, match=r"^old is deprecated .* in kinformer 0\.4; use new$") as caught:
        assert old(3, factor=5) == 15
    assert caught[0].filename == __file__
    assert old.__doc__ == "Return the product."


async def test_a_coroutine_function_warns_when_it_is_called() -> None:
    with pytest.warns(DeprecationWarning, match="use new"):
        waiting = old_wait()
    with warnings.catch_warnings(action="error"):
        assert await waiting == "waited"


def test_a_class_warns_when_it_is_made_under_its_own_name() -> None:
    with pytest.warns(DeprecationWarning, match="^Old is deprecated"):
        assert Old("x").name == "x"
