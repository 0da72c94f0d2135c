"""The costs of kinformer, measured against `orjson.loads` of the same bytes in the same process.

    python -m benchmarks              all of them, below ten minutes on a quiet machine
    python -m benchmarks.watch        one of them
    python -m benchmarks --write      what docs/results.md has, and the page itself (`benchmarks.results`)

By hand, for what it needs: `real_server` (a kube-apiserver; Go for `--client-go`). Measurements that were made once,
for a decision, are in `benchmarks.studies`.

The server is another process that sends bytes rendered beforehand. Microseconds differ by 20-40 % between
two runs on one machine, ratios by 10-20 %: read the ratios, and their spread, which is printed beside each.
"""
