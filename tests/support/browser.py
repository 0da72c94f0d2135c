"""A headless Chromium, if there is one."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from importlib.util import find_spec
from typing import Any

# The browser sends nothing of its own, and needs neither a sandbox of the kernel nor a graphics card.
_SWITCHES = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-domain-reliability",
    "--disable-sync",
    "--no-first-run",
    "--no-pings",
)


def missing() -> str:
    """Return why there is no browser; "" if there is one."""
    if find_spec("playwright") is None:
        return "no browser: playwright is not installed (pip install playwright)"
    if executable() is None:
        return "no browser: there is no chromium (apt-get install chromium, or set CHROMIUM to its path)"
    return ""


def executable() -> str | None:
    """Return the path of the browser; None if there is none."""
    named = os.environ.get("CHROMIUM")
    if named:
        return named
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@asynccontextmanager
async def browsing() -> AsyncIterator[Any]:
    """A browser; `new_page` of it gives a page."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=executable(), args=list(_SWITCHES))
        try:
            yield browser
        finally:
            await browser.close()


@contextmanager
def missing_elements() -> Iterator[None]:
    """Pass over the error of a script that reads an element that is not there."""
    from playwright.async_api import Error

    try:
        yield
    except Error as error:
        if "of null" not in str(error):
            raise


async def shows(page: Any, script: str, holds: Callable[[Any], Any] = bool, seconds: float = 20.0) -> Any:
    """Evaluate `script` in the page until its value holds, and return the value.

    The page's policy forbids what playwright's own waiting does, which is to evaluate text inside of it. An element
    that is not in the page yet is waited for.
    """
    value: Any = None
    try:
        async with asyncio.timeout(seconds):
            while True:
                with missing_elements():
                    if holds(value := await page.evaluate(script)):
                        break
                await asyncio.sleep(0.03)
    except TimeoutError:
        raise AssertionError(f"{script} was {value!r} after {seconds} s") from None
    return value
