"""Compressed objects: trains a dictionary on them, and wraps a source to compress its objects."""

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

SAMPLES = 1000  # objects to train the dictionary on. For Pods, ten times its size, which is enough
SAMPLE_BYTES = 16 * 1024 * 1024  # limit for large objects, because training time grows with the bytes
_SAMPLE = 64 * 1024  # bytes of each object used for training
_DICTIONARY = 112_640  # bytes, zstd's default. With half of it, Pods take 2 % more
_LEVEL = 1  # level 3 gains 1 % here and takes 50 % longer
_JUDGED = 10  # every tenth sample is held out to evaluate the dictionary
_GAIN = 0.9  # a dictionary that saves less than a tenth is not worth its memory


class Compaction:
    """Compresses the objects of one informer.

    The first objects are compressed individually (a Pod to 0.35 of its JSON). After 1,000 objects with different keys,
    a dictionary is trained on them in a worker thread, which takes a third of a second. With it, similar objects, such
    as the objects of one resource, shrink to a tenth. A dictionary that does not help is not used, and an object that
    does not shrink stays unchanged.

    Raises:
        ConfigError: zstd is missing: `backports.zstd` is not installed, or Python was built without it.
    """

    def __init__(self) -> None:
        self._zstd = _zstd()
        self._codec = _ZstdCodec(self._zstd, None)
        # By key, compressed. These are the cache's own objects, so that a small cache is not stored twice.
        self._samples: dict[str, KubeObject] | None = {}
        self._sampled = 0
        self._training = False
        self._dictionary: bool | None = None

    @property
    def due(self) -> bool:
        """True if there are enough samples for training, and no training is running."""
        samples = self._samples
        if samples is None or self._training:
            return False
        return len(samples) >= SAMPLES or self._sampled >= SAMPLE_BYTES

    @property
    def dictionary(self) -> bool | None:
        """True if there is a dictionary, None before the training, or False if it did not help."""
        return self._dictionary

    def compact(self, obj: KubeObject) -> KubeObject:
        """Return the compressed object.

        An object that would not shrink, or is already packed, is returned unchanged.
        """
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
        """Train the dictionary in a worker thread. If cancelled, it has no effect."""
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
    """A compressor with or without a dictionary. Objects compressed with it hold a reference to it."""

    __slots__ = ("_compress", "_decompressor", "_dictionary")

    def __init__(self, zstd: Any, dictionary: Any) -> None:  # Any: one of two modules with the same API
        level, dict_id = zstd.CompressionParameter.compression_level, zstd.CompressionParameter.dict_id_flag
        digested = None if dictionary is None else dictionary.as_digested_dict  # otherwise digested per object
        compressor = zstd.ZstdCompressor(options={level: _LEVEL, dict_id: 0}, zstd_dict=digested)
        self._compress = partial(compressor.compress, mode=compressor.FLUSH_FRAME)
        self._decompressor = zstd.ZstdDecompressor
        self._dictionary = dictionary

    def compress(self, data: bytes) -> bytes:
        result: bytes = self._compress(data)
        return result

    def unpack(self, obj: KubeObject) -> bytes:
        # A decompressor handles one frame, and creating it is most of the cost of a read. So threads share only the
        # dictionary, which does not change.
        result: bytes = self._decompressor(self._dictionary).decompress(obj._data)
        return result


def _train(zstd: Any, objects: list[KubeObject]) -> _ZstdCodec | None:
    """Return a codec with a dictionary of these objects, or None if it does not help."""
    raws = [obj.raw[:_SAMPLE] for obj in objects]
    judged = raws[::_JUDGED]  # the dictionary was trained on the others
    del raws[::_JUDGED]
    try:
        dictionary = zstd.train_dict(raws, _DICTIONARY)
    except (zstd.ZstdError, ValueError) as error:  # too little data, or too similar, for training
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
            message = "compact=True needs compression.zstd, and this Python was built without it"
        else:
            message = "compact=True needs backports.zstd, which is not installed: pip install 'kinformer[compact]'"
        raise ConfigError(message) from error


_KEPT = frozenset(("ADDED", "MODIFIED"))  # types of events whose objects will be kept


class CompactingListerWatcher(ConvertingListerWatcher):
    """A wrapper around a `ListerWatcher` that compresses each object that will be kept, once.

    Last states (DELETED) and bookmarks pass unchanged, and an object that is already in the cache is not compressed
    again. Abilities, order, errors and cancellation are the same as for the inner source. It works in slices of 1 ms.
    Once there are enough samples, it waits for the training of the dictionary, during which other tasks can run.

    Args:
        inner: The source, including any transform.
        compaction: The compression, shared by all sources of one cache.
        known: Returns the object in the cache for a key, or None.
    """

    def __init__(self, inner: ListerWatcher, compaction: Compaction, *, known: Callable[[str], Any]) -> None:
        super().__init__(inner)
        self._compaction = compaction
        self._known = known

    def convert_object(self, obj: Any) -> KubeObject:
        """Return the compressed object, or the object in the cache."""
        entry = obj if isinstance(obj, KubeObject) else KubeObject.from_dict(obj)
        cached: KubeObject = known_or_new(self._known, entry)
        return cached if cached is not entry else self._compaction.compact(entry)

    def convert_event(self, event: WatchEvent) -> WatchEvent:
        """Return the event with the compressed object. Last states and bookmarks stay unchanged."""
        return WatchEvent(event.type, self.convert_object(event.object)) if event.type in _KEPT else event

    def _must_pause(self, budget: YieldBudget) -> bool:
        return self._compaction.due or budget.exhausted()

    async def _pause(self, budget: YieldBudget) -> None:
        if self._compaction.due:
            await self._compaction.train()
            budget.enter()
        else:
            await budget.pause()
