"""Values of any shape, as strategies of hypothesis: JSON that is not what a reader expects."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

__all__ = ["JSON", "or_odd"]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def or_odd(*usual: Any) -> st.SearchStrategy[Any]:
    """A usual value, or one of another shape."""
    return st.sampled_from(usual) | JSON
