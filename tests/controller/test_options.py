"""The options of controllers and Leases: an object or keywords, with the same names, types and defaults."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from typing import Any

import pytest

from kinformer import Client, ConfigError, Controller, LeaderElector, Request
from kinformer.controller.options import ControllerKeywords, ControllerOptions
from kinformer.leaderelection.lease import LeaseKeywords, LeaseOptions
from tests.support.metrics_sink import MemoryMetrics


async def reconcile(request: Request) -> None:
    return None


@pytest.mark.parametrize(
    ("options", "keywords"), [(ControllerOptions, ControllerKeywords), (LeaseOptions, LeaseKeywords)]
)
def test_keywords_have_the_names_and_types_of_the_fields(options: Any, keywords: Any) -> None:
    assert {name: hint.__forward_arg__ for name, hint in keywords.__annotations__.items()} == {
        field.name: field.type for field in fields(options)
    }


def test_a_keyword_replaces_the_field_of_the_options() -> None:
    metrics = MemoryMetrics()
    options = ControllerOptions(name="from options", metrics=metrics)
    assert Controller(reconcile, options=options).name == "from options"
    assert Controller(reconcile, options=options, name="by keyword").name == "by keyword"
    assert options.name == "from options"
    with pytest.raises(FrozenInstanceError):
        options.name = "changed"  # type: ignore[misc]


async def test_an_elector_takes_options_and_checks_them_with_its_keywords() -> None:
    client, place = Client.from_url("http://127.0.0.1:1"), {"namespace": "default", "name": "lock"}
    options = LeaseOptions(lease_duration=60, renew_deadline=40, retry_period=10)
    LeaderElector(client, **place, options=options, retry_period=20)
    with pytest.raises(ConfigError, match="lease_duration=30 must be above renew_deadline=40"):
        LeaderElector(client, **place, options=options, lease_duration=30)


def test_an_unknown_keyword_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="wokers"):
        Controller(reconcile, wokers=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="duration"):
        LeaderElector(Client.from_url("http://127.0.0.1:1"), namespace="default", name="lock", duration=1)  # type: ignore[call-arg]
