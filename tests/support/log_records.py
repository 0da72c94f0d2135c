"""The records of kinformer's log by their fields, which stay the same when a sentence is put in other words."""

from __future__ import annotations

import logging
from typing import NamedTuple

import pytest


class Said(NamedTuple):
    """A record: its level and its logger, and whom it is about."""

    level: str
    logger: str
    resource: str = ""
    key: str = ""


def records(caplog: pytest.LogCaptureFixture, reason: str) -> list[logging.LogRecord]:
    """Return the records with a reason."""
    return [record for record in caplog.records if vars(record).get("reason") == reason]


def said(caplog: pytest.LogCaptureFixture, reason: str) -> list[Said]:
    """Return what the records with a reason say in their fields, in their order."""
    return [
        Said(record.levelname, record.name, vars(record)["resource"], vars(record)["key"])
        for record in records(caplog, reason)
    ]


def message_of(caplog: pytest.LogCaptureFixture, reason: str) -> str:
    """Return the message of the only record with a reason, to look for a word in it."""
    (record,) = records(caplog, reason)
    return record.getMessage()
