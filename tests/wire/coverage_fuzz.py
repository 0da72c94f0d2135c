"""Fuzzing by coverage: ``python -m tests.wire.coverage_fuzz TARGET SECONDS`` (needs ``pip install atheris``).

The parsers of whatever comes from outside are given bytes that reach ever more of their lines. What they may do is to
refuse, by an error of their own; anything else ends the run with the bytes that did it. ``test_fuzz.py`` has the same
promises under hypothesis, with a strict decoder as the oracle, and runs each time.

Internals: the parsers themselves, for any bytes.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import atheris  # type: ignore[import-not-found]

with atheris.instrument_imports(include=["kinformer"]):
    import msgspec

    from kinformer import LabelSelector
    from kinformer.connection.kubeconfig import load_kubeconfig
    from kinformer.exceptions import ConfigError, DecodeError, KinformerError, SelectorError
    from kinformer.objects.paths.json_path import parse_path
    from kinformer.snapshot.format import OBJECTS, BlockReader, ObjectReader, Seal, SnapshotHeader, SnapshotRefusedError
    from kinformer.wire.decoder import EntryDecoder
    from kinformer.wire.lines import LineFramer
    from kinformer.wire.list_parser import ListSplitter

_FOLDER = tempfile.TemporaryDirectory(prefix="coverage-fuzz")
_KUBECONFIG = Path(_FOLDER.name) / "config"


def frames(data: bytes) -> None:
    """Lines of a watch, cut anywhere."""
    framer, lines = LineFramer(64), []
    step = 1 + data[0] % 40 if data else 1
    try:
        for start in range(0, len(data), step):
            lines += [line for found in framer.feed(data[start : start + step]) for line in found]
    except DecodeError:
        return
    assert lines == [one for line in data.split(b"\n")[:-1] if (one := line.removesuffix(b"\r"))]


def a_list(data: bytes) -> None:
    """A LIST, cut anywhere: accepted only where a strict decoder reads the same."""
    splitter: ListSplitter[bytes] = ListSplitter()
    step, body = (1 + data[0], data[1:]) if data else (1, data)
    items: list[bytes] = []
    try:
        for start in range(0, len(body), step):
            items += splitter.feed(body[start : start + step])
        splitter.close()
    except DecodeError:
        return
    whole = msgspec.json.decode(body)
    if body.count(b'"items"') == 1:  # of a key twice JSON says nothing
        assert [msgspec.json.decode(item) for item in items] == (whole.get("items") or [])


def entries(data: bytes) -> None:
    """A line of a watch, and an item of a list."""
    for read in (EntryDecoder().event, EntryDecoder().item):
        try:
            read(data)
        except KinformerError:
            continue


def selectors(data: bytes) -> None:
    """Selectors, and the paths of indexes."""
    text = data.decode(errors="replace")
    with suppress(SelectorError):
        selector = LabelSelector.parse(text)
        assert LabelSelector.parse(str(selector)) == selector
    with suppress(ConfigError):
        parse_path(text)


def kubeconfig(data: bytes) -> None:
    """A kubeconfig's text."""
    _KUBECONFIG.write_bytes(data)
    with suppress(ConfigError):
        load_kubeconfig(_KUBECONFIG, environ={})


def snapshot(data: bytes) -> None:
    """A snapshot: as it comes, and as the head and the body of a block whose checksum is right."""
    seal = Seal()
    header = SnapshotHeader(contents={}, resource_versions={}, cluster=None, objects=0, taken_at=0.0)
    cut = data[0] if data else 0
    sealed = [*seal.header(header), *seal.block(OBJECTS, data[1 : 1 + cut], [data[1 + cut :]]), *seal.end()]
    for file in (data, b"".join(sealed)):
        try:
            blocks, objects = BlockReader(io.BytesIO(file).read, len(file)), ObjectReader()
            while (block := blocks.objects()) is not None:
                objects.read(block)
        except SnapshotRefusedError:
            continue


_LIST = (
    b'\x05{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"a\\u2028",'
    b'"uid":"u"},"spec":{"x":[1,{"y":"}"}]}},{"metadata":{"name":"b"}}]}'
)
_EVENT = (
    b'{"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","namespace":"b","uid":"u",'
    b'"resourceVersion":"7","labels":{"a":"b"},"managedFields":[{"manager":"m"}],"ownerReferences":[{"uid":"o",'
    b'"kind":"K","name":"n","apiVersion":"v1"}]},"spec":{}}}'
)
_ERROR = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}'
_CONFIG = (
    b"current-context: c\ncontexts:\n- {name: c, context: {cluster: k, user: u}}\nclusters:\n"
    b"- {name: k, cluster: {server: 'http://h:1', certificate-authority-data: YQ==}}\nusers:\n"
    b"- {name: u, user: {token: t, exec: {command: x, apiVersion: client.authentication.k8s.io/v1}}}\n"
)

TARGETS: dict[str, tuple[Callable[[bytes], None], list[bytes]]] = {
    "frames": (frames, [b"a\r\nb\n\n" + b"x" * 70]),
    "list": (a_list, [_LIST]),
    "entries": (entries, [_EVENT, _ERROR]),
    "selectors": (selectors, [b"a in (b, c), !d, e!=f, g notin (h), i=j", b"spec.containers[*].image", b"['a.b'].c"]),
    "kubeconfig": (kubeconfig, [_CONFIG]),
    "snapshot": (snapshot, [b"".join(Seal().end()), b"\x02\x92\x90\x90"]),
}


def main() -> None:
    """Fuzz one target for so many seconds."""
    target, seeds = TARGETS[sys.argv[1]]
    corpus = Path(_FOLDER.name) / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(seeds):
        (corpus / str(number)).write_bytes(seed)
    options = [
        sys.argv[0],
        str(corpus),
        f"-max_total_time={sys.argv[2]}",
        "-max_len=4096",
        "-timeout=10",
        "-verbosity=0",
    ]
    atheris.Setup([*options, "-print_final_stats=1", f"-artifact_prefix={Path.cwd()}/"], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
