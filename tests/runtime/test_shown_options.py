"""Options behind `**options` are listed by `help()`, `inspect.signature` and notebooks, and the listed ones exist."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from typing import Any

import pytest

from kinformer import Client, Controller, Fleet, LeaderElector, Reflector, SharedInformer, SharedInformerFactory, watch
from kinformer.blocking import Informers
from kinformer.sharding import Shard

SHOWN = {
    SharedInformerFactory: ("namespace=None", "page_size=None", "watch_timeout=300", "backoff=Backoff(initial=0.8"),
    SharedInformerFactory.for_resource: ("namespace=<the factory's>", "shard=<the factory's>", "poll=<the factory's>"),
    SharedInformer: ("transform=None", "resync_period=0"),
    Client: ("compression='auto'", "rate=None", "log_plugin_stderr=False"),
    Client.from_url: ("url", "token=None", "user_agent=None"),
    Client.from_kubeconfig: ("context=None", "trace=None"),
    Controller: ("reconcile", "workers=1", "max_staleness=None"),
    Informers: ("url=None", "compression='auto'", "metadata_only=False", "metrics=None"),
    Informers.for_resource: ("model=None", "fields=<the factory's>"),
    Fleet: ("clusters=None", "away_after=10.0", "idle_timeout=120"),
    Fleet.union: ("resource", "namespaces=<the fleet's>"),
    Reflector: ("page_size=None", "poll=None"),
    LeaderElector: ("lease_duration=15.0",),
    Shard.claim: ("count", "retry_period=2.0"),
    watch: ("initial=True", "page_size=None"),
}


def plain(function: Callable[..., Any]) -> str:
    """The signature without annotations."""
    signature = inspect.signature(function)
    parameters = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=parameters, return_annotation=signature.empty))


@pytest.mark.parametrize("function", SHOWN, ids=lambda function: function.__qualname__)
def test_a_signature_lists_each_option_with_its_default(function: Callable[..., Any]) -> None:
    shown = plain(function)
    assert "**" not in shown
    for part in SHOWN[function]:
        assert part in shown


@pytest.mark.parametrize(
    "hidden", [SharedInformerFactory, Informers, Fleet], ids=lambda function: function.__qualname__
)
def test_an_option_that_is_refused_is_not_listed(hidden: Callable[..., Any]) -> None:
    assert "shard" not in inspect.signature(hidden).parameters


def test_every_listed_option_is_taken() -> None:
    options = inspect.signature(Controller).parameters
    given = {name: option.default for name, option in options.items() if option.default is not option.empty}

    async def reconcile(request: object) -> None: ...

    assert Controller(reconcile, **given).name.endswith("reconcile")
    listed = inspect.signature(Client).parameters
    Client(**{name: option.default for name, option in listed.items()})
    of_factory = inspect.signature(SharedInformerFactory).parameters
    SharedInformerFactory(Client(), **{name: option.default for name, option in of_factory.items() if name != "client"})


def test_help_has_a_sentence_for_each_option_of_for_resource() -> None:
    shown = pydoc.plain(pydoc.render_doc(SharedInformerFactory.for_resource))
    for name in inspect.signature(SharedInformerFactory.for_resource).parameters:
        if name != "self":
            assert f"{name}:" in shown or f"{name}," in shown, name
