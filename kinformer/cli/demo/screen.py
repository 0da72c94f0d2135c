"""The screen of the demo, drawn ten times a second from listers, health and handlers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich import box
from rich.cells import cell_len
from rich.console import RenderableType
from rich.layout import Layout
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from kinformer import SharedInformer
from kinformer.cli.demo.activity import Activity
from kinformer.cli.living.cluster import NAMESPACES
from kinformer.cli.output.tables import clean, status_style
from kinformer.cli.output.text import middle

__all__ = ["DemoScreen"]

_PHASES = {"Running": "green", "Pending": "yellow", "Succeeded": "bright_black", "Failed": "red"}
_PHASE_NAMES = ("running", "pending", "done", "failed")
_SHORT_PHASE_NAMES = ("run", "pend", "done", "fail")
_WIDE = 118  # cells. On narrower screens words are shortened
_BESIDE = 80  # cells. On narrower screens panels are stacked
_INFORMERS = 6  # lines of the panel of informers
_LEAST_EVENTS = 5  # minimum lines of the panel of events
_LEAST_NAME = 12  # cells. Names are not cut below this
_STATES = {"watching": "green", "listing": "yellow", "starting": "yellow", "backing_off": "red", "stopped": "red"}
_TYPES = {"ADDED": "green", "UPDATED": "cyan", "DELETED": "red"}
_SPARKS = "▁▂▃▄▅▆▇█"
_BORDER = "bright_black"


class DemoScreen:
    """The whole screen, as one renderable.

    Args:
        pods, deployments, nodes: The informers. Only their listers, `health()` and `statistics()` are used.
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
        """Render the current screen.

        Args:
            elapsed: Seconds since the demo began.
            footer: A sentence about the current state. It may contain markup.
            height, width: The size of the terminal in cells.
        """
        footer_lines = 3 if width >= _WIDE else 4
        root = Layout()
        room = height - 1 - footer_lines
        root.split_column(
            Layout(self._title(elapsed, width), size=1),
            self._stack(width, room) if width < _BESIDE else self._columns(width, room),
            Layout(self._footer(footer), size=footer_lines),
        )
        return root

    def _columns(self, width: int, height: int) -> Layout:
        """Lay the panels out in two columns."""
        wide = width >= _WIDE
        left, right = Layout(name="left", size=width * 9 // 20), Layout(name="right")
        body = Layout(name="body")
        body.split_row(left, right)
        left.split_column(
            Layout(self._pods_panel(width * 9 // 20 - 4, wide=wide), size=len(NAMESPACES) + 4),
            Layout(self._deployments_panel()),
            *([Layout(self._nodes_panel(), size=3)] if height >= 22 else []),
        )
        right.split_column(
            Layout(self._informers_panel(wide=wide), size=_INFORMERS),
            Layout(
                self._events_panel(
                    max(1, height - _INFORMERS - 2), width - width * 9 // 20 - 4, short=not wide, wide=wide
                )
            ),
        )
        return body

    def _stack(self, width: int, height: int) -> Layout:
        """Stack the panels: as many as there is room for, and the events in the remaining space."""
        panels: list[tuple[Panel, int]] = [(self._informers_panel(wide=False), _INFORMERS)]
        others = (
            (self._pods_panel(width - 4, wide=False), len(NAMESPACES) + 4),
            (self._deployments_panel(), len(self._deployments.lister) + 3),
            (self._nodes_panel(), 3),
        )
        for panel, lines in others:
            if sum(size for _, size in panels) + lines + _LEAST_EVENTS <= height:
                panels.append((panel, lines))
        rest = height - sum(size for _, size in panels)
        body = Layout(name="body")
        body.split_column(
            *(Layout(panel, size=lines) for panel, lines in panels),
            Layout(self._events_panel(max(1, rest - 2), width - 4, short=True, wide=False)),
        )
        return body

    def _title(self, elapsed: float, width: int) -> Text:
        minutes, seconds = divmod(int(elapsed), 60)
        title = Text.assemble(
            (" kinformer ", "bold reverse cyan"),
            (f"  {minutes:02}:{seconds:02}", "bold"),
            ("  a living cluster on " if width >= _BESIDE else "  ", ""),
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
        for deployment in sorted(self._deployments.lister.list(), key=lambda deployment: deployment.key):
            desired = int(deployment.path("spec.replicas", 1))
            ready = int(deployment.path("status.readyReplicas", 0))
            style = "green" if ready == desired else "yellow"
            bar = Text("■" * min(ready, desired), style="green") + Text("■" * max(0, desired - ready), style="yellow")
            table.add_row(clean(deployment.key), Text(f"{ready}/{desired}", style=style), bar)
        return _panel(table, "Deployments")

    def _nodes_panel(self) -> Panel:
        line = Text(no_wrap=True, overflow="ellipsis")
        for node in sorted(self._nodes.lister.list(), key=lambda node: node.name):
            conditions = node.path("status.conditions", [])
            ready = any(
                condition.get("type") == "Ready" and condition.get("status") == "True" for condition in conditions
            )
            line.append("● " if ready else "○ ", style="green" if ready else "red")
            line.append(f"{clean(node.name)}  ", style="" if ready else "red")
        return _panel(line, "Nodes")

    def _informers_panel(self, *, wide: bool) -> Panel:
        table = _table("informer", "state", "items", *(["version"] if wide else []), "relists")
        for informer in (self._pods, self._deployments, self._nodes):
            health = informer.health()
            style = _STATES.get(health.state, "red")
            words = f"{'●' if health.live else '○'} {health.state.replace('_', ' ')}"
            state = Text(words.ljust(13), style=style)  # as wide as "backing off", so that the layout is stable
            table.add_row(
                informer.name if wide else informer.name.rpartition("/")[2],
                state,
                str(len(informer.lister)),
                *([health.resource_version] if wide else []),
                Text(str(health.relists), style="yellow" if health.relists else ""),
            )
        return _panel(table, "Informers, by their health()")

    def _events_panel(self, lines: int, width: int, *, short: bool, wide: bool) -> Panel:
        """Return the panel of the latest events, with `lines` lines of `width` cells."""
        table = Table(box=None, show_header=False, padding=(0, 1, 0, 0), pad_edge=False)
        events = list(self._activity.recent)[-lines:]
        changes = [clean(event.what) for event in events]
        if short:
            changes = [change[change.index("→") :] if "→" in change else change for change in changes]
        words = max((cell_len(change) for change in changes), default=0)
        times = 9 if wide else 0
        room = max(_LEAST_NAME, width - 8 - times - words - 1)
        for event, change in zip(events, changes, strict=True):
            name = Text(middle(clean(event.key), room), no_wrap=True)
            cells = [Text(event.type.ljust(7), style=_TYPES.get(event.type, "")), name, _words(change)]
            table.add_row(*([Text(f"{event.at:%H:%M:%S}", "bright_black")] if wide else []), *cells)
        history = _spark(self._activity.history()[-24 if wide else -15 :])
        title = "Events, as handlers get them" if wide else "Events"
        return _panel(table, f"{title} [bold]{self._activity.rate():.1f}/s[/] [cyan]{history}[/]")


def _words(what: str) -> Text:
    """Return the description of a change, with coloured statuses."""
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
    """Draw a bar of pods by phase. The largest number is `width` blocks wide."""
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
