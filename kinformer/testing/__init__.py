"""An API server to test against: `APIServer` in this process, `ControlPlane` with the real binaries.

::

    from kinformer.testing import APIServer, ControlPlane, faults

`ClusterServer` is what the two have in common. Names are imported when they are first used, so that the pytest plugin
costs a run without these fixtures nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kinformer.testing import faults as faults
    from kinformer.testing.cluster_server import ClusterServer as ClusterServer
    from kinformer.testing.clusters.control_plane import ControlPlane as ControlPlane
    from kinformer.testing.features import Features as Features
    from kinformer.testing.server import APIServer as APIServer

__all__ = ["APIServer", "ClusterServer", "ControlPlane", "Features", "faults"]

_MODULES = {
    "APIServer": "server",
    "ClusterServer": "cluster_server",
    "ControlPlane": "clusters.control_plane",
    "Features": "features",
}


def __getattr__(name: str) -> Any:
    if name == "faults":
        return import_module("kinformer.testing.faults")
    if name in _MODULES:
        return getattr(import_module(f"kinformer.testing.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
