"""Helpers that do not depend on Kubernetes: clocks, tasks, waiting, cancellation, logging, chunked containers.

May import: the standard library, anyio and `kinformer.exceptions`.
Reading order: clock, tasks, waiters, cancellation, then any other. Each can be read alone.
Tests: tests/runtime, tests/lifecycle.
"""
