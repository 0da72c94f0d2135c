"""The packed form of objects in an informer with `fields`: only the values, in a fixed order.

The values of three fields of a Pod take 90 bytes. With their keys, and with the name, labels and everything else that
the object has as attributes anyway, they would take 800. The missing parts are added when the JSON is read.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kinformer.exceptions import MALFORMED
from kinformer.objects.meta import OwnerReference
from kinformer.objects.object import KubeObject
from kinformer.objects.packed import packed, with_json
from kinformer.objects.paths.json_path import parse_path
from kinformer.objects.paths.projection import ALWAYS_KEPT, PathTree, Projection, struct_of, tree_of

__all__ = ["FieldLayout"]

# The always kept parts that are read from the JSON. The object stores the others as attributes.
_IN_JSON = ("metadata.generation", "metadata.creationTimestamp", "metadata.deletionTimestamp")
_KNOWN_SEGMENTS = tuple(parse_path(path).segments for path in ALWAYS_KEPT if path not in _IN_JSON)

_BETWEEN = b"\0"  # never occurs in JSON, because it is escaped in strings and is not whitespace

_encode = msgspec.json.Encoder().encode


class FieldLayout:
    """Packs the values of some JSON paths, and unpacks them as an object.

    Args:
        fields: The requested paths. The identity of an object is always kept.

    Raises:
        ConfigError: A path is invalid.
    """

    def __init__(self, fields: Sequence[str]) -> None:
        paths = [path for path in (*ALWAYS_KEPT, *fields) if not _is_known(path)]
        root = tree_of(paths)
        self._decode = msgspec.json.Decoder(struct_of(root, "_Values")).decode
        # For each value: its attributes in the decoded struct, its keys in the object, and True if it is decoded.
        self._values: list[tuple[tuple[str, ...], tuple[str, ...], bool]] = []
        self._lay_out(root, (), ())
        self._project = Projection(fields)

    def _lay_out(self, node: PathTree, attributes: tuple[str, ...], keys: tuple[str, ...]) -> None:
        if node.is_kept_whole or node.elements is not None:
            self._values.append((attributes, keys, not node.is_kept_whole))
            return
        for number, (key, child) in enumerate(node.keys.items()):
            self._lay_out(child, (*attributes, f"f{number}"), (*keys, key))

    def kept(self, obj: KubeObject) -> KubeObject:
        """Return the object reduced to the kept parts.

        Raises:
            DecodeError: Its bytes are not JSON.
        """
        data = self.pack(obj.raw)
        return with_json(obj, self._project(obj.raw)) if data is None else packed(obj, data, self)

    def pack(self, raw: bytes) -> bytes | None:
        """Pack the values of an object's JSON. Returns None if its structure does not match the paths."""
        try:
            struct = self._decode(raw)
        except MALFORMED:
            return None
        values: list[bytes | msgspec.Raw] = []
        for attributes, _, decoded in self._values:
            value = struct
            for attribute in attributes:
                value = getattr(value, attribute)
                if value is None or value is msgspec.UNSET:
                    value = b""
                    break
            values.append(_encode(value) if decoded and value != b"" else value)
        data = _BETWEEN.join(values)
        return data if data.count(_BETWEEN) == len(values) - 1 else None

    def unpack(self, obj: KubeObject) -> bytes:
        """Return the JSON of a packed object. Flags of owner references that are False are left out."""
        metadata: dict[str, object] = {"name": obj.name}
        fields = {"namespace": obj.namespace, "uid": obj.uid, "resourceVersion": obj.resource_version}
        metadata.update((key, value) for key, value in fields.items() if value)
        document: dict[str, object] = {"apiVersion": obj.api_version, "kind": obj.kind, "metadata": metadata}
        for (_, keys, _), value in zip(self._values, obj._data.split(_BETWEEN), strict=True):
            if value:
                place = document
                for key in keys[:-1]:
                    inner = place.setdefault(key, {})
                    assert isinstance(inner, dict)
                    place = inner
                place[keys[-1]] = msgspec.Raw(value)
        if document["metadata"] is metadata:
            if obj._labels:
                metadata["labels"] = obj._labels
            if obj.owner_references:
                metadata["ownerReferences"] = [_owner(owner) for owner in obj.owner_references]
        return _encode(document)


def _is_known(path: str) -> bool:
    segments = parse_path(path).segments
    return any(segments[: len(prefix)] == prefix for prefix in _KNOWN_SEGMENTS)


def _owner(owner: OwnerReference) -> dict[str, str | bool]:
    return {key: value for key, value in msgspec.to_builtins(owner).items() if value is not False}
