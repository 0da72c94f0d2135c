"""The page of the dashboard under load: 10,000 pods, 50 changes a second.

Counted is what a change costs the page: how often it is drawn, and how much of it is touched. The times of frames are
those of `python -m benchmarks.studies.dashboard`. Without chromium and playwright it is skipped, and says so.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import Any

import pytest

from kinformer.testing import APIServer
from tests.cli.dashboard_page import Open
from tests.support import browser, kube

pytestmark = [
    pytest.mark.process,
    pytest.mark.tools,
    pytest.mark.slow,
    pytest.mark.skipif(bool(browser.missing()), reason=browser.missing()),
]

_PODS = 10_000
_BUSY = 149  # of them change, all on the first page. No multiple of three, so that each has another phase each time
_CHANGES = 50  # a second
_SECONDS = 4

# Frames, the draws among them, and what they touched: texts, attributes, and elements that came or went.
COUNT = """(seconds) => new Promise((resolve) => {
  const began = performance.now();
  let frames = 0, draws = 0, touched = 0;
  const observer = new MutationObserver((changes) => { draws += 1; touched += changes.length; });
  observer.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  const frame = (now) => {
    frames += 1;
    if (now - began < seconds * 1000) { requestAnimationFrame(frame); return; }
    observer.disconnect();
    resolve({ frames, draws, touched, elements: document.querySelectorAll("*").length });
  };
  requestAnimationFrame(frame);
})"""


@pytest.fixture
def initial_objects() -> list[dict[str, Any]]:
    return []


def changing(number: int, turn: int) -> dict[str, Any]:
    phase = ("Running", "Pending", "Failed")[turn % 3]
    return kube.pod(f"0-busy-{number:03}", node=f"node-{number % 20}", phase=phase, labels={"turn": str(turn)})


async def churn(server: APIServer) -> None:
    """Change fifty pods a second, evenly."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    for turn in count(1):
        server.update(changing(turn % _BUSY, turn))
        await asyncio.sleep(max(0.0, began + turn / _CHANGES - loop.time()))


@pytest.mark.parametrize(
    ("place", "elements", "touched"),
    [("#/r/v1/pods", 1_000, 300), ("#/r/v1/pods?sort=STATUS", 1_000, 300), ("#/nodes", 15_000, 3_000)],
    ids=["table", "sorted table", "pods by node"],
)
async def test_of_ten_thousand_pods_a_draw_touches_what_changed_and_is_seen(
    server: APIServer, opened: Open, place: str, elements: int, touched: int
) -> None:
    for number in range(_BUSY):
        server.create(changing(number, 0))
    for _ in server.generate("v1/pods", _PODS - _BUSY):
        await asyncio.sleep(0)
    page = await opened(place, pods=_PODS)
    writing = asyncio.create_task(churn(server))
    try:
        drawn = f"kinformer.store.received > 0 && document.querySelectorAll('*').length > {elements // 2}"
        await browser.shows(page, drawn, seconds=60)  # the first draw is of everything
        before = await page.evaluate("kinformer.store.received")
        counted = await page.evaluate(COUNT, _SECONDS)
        assert await page.evaluate("kinformer.store.received") > before
    finally:
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
    assert counted["elements"] < elements
    assert 0 < counted["draws"] <= counted["frames"] + 3 * _SECONDS  # once a frame, and what tells the time
    assert counted["touched"] <= touched * counted["draws"]
