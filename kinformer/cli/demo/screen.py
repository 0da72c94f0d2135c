"""The screen of the demo, drawn ten times a second from listers, health and handlers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.console import RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kinformer import SharedInformer
from kinformer.cli.demo.activity import Activity
from kinformer.cli.living_cluster import NAMESPACES
from kinformer.cli.output.tables import clean, status_style

__all__ = ["DemoScreen"]

_PHASES = {"Running": "green", "Pending": "yellow", "Succeeded": "bright_black", "Failed": "red"}
_PHASE_NAMES = ("running", "pending", "done", "failed")
_SHORT_PHASE_NAMES = ("run", "pend", "done", "fail")
_WIDE = 118  # cells; on narrower screens words are shortened
_STATES = {"watching": "green", "listing": "yellow", "starting": "yellow", "backing_off": "red", "stopped": "red"}
_TYPES = {"ADDED": "green", "UPDATED": "cyan", "DELETED": "red"}
_SPARKS = "▁▂▃▄▅▆▇█"
_BORDER = "bright_black"


class DemoScreen:
    """The whole screen, as one renderable.

    Args:
        pods, deployments, nodes: The informers; only their listers, `health()` and `statistics()` are read.
        activity: The calls of the handlers.
        url: The URL of the server, for the title.
    """

    def __init__(
        self,
        *,
        pods: SharedInformer,
        deployments: SharedInformer,
        nodes: SharedInformer,
        activity: Activity,
        url: str,
    ) -> None:
        self._pods, self._deployments, self._nodes = pods, deployments, nodes
        self._activity = activity
        self._url = url

    def render(self, *, elapsed: float, footer: str, height: int, width: int) -> RenderableType:
        """Draw the screen of this moment.

        Args:
            elapsed: Seconds since the demo began.
            footer: A sentence about the present state; may contain markup.
            height, width: Of the terminal, in cells.
        """
        wide = width >= _WIDE
        footer_lines = 3 if wide else 4
        root = Layout()
        root.split_column(
            Layout(self._title(elapsed), size=1),
            Layout(name="body"),
            Layout(self._footer(footer), size=footer_lines),
        )
        left, right = Layout(name="left", size=width * 9 // 20), Layout(name="right")
        root["body"].split_row(left, right)
        left.split_column(
            Layout(self._pods_panel(width * 9 // 20 - 4, wide=wide), size=len(NAMESPACES) + 4),
            Layout(self._deployments_panel()),
            *([Layout(self._nodes_panel(), size=3)] if height >= 26 else []),
        )
        informers = 6
        lines = height - 1 - footer_lines - informers - 2
        right.split_column(
            Layout(self._informers_panel(wide=wide), size=informers),
            Layout(self._events_panel(max(1, lines), wide=wide)),
        )
        return root

    def _title(self, elapsed: float) -> Text:
        minutes, seconds = divmod(int(elapsed), 60)
        title = Text.assemble(
            (" kinformer ", "bold reverse cyan"),
            (f"  {minutes:02}:{seconds:02}", "bold"),
            ("  a living cluster on ", ""),
            (self._url, "cyan"),
        )
        title.no_wrap = True
        return title

    def _footer(self, text: str) -> Panel:
        message = Text.from_markup(text)
        message.truncate(10_000)
        return _panel(message, subtitle="[b]q[/b] or [b]Ctrl-C[/b] ends")

    def _pods_panel(self, width: int, *, wide: bool) -> Panel:
        counts = {namespace: Counter[str]() for namespace in NAMESPACES}
        for pod in self._pods.lister.list():
            counts.setdefault(pod.namespace, Counter())[str(pod.path("status.phase", "Unknown"))] += 1
        largest = max((sum(phases.values()) for phases in counts.values()), default=1) or 1
        names = _PHASE_NAMES if wide else _SHORT_PHASE_NAMES
        table = _table("namespace", *names, "")
        bar = max(0, width - len("namespace") - sum(map(len, names)) - len(names) - 1)
        for namespace, phases in sorted(counts.items()):
            cells = [Text(str(phases[phase]) if phases[phase] else "·", style=_PHASES[phase]) for phase in _PHASES]
            table.add_row(clean(namespace), *cells, _bar(phases, largest, bar))
        total = sum(counts.values(), Counter[str]())
        sums = [Text(str(total[phase]), style=f"bold {style}") for phase, style in _PHASES.items()]
        table.add_row(Text("all", style="bold"), *sums, Text(str(total.total()), style="bold"))
        return _panel(table, "Pods, by the lister")

    def _deployments_panel(self) -> Panel:
        table = _table("deployment", "ready", "")
        for deployment in sorted(self._deployments.lister.list(), key=lambda one: one.key):
            wanted = int(deployment.path("spec.replicas", 1))
            ready = int(deployment.path("status.readyReplicas", 0))
            style = "green" if ready == wanted else "yellow"
            bar = Text("■" * min(ready, wanted), style="green") + Text("■" * max(0, wanted - ready), style="yellow")
            table.add_row(clean(deployment.key), Text(f"{ready}/{wanted}", style=style), bar)
        return _panel(table, "Deployments")

    def _nodes_panel(self) -> Panel:
        line = Text(no_wrap=True, overflow="ellipsis")
        for node in sorted(self._nodes.lister.list(), key=lambda one: one.name):
            conditions = node.path("status.conditions", [])
            ready = any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions)
            line.append("● " if ready else "○ ", style="green" if ready else "red")
            line.append(f"{clean(node.name)}  ", style="" if ready else "red")
        return _panel(line, "Nodes")

    def _informers_panel(self, *, wide: bool) -> Panel:
        table = _table("informer", "state", "items", *(["version"] if wide else []), "relists")
        for informer in (self._pods, self._deployments, self._nodes):
            health = informer.health()
            style = _STATES.get(health.state, "red")
            words = f"{'●' if health.live else '○'} {health.state.replace('_', ' ')}"
            state = Text(words.ljust(13), style=style)  # as wide as "backing off", so that nothing jumps
            table.add_row(
                informer.name if wide else informer.name.rpartition("/")[2],
                state,
                str(len(informer.lister)),
                *([health.resource_version] if wide else []),
                Text(str(health.relists), style="yellow" if health.relists else ""),
            )
        return _panel(table, "Informers, by their health()")

    def _events_panel(self, lines: int, *, wide: bool) -> Panel:
        table = Table(box=None, show_header=False, expand=True, padding=(0, 1, 0, 0), pad_edge=False)
        if wide:
            table.add_column(no_wrap=True, style="bright_black", width=8)
        table.add_column(no_wrap=True, width=7)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=4)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=5 if wide else 3)
        for event in list(self._activity.recent)[-lines:]:
            change = clean(event.what)
            if not wide and "→" in change:
                change = change[change.index("→") :]
            cells = [Text(event.type, style=_TYPES.get(event.type, "")), Text(clean(event.key)), _words(change)]
            table.add_row(*([f"{event.at:%H:%M:%S}"] if wide else []), *cells)
        history = _spark(self._activity.history()[-24 if wide else -15 :])
        title = "Events, as handlers hear them" if wide else "Events"
        return _panel(table, f"{title} [bold]{self._activity.rate():.1f}/s[/] [cyan]{history}[/]")


def _words(what: str) -> Text:
    """Return the words of a change, each status in its colour."""
    text = Text()
    for number, word in enumerate(what.split(" ")):
        text.append(f"{' ' if number else ''}{word}", style=status_style(word))
    return text


def _panel(body: RenderableType, title: str | None = None, subtitle: str | None = None) -> Panel:
    return Panel(
        body,
        title=f"[default]{title}[/]" if title else None,
        title_align="left",
        subtitle=subtitle,
        subtitle_align="right",
        box=box.ROUNDED,
        border_style=_BORDER,
        padding=(0, 1),
    )


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, expand=False, padding=(0, 1, 0, 0), pad_edge=False, header_style="bright_black")
    table.add_column(first, no_wrap=True, overflow="ellipsis")
    for name in others:
        left = name in ("", "state")
        table.add_column(name, no_wrap=True, justify="left" if left else "right", overflow="ellipsis")
    return table


def _bar(phases: Counter[str], largest: int, width: int) -> Text:
    """Draw pods by their phase; the largest number is `width` blocks wide."""
    bar = Text(no_wrap=True)
    done = 0
    drawn = 0
    for phase, style in _PHASES.items():
        done += phases[phase]
        upto = round(done * width / largest)
        bar.append("█" * (upto - drawn), style=style)
        drawn = upto
    return bar


def _spark(values: Sequence[int]) -> str:
    top = max(max(values, default=0), 1)
    return "".join(_SPARKS[round(value * (len(_SPARKS) - 1) / top)] for value in values)
