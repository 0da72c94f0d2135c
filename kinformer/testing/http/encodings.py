"""The media types of responses besides JSON."""

from __future__ import annotations

import msgspec

from kinformer.apiserver.accept import PROTOBUF, YAML
from kinformer.apiserver.response import Encoding
from kinformer.testing.codec.protobuf_encoder import PROTOBUF_STREAM, encode_lines, encode_protobuf

__all__ = ["ENCODINGS"]


def _yaml(body: bytes) -> bytes:
    """Return JSON as YAML, as sigs.k8s.io/yaml writes it, with keys in alphabetical order."""
    from kinformer.testing.codec.yaml_text import to_yaml

    return to_yaml(msgspec.json.decode(body))


ENCODINGS = {YAML: Encoding(_yaml), PROTOBUF: Encoding(encode_protobuf, PROTOBUF_STREAM, encode_lines)}
