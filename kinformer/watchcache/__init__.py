"""Caches that answer LIST and WATCH as an API server does, and what shares them."""

from kinformer._lazy import attach_stub

__getattr__, __dir__ = attach_stub(__spec__)
