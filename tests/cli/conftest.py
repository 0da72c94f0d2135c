"""The fixtures of the tests of the dashboard's page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest_asyncio

from kinformer.testing import APIServer
from tests.cli.dashboard_page import PODS, Open, serving_dashboard
from tests.support.browser import browsing, shows


@pytest_asyncio.fixture
async def opened(server: APIServer) -> AsyncIterator[Open]:
    """`await opened("#/health")`: a page of a dashboard on `server`; what breaks in its program, or is an error in
    its console, fails the test.

    `resources` and `picks` are those of `serving_dashboard`, and count at the first call; `pods` is the number of pods
    to wait for.
    """
    broken: list[str] = []

    def complain(message: Any) -> None:
        # A request that a test makes fail is an error of the console's, too.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            broken.append(message.text)

    async with AsyncExitStack() as stack, browsing() as chromium:  # pages are closed before their server
        url = ""

        async def open_page(
            place: str = "#/r/v1/pods", *, dashboard: dict[str, Any] | None = None, pods: int = 4, **options: Any
        ) -> Any:
            nonlocal url
            if not url:
                url = await stack.enter_async_context(serving_dashboard(server, **(dashboard or {})))
            page = await chromium.new_page(**options)
            page.on("console", complain)
            page.on("pageerror", lambda error: broken.append(str(error)))
            await page.goto(f"{url}/{place}")
            await shows(
                page,
                f"globalThis.kinformer && kinformer.store.report && {PODS} >= {pods}",
                seconds=60 if pods > 1000 else 20,
            )
            return page

        yield open_page
    assert not broken
