"""API servers for tests: `APIServer` runs in this process, `ControlPlane` runs the real binaries.

::

    from kinformer.testing import APIServer, ControlPlane, faults

`ClusterServer` is the protocol that both implement. Each name is imported on first use, so the pytest plugin costs
nothing in a run that does not use its fixtures. Names and their modules are listed in ``__init__.pyi``, as in
`kinformer`.

Tests: tests/apiserver, tests/explore, tests/conformance.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
