"""Content negotiation of responses (apiserver/pkg/endpoints/handlers/negotiation, go-restful)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from kinformer.apiserver.status import StatusError, failure, not_acceptable

__all__ = ["JSON", "PROTOBUF", "YAML", "Accepted", "check_kind", "error_media", "is_pretty", "negotiate"]

JSON, YAML, PROTOBUF = "application/json", "application/yaml", "application/vnd.kubernetes.protobuf"
_MEDIA = (JSON, YAML, PROTOBUF)
_STREAMED = (f"{JSON};stream=watch", f"{PROTOBUF};stream=watch")
_FORMS = {"Table": "table", "PartialObjectMetadata": "partial", "PartialObjectMetadataList": "partial"}
_QUALITY = re.compile(r"[0-9]*\.?[0-9]+|[0-9]+\.")
_PRETTY_AGENTS = ("curl", "Wget", "Mozilla/5.0")


class Accepted(NamedTuple):
    """The requested form of a response.

    Attributes:
        media: `JSON`, `YAML` or `PROTOBUF`.
        form: As in `FormView`: "", "partial" or "table".
        kind, version: The kind that was asked for, such as `Table`, and the version of meta.k8s.io.
        drop: True for objects without managedFields.
    """

    media: str = JSON
    form: str = ""
    kind: str = ""
    version: str = "v1"
    drop: bool = False


class _Clause(NamedTuple):
    media: str
    parameters: Mapping[str, str]

    def takes(self, media: str) -> bool:
        return self.media in (media, "*/*") or (self.media.endswith("/*") and media.startswith(self.media[:-1]))


_PLAIN = Accepted()


def is_pretty(headers: Mapping[str, str], params: Mapping[str, str]) -> bool:
    """Return True for requests with `pretty`, and for browsers and curl (negotiate.go, isPrettyPrint)."""
    pretty = params.get("pretty")
    if pretty is not None:
        return pretty.lower() in ("1", "t", "true")
    return headers.get("User-Agent", "").startswith(_PRETTY_AGENTS)


def _clauses(accept: str) -> list[_Clause]:
    """Return the clauses in the order of their weights."""
    weighted: list[tuple[float, _Clause]] = []
    for text in accept.split(","):
        media, *pairs = [part.strip() for part in text.split(";")]
        named = ((name.strip(), value.strip()) for name, _, value in (pair.partition("=") for pair in pairs))
        parameters = {name: value for name, value in named if value}  # an empty one, as in `as=`, counts as missing
        quality = parameters.get("q", "1")
        weight = float(quality) if _QUALITY.fullmatch(quality) else 0.0  # float() takes 1_0, nan and other digits too
        weighted.append((-weight, _Clause(media, parameters)))
    return [clause for _, clause in sorted(weighted, key=lambda entry: entry[0])]


def negotiate(
    headers: Mapping[str, str],
    *,
    collection: bool = False,
    watch: bool = False,
    builtin: bool = True,
    tables: bool = True,
    drops: bool = False,
    media: tuple[str, ...] = _MEDIA,
) -> Accepted:
    """Return the first acceptable clause of `Accept`, by weight.

    Whole objects are kept as JSON, so they are sent as protobuf only to clients that accept nothing else.

    Args:
        headers: The headers of the request.
        collection, watch: True for a LIST or watch, and for a watch.
        builtin: True for a built-in kind, whose whole objects exist as protobuf.
        tables: True if the response can be a table or only metadata, as a review cannot.
        drops: True to support `drop=metadata.managedFields`. Otherwise it is ignored, like any unknown parameter.
        media: The media types of the response.

    Raises:
        StatusError: A 406.
    """
    accept = headers.get("Accept", "")
    if accept in ("", "*/*", JSON):
        return _PLAIN
    clauses = _clauses(accept)
    if builtin and not any(clause.media in (*_MEDIA, "*/*") for clause in clauses):
        # go-restful, which routes to the handlers, knows the media types of built-in kinds.
        listed = ", ".join((*_MEDIA, *_STREAMED) if collection else _MEDIA)
        raise failure(406, f"406: Not Acceptable\n\nAvailable representations: {listed}", details={})
    last: Accepted | None = None
    for clause in clauses:
        for offered in media:
            accepted = _accepted(clause, offered, tables=tables, drops=drops) if clause.takes(offered) else None
            if accepted is None or (offered == PROTOBUF and not (builtin or accepted.form)):
                continue
            if offered == PROTOBUF and not accepted.form:
                last = last or accepted
                continue
            return _streamed(accepted) if watch else accepted
    if last is not None:
        return last
    raise _refusal(media)


def _accepted(clause: _Clause, media: str, *, tables: bool, drops: bool) -> Accepted | None:
    kind, version = clause.parameters.get("as", ""), clause.parameters.get("v", "")
    form = _FORMS.get(kind, "")
    if clause.parameters.keys() & {"as", "g", "v"}:
        is_meta = form and version in ("v1", "v1beta1") and clause.parameters.get("g") == "meta.k8s.io"
        if not (is_meta and tables) or (form == "table" and media == PROTOBUF):
            return None
    dropped = clause.parameters.get("drop", "") if drops else ""
    if dropped not in ("", "metadata.managedFields"):
        return None
    return Accepted(media, form, kind, version or "v1", bool(dropped))


def _streamed(wanted: Accepted) -> Accepted:
    if wanted.media == YAML:
        raise _refusal(_STREAMED)
    return wanted


def _refusal(media: tuple[str, ...]) -> StatusError:
    return not_acceptable(f"only the following media types are accepted: {', '.join(media)}")


def error_media(headers: Mapping[str, str]) -> str | None:
    """Return the media type of a failure, or None if no clause takes a plain one. It is then indented JSON."""
    accept = headers.get("Accept", "")
    if not accept:
        return JSON
    for clause in _clauses(accept):
        if not clause.parameters.keys() & {"as", "g", "v"}:
            for media in _MEDIA:
                if clause.takes(media):
                    return media
    return None


def check_kind(wanted: Accepted, *, collection: bool, builtin: bool, kind: str) -> None:
    """Raise a 406 for PartialObjectMetadata of a list, or for PartialObjectMetadataList of an object.

    Args:
        wanted: The form.
        collection: True for a LIST.
        builtin: True for a built-in kind.
        kind: The Go type of what is sent: `core.ConfigMapList`.
    """
    go = f"*{kind}" if builtin else f"*unstructured.Unstructured{'List' if collection else ''}"
    if collection and wanted.kind == "PartialObjectMetadata":
        raise not_acceptable(f"you requested PartialObjectMetadata, but the requested object is a list ({go})")
    if not collection and wanted.kind == "PartialObjectMetadataList":
        raise not_acceptable(f"you requested PartialObjectMetadataList, but the requested object is not a list ({go})")
