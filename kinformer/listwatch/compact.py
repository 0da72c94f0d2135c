"""Compressed objects: the dictionary that is trained on them, and the source that compresses what another gives."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import Any

import anyio.to_thread

from kinformer._runtime.clock import YieldBudget
from kinformer._runtime.logs import get_logger
from kinformer.exceptions import ConfigError
from kinformer.list_watcher import ListerWatcher, WatchEvent
from kinformer.listwatch.wrapper import ConvertingListerWatcher
from kinformer.objects.accessors import known_or_new
from kinformer.objects.object import KubeObject
from kinformer.objects.packed import PackedObject, packed, with_json

__all__ = ["CompactingListerWatcher", "Compaction"]

log = get_logger("kinformer.compaction")

SAMPLES = 1000  # objects that the dictionary is trained on: ten times its size of Pods, and that is enough
SAMPLE_BYTES = 16 * 1024 * 1024  # of JSON, where objects are large: training takes time by the byte
_SAMPLE = 64 * 1024  # bytes of one object that training looks at
_DICTIONARY = 112_640  # bytes: zstd's own default; half of it costs a Pod 2 % more
_LEVEL = 1  # level 3 gains 1 % on these and takes half as long again
_JUDGED = 10  # every tenth sample is kept back to judge the dictionary by
_GAIN = 0.9  # a dictionary that saves less than a tenth is not worth its memory


class Compaction:
    """Makes the objects of one informer small.

    The first objects are compressed each by itself (a Pod to 0.35 of its JSON). After 1,000 objects with different
    keys, a dictionary is trained on them in a worker thread, which takes a third of a second; with it, similar objects,
    as those of one resource are, shrink to a tenth. A dictionary that does not help is not used, and an object that
    does not shrink at all stays as it is.

    Raises:
        ConfigError: There is no zstd: `backports.zstd` is not installed, or Python was built without it.
    """

    def __init__(self) -> None:
        self._zstd = _zstd()
        self._codec = _ZstdCodec(self._zstd, None)
        # By key, compressed: they are the cache's own objects, so that a cache that stays small is not held twice.
        self._samples: dict[str, KubeObject] | None = {}
        self._sampled = 0
        self._training = False
        self._dictionary: bool | None = None

    @property
    def due(self) -> bool:
        """True if there are enough samples to train on, and no training is running."""
        samples = self._samples
        if samples is None or self._training:
            return False
        return len(samples) >= SAMPLES or self._sampled >= SAMPLE_BYTES

    @property
    def dictionary(self) -> bool | None:
        """True if there is a dictionary; None before the training, False if it did not help."""
        return self._dictionary

    def compact(self, obj: KubeObject) -> KubeObject:
        """The object in its small form; one that would not shrink, or is packed already, as it is."""
        if type(obj) is PackedObject:
            return obj
        raw = obj.raw
        data = self._codec.compress(raw)
        if len(data) < len(raw):
            small: KubeObject = packed(obj, data, self._codec)
        else:
            small = obj if type(obj) is KubeObject else with_json(obj, raw)
        if self._samples is not None and obj.key not in self._samples:
            self._samples[obj.key] = small
            self._sampled += len(raw)
        return small

    async def train(self) -> None:
        """Train the dictionary, in a worker thread. Cancelled, it is as if it had not been called."""
        samples = self._samples
        if samples is None or self._training:
            return
        self._training = True
        try:
            objects = list(samples.values())
            codec = await anyio.to_thread.run_sync(_train, self._zstd, objects, abandon_on_cancel=True)
        finally:
            self._training = False
        self._samples = None
        self._dictionary = codec is not None
        if codec is not None:
            self._codec = codec


class _ZstdCodec:
    """A compressor with one dictionary, or none; objects that were compressed with it hold it."""

    __slots__ = ("_compress", "_decompressor", "_dictionary")

    def __init__(self, zstd: Any, dictionary: Any) -> None:  # Any: `compression.zstd` and `backports.zstd` are equal
        level, dict_id = zstd.CompressionParameter.compression_level, zstd.CompressionParameter.dict_id_flag
        digested = None if dictionary is None else dictionary.as_digested_dict  # else it is digested for each object
        compressor = zstd.ZstdCompressor(options={level: _LEVEL, dict_id: 0}, zstd_dict=digested)
        self._compress = partial(compressor.compress, mode=compressor.FLUSH_FRAME)
        self._decompressor = zstd.ZstdDecompressor
        self._dictionary = dictionary

    def compress(self, data: bytes) -> bytes:
        result: bytes = self._compress(data)
        return result

    def unpack(self, obj: KubeObject) -> bytes:
        # A decompressor is for one frame, and making it is most of what a read costs. So threads share the dictionary
        # alone, which does not change.
        result: bytes = self._decompressor(self._dictionary).decompress(obj._data)
        return result


def _train(zstd: Any, objects: list[KubeObject]) -> _ZstdCodec | None:
    """A codec with a dictionary of these objects; None if it does not help."""
    raws = [obj.raw[:_SAMPLE] for obj in objects]
    judged = raws[::_JUDGED]  # it has seen the others, and knows those by heart
    del raws[::_JUDGED]
    try:
        dictionary = zstd.train_dict(raws, _DICTIONARY)
    except (zstd.ZstdError, ValueError) as error:  # too little, or too much alike, to learn from; nothing at all
        log.debug("no dictionary could be trained: %s", error, reason="no_dictionary")
        return None
    codec, plain = _ZstdCodec(zstd, dictionary), _ZstdCodec(zstd, None)
    with_it = sum(len(codec.compress(raw)) for raw in judged)
    without = sum(len(plain.compress(raw)) for raw in judged)
    return codec if with_it <= _GAIN * without else None


def _zstd() -> ModuleType:
    try:
        return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")
    except ImportError as error:
        if sys.version_info >= (3, 14):
            text = "compact=True needs compression.zstd, and this Python was built without it"
        else:
            text = "compact=True needs backports.zstd, which is not installed: pip install 'kinformer[compact]'"
        raise ConfigError(text) from error


_KEPT = frozenset(("ADDED", "MODIFIED"))  # the types of events whose objects are going to be kept


class CompactingListerWatcher(ConvertingListerWatcher):
    """A `ListerWatcher` around another, which compresses each object that is going to be kept, once.

    Last states (DELETED) and bookmarks pass as they are, and an object that the cache has already is not compressed
    again. It offers what the inner source offers; order, errors and cancellation are those of the inner source.
    It works in slices of 1 ms, and once, when there is enough to train a dictionary on, waits for that, while others
    have the loop.

    Args:
        inner: The source, transform and all.
        compaction: The compression, shared by all sources of one cache.
        known: key -> the object in the cache, or None.
    """

    def __init__(self, inner: ListerWatcher, compaction: Compaction, *, known: Callable[[str], Any]) -> None:
        super().__init__(inner)
        self._compaction = compaction
        self._known = known

    def convert_object(self, obj: Any) -> KubeObject:
        """Return the object in its compact form, or as the cache has it."""
        entry = obj if isinstance(obj, KubeObject) else KubeObject.from_dict(obj)
        known: KubeObject = known_or_new(self._known, entry)
        return known if known is not entry else self._compaction.compact(entry)

    def convert_event(self, event: WatchEvent) -> WatchEvent:
        """Return the event with the object in its compact form; last states and bookmarks stay as they are."""
        return WatchEvent(event.type, self.convert_object(event.object)) if event.type in _KEPT else event

    def _must_pause(self, budget: YieldBudget) -> bool:
        return self._compaction.due or budget.exhausted()

    async def _pause(self, budget: YieldBudget) -> None:
        if self._compaction.due:
            await self._compaction.train()
            budget.restart()
        else:
            await budget.pause()
