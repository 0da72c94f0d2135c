"""The built-in kinds: their columns, how well an object is, what to wait for, and whether they have namespaces.

::

    from kinformer.kinds import columns_of, is_namespaced, severity_of, state_of

    state_of(pod)  # "CrashLoopBackOff"
    severity_of(pod).level  # "bad"
    [column.name for column in columns_of("v1/pods")]  # ["Name", "Ready", "Status", ...]
    is_namespaced("v1/nodes")  # False

Each rule about a kind is written here once. Its readers are the command line, the dashboard, `kinformer.conditions`,
`kinformer.contrib.problems` and the Tables of API servers. No function fails because of a field of an unexpected type.

May import: `objects` and below.
Reading order: builtin, rows, columns, conditions, health.
Tests: tests/kinds, tests/conditions, tests/conformance/test_recorded_tables.py.
"""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
