"""An API server to test against: `APIServer` in this process, `ControlPlane` with the real binaries.

::

    from kinformer.testing import APIServer, ControlPlane, faults
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kinformer.testing import faults
from kinformer.testing.server import APIServer

if TYPE_CHECKING:
    from kinformer.testing.control_plane import ControlPlane

__all__ = ["APIServer", "ControlPlane", "faults"]


def __getattr__(name: str) -> Any:
    if name == "ControlPlane":  # needs what the embedded server does not
        from kinformer.testing.control_plane import ControlPlane

        return ControlPlane
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
