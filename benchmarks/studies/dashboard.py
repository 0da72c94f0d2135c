"""The smoothness of the dashboard's page: frame times in a real browser, with 5,000 pods and 200 changes a second.

    python -m benchmarks.studies.dashboard [--pods 5000] [--changes 200] [--seconds 8] [--picture page.png]

The API server, the dashboard and the browser are processes of their own; needs chromium and playwright. A frame that is
drawn in time takes 16.7 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.browser import browsing, missing, shows

FRAMES = """seconds => new Promise(done => {
    const times = [], began = performance.now();
    let last = began;
    const frame = now => {
        times.push(now - last); last = now;
        if (now - began < seconds * 1000) requestAnimationFrame(frame); else done(times.slice(1));
    };
    requestAnimationFrame(frame);
})"""
SCROLLING = """(() => { const area = document.getElementById('scroll'); let top = 0;
    setInterval(() => { top = (top + 300) % (area.scrollHeight - 1000); area.scrollTop = top; }, 16); })()"""


@asynccontextmanager
async def command(*arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kinformer.cli", *arguments),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )
    try:
        yield process
    finally:
        process.terminate()
        await process.wait()


async def line(process: asyncio.subprocess.Process, word: str) -> str:
    assert process.stdout is not None
    while word not in (text := (await process.stdout.readline()).decode()):
        if not text:
            raise RuntimeError(f"it ended before it said {word!r}")
    return text


def report(what: str, frames: list[float], **more: Any) -> None:
    ordered = sorted(frames)
    parts = [f"p{part} {ordered[min(len(ordered) - 1, len(ordered) * part // 100)]:5.1f}" for part in (50, 95, 99)]
    late = sum(1 for frame in frames if frame > 34) / len(frames)
    parts += [f"worst {ordered[-1]:5.1f}", f"late {late:5.1%}", *(f"{name} {value}" for name, value in more.items())]
    print(f"{what:<22} {len(frames):4} frames, ms: {'  '.join(parts)}")


async def main(options: argparse.Namespace) -> None:
    objects = ("--objects", f"pods={options.pods}")
    serve = command("serve", "--port", "0", *objects, "--churn", str(options.changes))
    async with serve as server:
        url = (await line(server, "Serving")).split()[1]
        await line(server, f"{options.pods:,} pods")
        async with (
            command("dashboard", "pods", "nodes", "--server", url, "--port", "0") as dashboard,
            browsing() as browser,
        ):
            page_url = (await line(dashboard, "http")).split()[0]
            page = await browser.new_page(viewport={"width": 1440, "height": 900})
            began = time.perf_counter()
            await page.goto(f"{page_url}#/r/v1/pods")
            enough = options.pods * 9 // 10
            await shows(page, f"globalThis.kinformer && kinformer.store.count('v1/pods') > {enough}", seconds=120)
            print(f"{options.pods} pods are on the page after {time.perf_counter() - began:.1f} s")
            for place, what in (("#/r/v1/pods", "table"), ("#/nodes", "pods by node"), ("#/health", "informers")):
                await page.goto(f"{page_url}{place}")
                await asyncio.sleep(1)
                before, at = await page.evaluate("kinformer.store.received"), time.perf_counter()
                frames = await page.evaluate(FRAMES, options.seconds)
                rate = (await page.evaluate("kinformer.store.received") - before) / (time.perf_counter() - at)
                report(what, frames, rows_a_second=round(rate))
            await page.goto(f"{page_url}#/r/v1/pods")
            await page.evaluate(SCROLLING)
            report("table, scrolling", await page.evaluate(FRAMES, options.seconds))
            print("elements:", await page.evaluate("document.querySelectorAll('*').length"))
            if options.picture:
                await page.screenshot(path=options.picture)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=5000)
    parser.add_argument("--changes", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--picture")
    if missing():
        sys.exit(missing())
    asyncio.run(main(parser.parse_args()))
