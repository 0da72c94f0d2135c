"""The backend: one address and port of a Service or a pod, and the rules for addresses that are listed twice."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

__all__ = ["Backend", "Family", "Listing", "key_of", "merge"]

Family = Literal["IPv4", "IPv6", "FQDN"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """One address and port that requests can be sent to. Immutable: a change is another `Backend`.

    Attributes:
        key: Its identity, as it is written in a URL: `"10.0.0.7:8080"`, `"[fd00::7]:8080"`.
        host: The address, or the DNS name if `family` is `"FQDN"`.
        port: The number of the port.
        family: `"IPv4"`, `"IPv6"` or `"FQDN"`.
        ready: True if Kubernetes sends new requests to it.
        serving: True if it answers, even while it is terminating.
        terminating: True if its pod is being deleted.
        target: The key of its pod, `"default/web-1"`, or "" for an address that was entered by hand.
        uid: The uid of its pod, or "". Another pod with the same address is another backend.
        node: The name of its node, or "".
        zone: The zone of its node, or "".
        zones: The zones whose clients should prefer it (topology hints), or empty for no preference.
        app_protocol: The application protocol of the port, such as `"kubernetes.io/h2c"`, or "".
    """

    key: str
    host: str
    port: int
    family: Family
    ready: bool
    serving: bool
    terminating: bool
    target: str = ""
    uid: str = ""
    node: str = ""
    zone: str = ""
    zones: tuple[str, ...] = ()
    app_protocol: str = ""


@dataclass(frozen=True, slots=True)
class Listing:
    """The backends that one EndpointSlice or pod lists.

    Attributes:
        source: The key of the EndpointSlice or pod.
        backends: One for each address.
        problem: The reason why it has none, if the requested port is to blame.
    """

    source: str
    backends: tuple[Backend, ...] = ()
    problem: str = ""


def key_of(host: str, port: int) -> str:
    """Return the key of an address and a port."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def merge(listings: Iterable[Listing], *, one_family: bool) -> dict[str, Backend]:
    """Return the backends of all EndpointSlices or pods, by key.

    While an endpoint moves from one slice to another, both may list it, and either may be out of date. The one that is
    not ready wins, so that no request goes to a pod that is known to have ended.

    Args:
        listings: The backends of each slice or pod, in any order.
        one_family: Leave out the IPv6 addresses of pods that also have an IPv4 address.
    """
    merged: dict[str, Backend] = {}
    twice: dict[str, list[tuple[str, Backend]]] = {}
    sources: dict[str, str] = {}
    for listing in listings:
        for backend in listing.backends:
            other = merged.setdefault(backend.key, backend)
            if other is backend:
                sources[backend.key] = listing.source
            else:
                twice.setdefault(backend.key, [(sources[backend.key], other)]).append((listing.source, backend))
    for key, claims in twice.items():
        merged[key] = min(claims, key=_order)[1]
    if one_family and any(backend.family == "IPv6" for backend in merged.values()):
        with_v4 = {backend.uid for backend in merged.values() if backend.uid and backend.family == "IPv4"}
        return {
            key: backend for key, backend in merged.items() if backend.family != "IPv6" or backend.uid not in with_v4
        }
    return merged


def _order(claim: tuple[str, Backend]) -> tuple[bool, bool, str]:
    source, backend = claim
    return backend.ready, backend.serving, source
