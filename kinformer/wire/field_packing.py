"""The form in which an informer with `fields` keeps its objects: the values alone, in a fixed order.

Of a Pod with three fields the values are 90 bytes; with their keys, and with the name, the labels and all else that an
object knows of itself anyway, they would be 800. What is missing in them is put around them when somebody reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kinformer.exceptions import MALFORMED
from kinformer.objects.json_path import ALWAYS_KEPT, Projection, parse_path, struct_of, tree_of
from kinformer.objects.object import KubeObject
from kinformer.objects.packed import packed, with_json

__all__ = ["FieldLayout"]

# What an object holds beside its JSON.
_KNOWN = (
    "apiVersion",
    "kind",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "metadata.resourceVersion",
    "metadata.labels",
    "metadata.ownerReferences",
)
_KNOWN_SEGMENTS = tuple(parse_path(path).segments for path in _KNOWN)

_BETWEEN = b"\0"  # stands in no JSON: within texts it is escaped, and nobody pads with it

_encode = msgspec.json.Encoder().encode


class FieldLayout:
    """Packs the values of some JSON paths, and unpacks them as an object.

    Args:
        fields: The paths that were asked for; what identifies an object is there whatever they say.

    Raises:
        ConfigError: a path does not parse.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        wanted = [path for path in (*ALWAYS_KEPT, *fields) if not _is_known(path)]
        root = tree_of(wanted)
        self._decode = msgspec.json.Decoder(struct_of(root, "_Values")).decode
        # Of each value: where it stands in what was decoded, where in the object, and whether it is decoded itself.
        self._values: list[tuple[tuple[str, ...], tuple[str, ...], bool]] = []
        self._lay_out(root, (), ())
        self._project = Projection(fields)

    def _lay_out(self, node: Any, attributes: tuple[str, ...], keys: tuple[str, ...]) -> None:
        if node.is_kept_whole or node.elements is not None:
            self._values.append((attributes, keys, not node.is_kept_whole))
            return
        for number, (key, child) in enumerate(node.keys.items()):
            self._lay_out(child, (*attributes, f"f{number}"), (*keys, key))

    def kept(self, obj: KubeObject) -> KubeObject:
        """`obj` with nothing but what is kept of it.

        Raises:
            DecodeError: its bytes are no JSON.
        """
        data = self.pack(obj.raw)
        return with_json(obj, self._project(obj.raw)) if data is None else packed(obj, data, self)

    def pack(self, raw: bytes) -> bytes | None:
        """The values in an object's JSON; None where it is built in another way than the paths expect."""
        try:
            found = self._decode(raw)
        except MALFORMED:
            return None
        values: list[Any] = []
        for attributes, _, decoded in self._values:
            value: Any = found
            for attribute in attributes:
                value = getattr(value, attribute)
                if value is None or value is msgspec.UNSET:
                    value = b""
                    break
            values.append(_encode(value) if decoded and value != b"" else value)
        data = _BETWEEN.join(values)
        return data if data.count(_BETWEEN) == len(values) - 1 else None

    def unpack(self, obj: KubeObject) -> bytes:
        """The JSON of an object whose values are packed. Of its owners' two flags those that are false are left out."""
        metadata: dict[str, Any] = {"name": obj.name}
        known = {"namespace": obj.namespace, "uid": obj.uid, "resourceVersion": obj.resource_version}
        metadata.update((key, value) for key, value in known.items() if value)
        document: dict[str, Any] = {"apiVersion": obj.api_version, "kind": obj.kind, "metadata": metadata}
        for (_, keys, _), value in zip(self._values, obj._data.split(_BETWEEN), strict=True):
            if value:
                place = document
                for key in keys[:-1]:
                    place = place.setdefault(key, {})
                place[keys[-1]] = msgspec.Raw(value)
        if document["metadata"] is metadata:
            if obj._labels:
                metadata["labels"] = obj._labels
            if obj.owner_references:
                metadata["ownerReferences"] = [_owner(owner) for owner in obj.owner_references]
        return _encode(document)


def _is_known(path: str) -> bool:
    segments = parse_path(path).segments
    return any(segments[: len(known)] == known for known in _KNOWN_SEGMENTS)


def _owner(owner: Any) -> dict[str, Any]:
    return {key: value for key, value in msgspec.to_builtins(owner).items() if value is not False}
