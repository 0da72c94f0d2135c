"""The options of a sharded controller: those of a controller, those of a Lease, and its own."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kinformer import Client, ConfigError, Request, ShardedController
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


async def test_a_keyword_replaces_the_field_of_the_options() -> None:
    client = Client.from_url("http://127.0.0.1:1")
    options = ShardingOptions(name="shared", group="theirs", identity="one", lease_namespace="prod")
    controller = ShardedController(reconcile, client, "v1/pods", options=options, group="ours")
    assert (controller.name, controller.membership.group, controller.membership.identity) == ("shared", "ours", "one")


@pytest.mark.parametrize(
    ("option", "value", "text"),
    [("workers", 0, "workers=0"), ("retry_period", -1, "retry_period=-1"), ("shutdown_timeout", 10, "renew_deadline")],
)
def test_an_option_that_cannot_work_is_refused_by_name(option: str, value: float, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ShardingOptions(**{option: value})  # type: ignore[arg-type]
