"""The log: where every logger of the package comes from, so that every record has the same fields.

A record has `resource` (``v1/pods``), `key` (``namespace/name``) and `reason` (one word of few) as attributes, each ""
where there is none; ``docs/logging.md`` has them all. No text and no field holds what stands in an object.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from typing import Any

from kinformer.exceptions import cause_of

__all__ = ["FIELDS", "StructuredLogger", "get_logger"]

FIELDS = ("resource", "key", "reason")

# A library is quiet in a program that has not set up logging: without this, Python writes its warnings to stderr.
logging.getLogger("kinformer").addHandler(logging.NullHandler())


class StructuredLogger(logging.LoggerAdapter[logging.Logger]):
    """A logger whose calls take `resource=`, `key=` and `reason=`; an exception for a reason is one word for it."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """What `logging` asks an adapter for each record: the fields become attributes of it."""
        extra = dict(kwargs.get("extra") or {})
        for field in FIELDS:
            value = kwargs.pop(field, "") or (self.extra or {}).get(field, "")
            extra[field] = cause_of(value) if isinstance(value, BaseException) else str(value or "")
        # The source of one namespace of several is called "v1/pods in team-a".
        extra["resource"] = extra["resource"].partition(" in ")[0]
        return msg, {**kwargs, "extra": extra}


def get_logger(name: str, *, resource: str = "") -> StructuredLogger:
    """The logger of a module, below `kinformer`; `resource` is what its records are about that name none."""
    return StructuredLogger(logging.getLogger(name), {"resource": resource})
