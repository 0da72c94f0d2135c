"""API servers for tests: `APIServer` runs in this process, `ControlPlane` runs the real binaries.

::

    from kinformer.testing import APIServer, ControlPlane, faults

`ClusterServer` is the protocol that both implement. Names are imported when they are first used, so that the pytest
plugin adds nothing to a run that does not use its fixtures. Each is written once, with its module, in
``__init__.pyi``, as those of `kinformer` are.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
