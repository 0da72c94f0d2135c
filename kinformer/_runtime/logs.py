"""The log: makes every logger of the package, so that every record has the same fields.

A record has `resource` (``v1/pods``), `key` (``namespace/name``) and `reason` (one word of few) as attributes, each ""
if there is none; ``docs/logging.md`` lists them all. No text and no field holds the content of an object.
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
    """A logger whose methods take `resource=`, `key=` and `reason=`; an exception as a reason becomes one word."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Turn the fields into attributes of the record; `logging` calls this for each record."""
        extra = dict(kwargs.get("extra") or {})
        for field in FIELDS:
            value = kwargs.pop(field, "") or (self.extra or {}).get(field, "")
            extra[field] = cause_of(value) if isinstance(value, BaseException) else str(value or "")
        # The source of one namespace of several is called "v1/pods in team-a".
        extra["resource"] = extra["resource"].partition(" in ")[0]
        return msg, {**kwargs, "extra": extra}


def get_logger(name: str, *, resource: str = "") -> StructuredLogger:
    """Return a logger whose records have the fields of kinformer's own: `resource`, `key` and `reason`.

    Its methods take them as keywords: ``log.warning("it failed: %s", error, key=pod.key, reason=error)``; an exception
    becomes one word, such as `forbidden`. Each is "" if it is not given.

    Args:
        name: As of `logging.getLogger`.
        resource: The `resource` of records that are logged without one.
    """
    return StructuredLogger(logging.getLogger(name), {"resource": resource})
