"""Finds the place in a program that makes a request, for stories."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import aiohttp

from kinformer.testing.explore.director import PLACE_HEADER
from kinformer.testing.simulation.refusals import caller_in_program

__all__ = ["places_noted"]


@contextmanager
def places_noted() -> Iterator[None]:
    """Record for each request the place in the program that makes it. This costs time, so it is only for stories."""
    request = aiohttp.ClientSession._request

    async def noted(self: Any, *args: Any, **options: Any) -> Any:
        headers = dict(options.pop("headers", None) or {})
        caller = caller_in_program()
        if caller is not None and caller.place:
            headers[PLACE_HEADER] = caller.place
        return await request(self, *args, headers=headers, **options)

    with patch.object(aiohttp.ClientSession, "_request", noted):
        yield
