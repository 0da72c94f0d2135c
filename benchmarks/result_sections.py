"""The sections of docs/results.md: which figures of which benchmarks each has, and in which words."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from benchmarks.clients import CLIENTS, SYNCS
from benchmarks.results import Cell, Figure, Row, Runs, Section, Table, both, detail, number, rows, scaled, value, write

__all__ = ["SECTIONS", "chosen"]

COST = both(detail("cost_us", unit=" us"), value)
US = detail("us", unit=" us")

_PEERS = {
    "kinformer": "kinformer",
    "kinformer, handler decodes to a dict": "kinformer, handler decodes to a dict",
    "aiohttp and json.loads": "aiohttp and `json.loads`, no cache",
    "kopf, dict": "kopf, its watch, no cache",
    "lightkube, typed": "lightkube, no cache",
    "kubernetes_asyncio, dict": "kubernetes_asyncio, dicts, no cache",
    "kubernetes, typed": "kubernetes, no cache",
    "kubernetes, its informer": "kubernetes, its informer",
    "kubernetes_asyncio, typed": "kubernetes_asyncio, no cache",
    "kr8s, wrapped": "kr8s, no cache",
}
_HELD = ("lightkube, Pod", "dict, orjson", "kubernetes_asyncio, V1Pod", "dict, json", "kubernetes, V1Pod", "kr8s, Pod")


def _versions(runs: Runs) -> str:
    details = [figure["details"] for figure in runs["peers"]["figures"]]
    found = {one["version"]: None for one in details if one.get("version")}
    return f"Versions: {', '.join(found)}." if found else ""


def _peer(name: str, label: str) -> Row:
    cells = [Cell("peers", f"{kind}: {name}", COST) for kind in ("pods", "configmaps")]
    return Row(label, cells, optional=not name.startswith(("kinformer", "aio")))


def _listed(label: str, how: str, *, other: bool = False) -> Row:
    pods, configmaps = ("5000 pods", "5000 configmaps")
    if other:
        us = both(US, scaled(1, " x"))
        peak = Cell("real_server_lists", f"{pods}, {how}", detail("peak", 1e-3, " KB"))
        return Row(
            label,
            [
                Cell("real_server_lists", f"{pods}, {how}", us),
                peak,
                Cell("real_server_lists", f"{configmaps}, {how}", us),
            ],
            optional=True,
        )
    name = f"G16 {how}" if how in ("list", "watch_list") else how
    cost = detail("cost_us", unit=" us")
    small = None if "decoded" in how else Cell("real_server_lists", f"{how}, {configmaps}", cost)
    memory = None
    if name.startswith("G16"):
        memory = Cell("real_server_lists", f"{name}, peak memory of one of pods", scaled(1e-3, " KB"))
    return Row(label, [Cell("real_server_lists", f"{name}, {pods}", cost), memory, small])


def _followed(label: str, show: Callable[[Figure], str] = US, loop: str = "") -> Row:
    names = [f"G17 event of {kind}, informer, beyond aiohttp" for kind in ("pods", "configmaps")]
    return Row(label, [Cell(f"real_server_events{loop}", name, show) for name in names], optional=bool(loop))


def _followed_by(label: str, how: str, loop: str = "") -> Row:
    show = both(US, scaled(1, " x"))
    cells = [Cell(f"real_server_events{loop}", f"event of {kind}, {how}", show) for kind in ("pods", "configmaps")]
    return Row(label, cells, optional=True)


def _large(label: str, figure: str, show: Callable[[Figure], str]) -> Row:
    return Row(
        label, [Cell(f"large_{part}", f"{part}: {figure}", show) for part in ("configmaps", "compact", "fields")]
    )


def _together(label: str, figure: str, show: Callable[[Figure], str]) -> Row:
    return Row(label, [Cell(f"large_{part}", f"{part}: {figure}", show) for part in ("informers", "groups")])


def _link(link: str, way: str, label: str) -> Row:
    seconds, us = scaled(1, " s"), detail("us", unit=" us")
    ways = [Cell("compression", f"{link}: {way}, {coding}", both(seconds, us)) for coding in ("none", "gzip")]
    return Row(f"{link}: {label}", ways)


def _shard(label: str, figure: str) -> Row:
    return Row(label, [Cell("sharding", f"{figure.format(f'1 of {count}')}", value) for count in (1, 2, 4, 8)])


_TOO_LARGE = ("kube-rs", "kubernetes, its informer")  # for the machine, with 100,000 pods and their server


def _limit(client: str) -> Row:
    cells = [Cell(run, f"memory limit, {client}", scaled(1, " MB")) for run in ("beside", "beside_memory")]
    return Row(client, [None, cells[1]] if client in _TOO_LARGE else cells, optional=not client.startswith("kinformer"))


_RATES = ("100 a second", "1000 a second", "100 a second, pods listed meanwhile")


def _quantiles(figure: Figure) -> str:
    details = figure["details"]
    shown = "/".join(number(details[name]) for name in ("p50", "p99", "p999"))
    return f"{shown} at {details['reached']:.0f}/s"


def _delays(client: str) -> Row:
    """The delays of one client at each rate of events, and the rate that was reached."""
    cells = [Cell("beside", f"delay at {rate}, {client}", _quantiles) for rate in _RATES]
    return Row(client, cells, optional=client != "kinformer")


def _cut(client: str) -> Row:
    """The gap after a cut connection, and the delay of events while pods are listed."""
    cut = Cell("beside_cuts", f"cut connection to next event, {client}")
    listing = Cell("beside_lists", f"delay at 100 a second, pods listed meanwhile, {client}", _quantiles)
    return Row(client, [cut, listing], optional=client != "kinformer")


def _served(label: str, list_: str, event: str | None) -> Row:
    name = f"server, event to one watcher, {event}"
    return Row(
        label,
        [
            Cell("beside", f"server, {list_}", scaled(1, " s")),
            Cell("beside", f"server, {list_}", detail("bytes", 1e-6, " MB")),
            Cell("beside", name) if event else None,
            Cell("beside", name, detail("bytes", 1e-3, " KB")) if event else None,
        ],
        optional="kinformer" not in label,
    )


def _workers(label: str, figure: str) -> Row:
    """A figure of eight workers, without a shared cache and with one."""
    ways = ("without sharing", "that share")
    return Row(label, [Cell("workers", figure.format(f"8 workers {way}")) for way in ways])


SECTIONS = (
    Section(
        "events",
        "A watch event",
        "CPU from the socket to the awaited handler, over `orjson.loads` of the line.",
        [
            Table(
                ("8 KB pods, unless named", "ratio"),
                [
                    *rows(
                        "watch",
                        ("an event", "G1 watch event, 8 KB pod"),
                        ("indexed by `spec.nodeName`", "G19 watch event, 8 KB pod, indexed by spec.nodeName too"),
                        ("the handler decodes the whole object", "G1, handler decodes all"),
                        ("1 KB configmap", "G2 watch event, 1 KB configmap"),
                    ),
                    *rows(
                        "growth", ("with 100,000 cached, over 1,000", "G13 watch event, 100,000 pods cached over 1,000")
                    ),
                    *rows(
                        "many",
                        (
                            "shared by 200 informers, over one informer",
                            "G14 200 informers, one event a second each, over one informer",
                        ),
                    ),
                ],
            )
        ],
        [["watch"], ["growth"], ["many"]],
    ),
    Section(
        "lists",
        "A first list",
        "CPU to the synced cache and a handler, over `orjson.loads` of the items.",
        [
            Table(
                ("100,000 pods, unless named", "ratio"),
                [
                    *rows(
                        "list",
                        ("LIST", "G4 LIST, 100,000 8 KB pods"),
                        ("WatchList", "G4 by WatchList, 100,000 8 KB pods"),
                        ("LIST, indexed by `spec.nodeName`", "G20 LIST, 100,000 pods, indexed by spec.nodeName too"),
                        ("LIST of 30,000 configmaps of 1 KB", "G21 LIST, 30,000 1 KB configmaps"),
                    ),
                    *rows("snapshot", ("from a snapshot, over LIST, in time", "G18 time to synced, from a snapshot")),
                ],
            )
        ],
        [["list"], ["snapshot"]],
    ),
    Section(
        "memory",
        "Memory",
        "Resident memory of an informer; a configmap has 1 KB. Real pods are less alike, so `compact` saves less.",
        [
            Table(
                ("an object that is kept", "memory", "of its JSON"),
                [
                    *(
                        Row(
                            label,
                            [
                                Cell("compact", f"cache, {way}", detail("cache", 1e-8, " KB", digits=2)),
                                Cell("compact", f"cache, {way}", value),
                            ],
                        )
                        for label, way in (
                            ("pod", "default"),
                            ("pod, `compact=True`", "compact"),
                            ("pod, three `fields`", "fields"),
                        )
                    ),
                    Row("configmap", [None, Cell("memory", "G23 cache of 1 KB configmaps", value)]),
                    Row("by a stream, which keeps its version", [Cell("stream", "stream", scaled(1, " bytes")), None]),
                ],
            ),
            Table(
                ("the peak, over the cache", "ratio"),
                rows(
                    "memory",
                    ("of a first list", "G6 peak of the first list"),
                    ("of a relist without changes", "G6 peak of a relist, nothing changed"),
                    ("of a relist that changes all", "G6 peak of a relist, all changed"),
                ),
            ),
        ],
        [["compact"], ["memory"], ["stream"]],
    ),
    Section(
        "loop",
        "The event loop",
        "The longest gap of a 1 ms timer, by its CPU time, while 100,000 pods come in.",
        [
            Table(
                ("meanwhile", "ms"),
                [
                    *rows(
                        "stall",
                        ("LIST", "G8 longest stall, LIST"),
                        ("WatchList", "G8 longest stall, WatchList"),
                        ("LIST over TLS", "G8 longest stall, LIST over TLS"),
                        ("a relist", "G8 longest stall, a relist after a 410"),
                    ),
                    *rows(
                        "latency",
                        (
                            "99th percentile of a web request, added to idle",
                            "G9 request p99 while 100,000 pods sync, added to idle",
                        ),
                    ),
                    *rows(
                        "collector",
                        ("`gc.collect()`, added by 100,000 pods", "G7 gc.collect(), added by 100,000 pods"),
                        ("by a million objects", "G7 gc.collect(), added by 1,000,000 objects"),
                    ),
                ],
            )
        ],
        [["stall"], ["latency"], ["collector"]],
    ),
    Section(
        "reads",
        "Reads",
        "On a cache of 100,000 pods, over the plain Python that gives the same.",
        [
            Table(
                ("read", "ratio"),
                rows(
                    "reads",
                    ("`get_by_key`, over `dict.get`", "G11 get_by_key over dict.get"),
                    ("`lister.get`, over `dict.get`", "G11 lister.get over dict.get"),
                    ("label selector, faster than a scan", "G11 label selector over a scan"),
                    ("`obj.to_dict()`, faster than `copy.deepcopy`", "G12 a mutable copy over copy.deepcopy"),
                ),
            )
        ],
        [["reads"]],
    ),
    Section(
        "peers",
        "Other clients for Python",
        "CPU of a watch event, and its ratio to `orjson.loads` of the line. All get the same bytes, in turns. Then the "
        "memory of one pod.",
        [
            Table(("client", "8 KB pod", "1 KB configmap"), [_peer(name, label) for name, label in _PEERS.items()]),
            Table(
                ("form", "memory"),
                [Row(form, [Cell("held", form, detail("bytes", 1e-3, " KB"))], optional=True) for form in _HELD],
            ),
        ],
        [["peers"], ["held"]],
        _versions,
    ),
    Section(
        "real-server",
        "A real kube-apiserver",
        "Over TLS on the same machine: CPU of an object, and its ratio to kinformer. There are 5,000 pods of 9.8 KB "
        "and 5,000 configmaps of 1 KB.",
        [
            Table(
                ("a first list", "pod", "peak memory", "configmap"),
                [
                    _listed("kinformer, LIST", "list"),
                    _listed("kinformer, WatchList", "watch_list"),
                    _listed("kinformer, handler reads all", "list, decoded"),
                    _listed("aiohttp alone, LIST", "list drained"),
                    _listed("client-go, protobuf, LIST", "client-go protobuf list", other=True),
                    _listed("kube-rs, LIST", "kube-rs list", other=True),
                ],
            ),
        ],
        [["real_server", "--only", "lists", "--client-go", "--kube-rs"]],
    ),
    Section(
        "real-server-events",
        "Its events",
        "Events come one by one, 200 pods or 600 configmaps a second. The last two rows are another run.",
        [
            Table(
                ("an event", "pod", "configmap"),
                [
                    _followed("kinformer"),
                    _followed("aiohttp alone", detail("floor_us", unit=" us")),
                    _followed_by("client-go, protobuf", "client-go protobuf"),
                    _followed_by("kube-rs", "kube-rs"),
                    _followed("kinformer on uvloop", loop="_uvloop"),
                    _followed_by("kube-rs, in the same run", "kube-rs", loop="_uvloop"),
                ],
            ),
        ],
        [
            ["real_server", "--only", "events", "--client-go", "--kube-rs"],
            ["real_server", "--only", "events", "--kube-rs", "--loop", "uvloop"],
        ],
    ),
    Section(
        "beside",
        "Limits, delays, costs of the server",
        "A real kube-apiserver with 100,000 pods of 9 KB, over TLS on the same machine. The memory limit is the least "
        "under which a first list survives. A delay is from before the write to the handler, with the server's time.",
        [
            Table(("least memory limit of a first list", "100,000 pods", "20,000"), [*map(_limit, SYNCS)]),
            Table(
                ("delay, ms: p50/p99/p99.9", "100 events/s", "1,000/s", "100/s while it lists the pods"),
                [*map(_delays, CLIENTS)],
            ),
            Table(
                ("the server's costs", "CPU of the list", "bytes", "CPU of an event, us", "bytes"),
                [
                    *(_served(client, f"first list, {client}", client) for client in CLIENTS),
                    _served("kinformer, with a snapshot", "start with a snapshot, kinformer", None),
                ],
            ),
        ],
        [["beside"], ["beside", "--pods", "20000", "--only", "memory"]],
    ),
    Section(
        "cuts",
        "Cuts, and lists beside events",
        "A real kube-apiserver over TLS. With 50 events a second, all connections are cut 20 times. With 100 a second, "
        "the same process lists 5,000 pods, ten times by each client in turns: the delay of the events meanwhile.",
        [
            Table(
                ("", "a cut connection to the next event, ms", "delay beside a list, ms: p50/p99/p99.9"),
                [*map(_cut, CLIENTS)],
            )
        ],
        [["beside", "--only", "cuts"], ["beside", "--pods", "5000", "--only", "lists"]],
    ),
    Section(
        "workers",
        "Workers that share a cache",
        "8 processes, each with an informer of 5,000 pods, and 200 changes a second on a real kube-apiserver over TLS.",
        [
            Table(
                ("at the server", "without `share=`", "with it"),
                [
                    _workers("connections", "connections at the server of {}"),
                    _workers("watches", "watches at the server of {}"),
                    Row(
                        "CPU, writes too, over one worker's",
                        [
                            Cell("workers", "the server's CPU for 8 workers without sharing, over one"),
                            Cell("workers", "the server's CPU for 8 workers that share, over one without sharing"),
                        ],
                    ),
                ],
            ),
            Table(
                ("a follower", "figure"),
                [
                    *rows(
                        "workers",
                        (
                            "CPU of an event, over an informer on the server",
                            "a follower's CPU for an event, over an informer on the server",
                        ),
                        ("after the holder's handler, p99, ms", "from the holder's handler to a follower's, p99"),
                        (
                            "first event after a killed holder, s",
                            "from a killed holder to the first event at all followers",
                        ),
                        (
                            "first list of 100,000 pods, over the server's",
                            "a follower's first list of 100,000 pods, over one from the server",
                        ),
                    ),
                    *rows("followers", ("the holder's CPU for its event, us", "a lone event for a follower")),
                ],
            ),
        ],
        [["workers"], ["followers"]],
    ),
    Section(
        "large",
        "A million objects, 2,000 informers",
        "Configmaps have 1.1 KB, pods 3.2 KB. One run each.",
        [
            Table(
                ("a million", "configmaps", "pods, `compact`", "pods, three `fields`"),
                [
                    _large("first list", "first list, time", scaled(1, " s")),
                    _large("its longest stall", "first list, longest stall", scaled(1, " ms")),
                    _large("memory", "cache", scaled(1, " MB")),
                    _large("relist without changes", "relist, time", scaled(1, " s")),
                    _large("its longest stall", "relist, longest stall", scaled(1, " ms")),
                ],
            ),
            Table(
                ("2,000 informers of 200 configmaps", "all at once", "50 at a time"),
                [
                    _together("until all have synced", "start, time", scaled(1, " s")),
                    _together("longest stall", "start, longest stall", scaled(1, " ms")),
                    _together("memory of one", "memory of one", scaled(1, " KB")),
                    _together("an event, CPU", "an event", scaled(1, " us")),
                ],
            ),
        ],
        [["large", "configmaps", "compact", "fields", "informers", "groups"]],
    ),
    Section(
        "compression",
        "Compression",
        "20,000 pods of 8 KB to the synced cache, over TLS: time, and CPU of a pod. Needs root.",
        [
            Table(
                ("link", "`none`", "`gzip`"),
                [
                    _link("100 Mbit/s, 20 ms", "list", "LIST"),
                    _link("100 Mbit/s, 20 ms", "watch_list", "WatchList"),
                    _link("1 Gbit/s, 1 ms", "list", "LIST"),
                ],
            )
        ],
        [["studies.compression"]],
    ),
    Section(
        "derived",
        "Derived collections",
        "100,000 pods on 1,000 nodes, from sources in memory.",
        [
            Table(
                ("", "figure"),
                rows(
                    "derived",
                    ("a change of a pod, with a join on it, over without", "a change in a join"),
                    ("the same, over a join of 1,000 pods", "a change in a join of 100,000 pods"),
                    ("a chain of five collections, over one", "a chain of five"),
                    ("first sync of a join, over that of its inputs", "the first sync of a join"),
                ),
            )
        ],
        [["derived"]],
    ),
    Section(
        "operators",
        "Controllers, shards, exploration",
        "A reconcile that does nothing. Then one shard of several, for 2,000 pods of 8 KB.",
        [
            Table(
                ("", "figure"),
                [
                    *rows(
                        "controller",
                        ("CPU of a reconcile, 1 worker, us", "a reconcile that does nothing, 1 worker: CPU"),
                        ("16 workers, us", "a reconcile that does nothing, 16 workers: CPU"),
                    ),
                    *rows("explore", ("explored histories a second", "histories of a small operator")),
                ],
            ),
            Table(
                ("one shard", "of 1", "of 2", "of 4", "of 8"),
                [
                    _shard("server filters: MB", "main, filtered by the server, {}: memory"),
                    _shard("an event, us", "main, filtered by the server, {}: CPU of an event of the whole resource"),
                    _shard("owned: MB", "owned, {}: memory"),
                    _shard("an event, us", "owned, {}: CPU of an event of the whole resource"),
                ],
            ),
        ],
        [["controller"], ["explore"], ["sharding"]],
    ),
)


def chosen(names: Sequence[str]) -> list[Section]:
    """The sections of these names, or all.

    Raises:
        ValueError: There is none of a name.
    """
    if unknown := set(names) - {section.name for section in SECTIONS}:
        raise ValueError(f"there is no section {', '.join(sorted(unknown))}")
    return [section for section in SECTIONS if not names or section.name in names]


if __name__ == "__main__":
    for reason in write(SECTIONS):
        sys.stdout.write(f"left as it was: {reason}\n")
