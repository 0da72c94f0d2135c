"""Studies that were made once, for a decision; docs/internals has the decisions, and no limit is held by them.

    python -m benchmarks.studies.transport      aiohttp beside httptools, asyncio beside uvloop (docs/internals)
    python -m benchmarks.studies.compression    a link of a given rate and delay; needs root (docs/results.md)
    python -m benchmarks.studies.apiserver      the embedded API server as a load generator
    python -m benchmarks.studies.parallel_reads threads that read one cache (docs/results.md)
    python -m benchmarks.studies.dashboard      frame times of the page; needs chromium
    python -m benchmarks.studies.install        sizes of downloads, time of installing (docs/results.md); needs an index

They use the public names of kinformer alone.
"""
