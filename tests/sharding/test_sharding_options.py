"""The options of a sharded controller: those of a controller, those of a Lease, and its own.

Internals: the classes of options and of keywords, which must agree.
"""

from __future__ import annotations

from dataclasses import fields

import pytest

from kinformer import ConfigError, Request
from kinformer.controller.options import ControllerOptions
from kinformer.leaderelection.lease import LeaseOptions
from kinformer.sharding.options import ShardingKeywords, ShardingOptions


async def reconcile(request: Request) -> None:
    return None


def test_keywords_have_the_names_and_types_of_the_fields() -> None:
    assert {name: hint.__forward_arg__ for name, hint in ShardingKeywords.__annotations__.items()} == {
        field.name: field.type for field in fields(ShardingOptions)
    }


def test_defaults_are_those_of_a_controller_and_of_a_lease() -> None:
    options = ShardingOptions()
    for part in (ControllerOptions(), LeaseOptions()):
        assert all(getattr(options, field.name) == getattr(part, field.name) for field in fields(part))


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [("workers", 0, "workers=0"), ("retry_period", -1, "retry_period=-1"), ("shutdown_timeout", 10, "renew_deadline")],
)
def test_an_option_that_cannot_work_is_refused_by_name(option: str, value: float, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ShardingOptions(**{option: value})  # type: ignore[arg-type]
