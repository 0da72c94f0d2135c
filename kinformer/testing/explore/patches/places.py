"""Finds the place in a program that makes a request, for stories."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import aiohttp

from kinformer.testing.explore.director import PLACE_HEADER

__all__ = ["places_noted"]

_KINFORMER = str(Path(__file__).parents[3])
_REPLICA = str(Path(__file__).parents[1] / "replica.py")  # which calls the program
_LIBRARIES = ("/site-packages/", "/asyncio/", "<frozen", "<string>", "/contextlib.py")


def _place() -> str:
    frame: Any = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == _REPLICA:
            break
        if not file.startswith(_KINFORMER) and not any(part in file for part in _LIBRARIES):
            return f"{Path(file).name}:{frame.f_lineno} in {frame.f_code.co_name}"
        frame = frame.f_back
    return ""


@contextmanager
def places_noted() -> Iterator[None]:
    """Record for each request the place in the program that makes it. This costs time, so it is only for stories."""
    request = aiohttp.ClientSession._request

    async def noted(self: Any, *args: Any, **options: Any) -> Any:
        headers = dict(options.pop("headers", None) or {})
        if place := _place():
            headers[PLACE_HEADER] = place
        return await request(self, *args, headers=headers, **options)

    with patch.object(aiohttp.ClientSession, "_request", noted):
        yield
