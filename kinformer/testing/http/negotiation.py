"""Content negotiation of responses (apiserver/pkg/endpoints/handlers/negotiation)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kinformer.serving.status import failure, not_acceptable
from kinformer.testing.codec.protobuf_encoder import PROTOBUF

__all__ = ["Wanted", "is_pretty", "negotiate"]

_ACCEPTED = "application/json, application/yaml, application/vnd.kubernetes.protobuf"
_STREAMED = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
_FORMS = {
    "Table": "table",
    "PartialObjectMetadata": "partial",
    "PartialObjectMetadataList": "partial",
    "": "",
}
_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The requested form of a response: `form` as in `View`, and `drop` for objects without managedFields.

    Metadata is sent as protobuf if that is named first. Whole objects are kept as JSON, so they are sent as protobuf
    only to clients that accept nothing else.
    """

    form: str = ""
    kind: str = ""
    yaml: bool = False
    version: str = "v1"  # of meta.k8s.io
    protobuf: bool = False
    drop: bool = False


_PLAIN = Wanted()
_MEDIA = {"application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "*/*", "application/*"}


def is_pretty(headers: Mapping[str, str], params: Mapping[str, str]) -> bool:
    """Return True for requests with `pretty`, and for browsers and curl (negotiate.go, isPrettyPrint)."""
    pretty = params.get("pretty")
    if pretty is not None:
        return pretty.lower() in ("1", "t", "true")
    return headers.get("User-Agent", "").startswith(_PRETTY_AGENTS)


def _clauses(accept: str) -> list[tuple[str, dict[str, str]]]:
    clauses = []
    for clause in accept.split(","):
        media, *parameters = [part.strip() for part in clause.split(";")]
        pairs = {}
        for parameter in parameters:
            name, _, value = parameter.partition("=")
            pairs[name.strip()] = value.strip()
        if media:
            clauses.append((media.lower(), pairs))
    return clauses


def negotiate(
    headers: Mapping[str, str],
    *,
    watch: bool = False,
    builtin: bool = True,
    tables: bool = True,
    drops: bool = False,
) -> Wanted:
    """Return the first acceptable clause of `Accept`. Raises a 406 `StatusError` if there is none.

    Args:
        headers: The headers of the request.
        watch: True if the response is a stream.
        builtin: True for a built-in kind.
        tables: True if the response can be a table or only metadata, as a review cannot.
        drops: True to support `drop=metadata.managedFields`. Otherwise it is ignored, like any unknown parameter.
    """
    accept = headers.get("Accept", "")
    if accept in ("", "*/*", "application/json"):
        return _PLAIN
    clauses = _clauses(accept)
    last = Wanted(protobuf=True) if builtin and _takes_whole(clauses, PROTOBUF) else None
    for media, parameters in clauses:
        kind = parameters.get("as", "")
        version = parameters.get("v", "v1")
        if kind not in _FORMS or version not in ("v1", "v1beta1") or (kind and not tables):
            continue
        dropped = parameters.get("drop", "") if drops else ""
        if dropped not in ("", "metadata.managedFields"):
            continue
        drop = bool(dropped)
        if media in ("application/json", "application/*", "*/*"):
            return Wanted(_FORMS[kind], kind, version=version, drop=drop)
        if media == "application/yaml" and not watch:
            return Wanted(_FORMS[kind], kind, yaml=True, version=version, drop=drop)
        if media == PROTOBUF and _FORMS[kind] == "partial":
            return Wanted(_FORMS[kind], kind, version=version, protobuf=True, drop=drop)
    if last is not None:
        return last
    if builtin and not any(media in _MEDIA for media, _ in clauses):
        # go-restful, which routes to the handlers, knows the media types of built-in kinds.
        listed = f"{_ACCEPTED}, {_STREAMED}" if watch else _ACCEPTED
        raise failure(406, f"406: Not Acceptable\n\nAvailable representations: {listed}", details={})
    listed = _STREAMED if watch else _ACCEPTED
    raise not_acceptable(f"only the following media types are accepted: {listed}")


def _takes_whole(clauses: list[tuple[str, dict[str, str]]], media: str) -> bool:
    return any(named == media and "as" not in parameters for named, parameters in clauses)


def check_kind(wanted: Wanted, *, collection: bool, watch: bool, builtin: bool, list_kind: str) -> None:
    """Raise a 406 for PartialObjectMetadata of a list, or for PartialObjectMetadataList of an object or event."""
    if wanted.form != "partial":
        return
    go_list = f"*{list_kind}" if builtin else "*unstructured.UnstructuredList"
    if collection and not watch and wanted.kind == "PartialObjectMetadata":
        raise not_acceptable(f"you requested PartialObjectMetadata, but the requested object is a list ({go_list})")
    if (watch or not collection) and wanted.kind == "PartialObjectMetadataList":
        raise not_acceptable("you requested PartialObjectMetadataList, but the requested object is not a list")
