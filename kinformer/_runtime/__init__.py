"""Helpers that know nothing of Kubernetes: clocks, tasks, cancellation, logging, and containers in small parts.

May import: the standard library, anyio and `kinformer.exceptions`.
Reading order: clock, tasks, cancellation, then any other; each stands alone.
"""
