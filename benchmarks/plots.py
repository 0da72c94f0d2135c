"""The pictures of the documentation, drawn from the figures in `benchmarks/results/`.

    nox -s benchmarks -- --write             measures first, and draws then
    python -m benchmarks.plots [FOLDER]      docs/images by default

Needs matplotlib (the dependency group `plots`). SVG without a background, in greys and colours that can be read on
white and on black; the same figures make the same bytes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot
from matplotlib.axes import Axes

RESULTS = Path(__file__).parent / "results"
IMAGES = Path(__file__).parent.parent / "docs" / "images"

OURS, OTHERS, LIMIT = "#2f81f7", "#8b949e", "#d1603d"  # all three stand out from white and from black
TEXT = "#7d8590"
STYLE: Any = {
    "svg.hashsalt": "kinformer",
    "svg.fonttype": "path",
    "font.size": 10,
    "text.color": TEXT,
    "axes.labelcolor": TEXT,
    "axes.edgecolor": TEXT,
    "xtick.color": TEXT,
    "ytick.color": TEXT,
    "axes.spines.top": False,
    "axes.spines.right": False,
}
STALLS = {
    "LIST": OURS,
    "LIST over TLS": "#2da44e",
    "LIST with 16 handlers": "#a371f7",
    "WatchList": "#bf8700",
    "a relist after a 410": OTHERS,
}


def figures(benchmark: str) -> list[dict[str, Any]]:
    """The figures of one benchmark, as its last run has left them.

    Raises:
        FileNotFoundError: It has not been run.
    """
    found: list[dict[str, Any]] = json.loads((RESULTS / f"{benchmark}.json").read_text())["figures"]
    return found


def bars(axes: Axes, rows: Sequence[tuple[str, float]], label: Callable[[float], str]) -> None:
    """Bars on a logarithmic scale, the largest figure on top; each has its number beside it."""
    ordered = sorted(rows, key=itemgetter(1))
    names, values = zip(*ordered, strict=True)
    colours = [OURS if name.startswith("kinformer") else OTHERS for name in names]
    drawn = axes.barh(names, values, color=colours, height=0.68)
    axes.bar_label(drawn, [label(value) for value in values], padding=4, color=TEXT)
    axes.set_xscale("log")
    axes.set_xlim(min(values) / 2, max(values) * 3)
    axes.tick_params(axis="y", length=0)


def throughput(axes: Axes) -> None:
    """Events a second on one core."""
    of_peers = [figure["details"] for figure in figures("peers") if "peer" in figure["details"]]
    rows = [(one["peer"], 1e6 / median(one["cost_us"])) for one in of_peers if one["kind"] == "pods"]
    bars(axes, rows, lambda value: f"{value:,.0f}")
    axes.set_xlabel("watch events of an 8 KB pod a second, on one core (logarithmic)")


def memory(axes: Axes) -> None:
    """Kilobytes for one pod."""
    rows = [(figure["details"]["form"], figure["details"]["bytes"] / 1e3) for figure in figures("held")]
    for figure in figures("compact"):
        way = figure["name"].partition(", ")[2]
        name = {"default": "kinformer", "compact": "kinformer, compact=True", "fields": "kinformer, three fields"}[way]
        pods = figure["details"]["cache"] / 100_000
        rows.append((name, pods / 1e3))
    bars(axes, rows, lambda value: f"{value:,.1f} KB")
    axes.set_xlabel("memory for one pod of 8.1 KB of JSON (logarithmic)")


def stalls(axes: Axes) -> None:
    """The share of all gaps that are longer than so many milliseconds."""
    for name, colour in STALLS.items():
        found = [one for one in figures("stall") if one["name"] == f"G8 longest stall, {name}"]
        histogram = found[0]["details"]["histogram"]
        edges, counts = histogram["up_to_ms"][:-1], histogram["gaps"]
        whole = sum(counts)
        longer = [sum(counts[place + 1 :]) / whole for place in range(len(edges))]
        shown = [(edge, part) for edge, part in zip(edges, longer, strict=True) if part]
        last = edges[len(shown)] if len(shown) < len(edges) else edges[-1]
        xs, ys = [edge for edge, _ in shown], [part for _, part in shown]
        axes.plot([*xs, last], [*ys, ys[-1]], drawstyle="steps-post", color=colour, linewidth=1.8, label=name)
    axes.axvline(10, color=LIMIT, linestyle="--", linewidth=1.2)
    axes.text(9.7, 0.5, "limit", color=LIMIT, ha="right")
    axes.set_xlim(0.25, 20)
    axes.set_xscale("log")
    axes.set_xticks([0.25, 0.5, 1, 2, 5, 10, 20], ["0.25", "0.5", "1", "2", "5", "10", "20"])
    axes.minorticks_off()
    axes.set_yscale("log")
    axes.set_xlabel("milliseconds in which the event loop is blocked, while 100,000 pods come in")
    axes.set_ylabel("share of all gaps that are longer")
    axes.legend(frameon=False, labelcolor=TEXT, loc="lower left")


PLOTS: dict[str, tuple[Callable[[Axes], None], tuple[float, float]]] = {
    "peers-throughput": (throughput, (8.2, 4.0)),
    "peers-memory": (memory, (8.2, 3.4)),
    "stalls": (stalls, (8.2, 4.2)),
}


def draw(name: str, folder: Path) -> Path:
    """One of them."""
    plot, size = PLOTS[name]
    path = folder / f"{name}.svg"
    with pyplot.rc_context(STYLE):
        figure, axes = pyplot.subplots(figsize=size, layout="constrained")
        plot(axes)
        figure.savefig(path, transparent=True, metadata={"Date": None})
        pyplot.close(figure)
    return path


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    for name in PLOTS:
        try:
            path = draw(name, folder)
        except FileNotFoundError as error:
            print(f"{name} stays as it is: {error}")
            continue
        print(f"{path}: {path.stat().st_size / 1e3:.0f} KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
