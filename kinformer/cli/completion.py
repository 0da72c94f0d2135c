"""Shell completion: the script, and names queried from the cluster."""

from __future__ import annotations

import os
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from kinformer.cli.usage import UsageError

if TYPE_CHECKING:
    from kinformer import Client

# Every command line imports this module, so functions that query a server import their modules when called.

__all__ = [
    "choices",
    "complete_context",
    "complete_name",
    "complete_namespace",
    "complete_resource",
    "is_completing",
    "learn_shells",
    "print_script",
]

_VARIABLE = "_KINFORMER_COMPLETE"  # the scripts set it to an instruction for typer

_PATIENCE = 2.0  # seconds to wait for the server
_MOST = "500"  # maximum number of object names offered
# Shells evaluate offered choices, and objects in a cluster may have any name.
_HARMLESS = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]*")
_USUAL = ("configmaps", "daemonsets", "deployments", "jobs", "namespaces", "nodes", "pods", "services", "statefulsets")

Offers = list[tuple[str, str]]


def print_script(command: Any, shell: str) -> int:
    """Print the completion script of a shell, and return the exit status.

    Args:
        command: The typer application.
        shell: "bash", "zsh" or "fish".
    """
    from typer.completion import shell_complete

    learn_shells()
    return shell_complete(typer.main.get_command(command), {}, "kinformer", _VARIABLE, f"source_{shell}")


def is_completing() -> bool:
    """Return True if a shell has started this process to request completions."""
    return _VARIABLE in os.environ


def learn_shells() -> None:
    """Register typer's shells. typer does this itself only for programs with its own two options."""
    from typer.completion import get_completion_inspect_parameters

    get_completion_inspect_parameters()


def choices(*values: str) -> Callable[[str], list[str]]:
    """Return the completion of an option with a fixed set of values."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


def complete_resource(ctx: typer.Context, incomplete: str) -> Offers:
    """Offer the server's resources by their shortest unambiguous name, or common ones if it does not respond.

    After `pods/`, offer the names of the pods, as `pods/NAME`.
    """
    from collections import Counter

    from kinformer.client import discover

    resource, slash, _ = incomplete.rpartition("/")
    if slash:
        objects = _asked(ctx, partial(_objects, ctx, resource))
        return _harmless(((f"{resource}/{name}", description) for name, description in objects), incomplete)

    async def ask(client: Client) -> Offers:
        listable = [candidate for candidate in await discover(client) if "list" in candidate.verbs]
        first = {candidate.name: candidate for candidate in reversed(listable)}
        groups = Counter(name for name, _ in {(candidate.name, candidate.group) for candidate in listable})
        offers: dict[str, str] = {}
        for candidate in listable:
            plain = groups[candidate.name] == 1 or first[candidate.name].group == candidate.group
            offers.setdefault(candidate.name if plain else f"{candidate.name}.{candidate.group}", candidate.kind)
        return list(offers.items())

    return _harmless(_asked(ctx, ask) or ((name, "") for name in _USUAL), incomplete)


def complete_namespace(ctx: typer.Context, incomplete: str) -> Offers:
    """Offer the namespaces of the cluster, if the user may list them."""

    async def ask(client: Client) -> Offers:
        return await _names(client, "/api/v1/namespaces")

    return _harmless(_asked(ctx, ask), incomplete)


def complete_name(ctx: typer.Context, incomplete: str) -> Offers:
    """Offer the names of objects of the resource typed before."""
    resource = ctx.params.get("resource")
    return _harmless(_asked(ctx, partial(_objects, ctx, resource)) if resource else (), incomplete)


async def _objects(ctx: typer.Context, resource: str, client: Client) -> Offers:
    from kinformer.cli.target import ObjectSelection
    from kinformer.client import discover

    served = (await discover(client)).find(resource)
    selection = ObjectSelection(resource=str(served), namespace=ctx.params.get("namespace"))
    namespace = (selection.namespace or client.namespace) if served.namespaced else None
    return await _names(client, served.gvr.path(namespace))


def complete_context(ctx: typer.Context, incomplete: str) -> Offers:
    """Offer the contexts of the kubeconfig."""
    from kinformer import Client, KinformerError

    try:
        names = Client.contexts(ctx.params.get("kubeconfig"))
    except KinformerError:
        return []
    return _harmless(((name, "") for name in names), incomplete)


async def _names(client: Client, path: str) -> Offers:
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
    response: Any = await client.request("GET", path, params={"limit": _MOST}, headers={"Accept": accept}, retries=0)
    return [(item["metadata"]["name"], "") for item in response.get("items") or ()]


def _asked(ctx: typer.Context, ask: Callable[[Client], Awaitable[Offers]]) -> Offers:
    """Return the offers of `ask`, or none on failure, because a shell cannot show the reason."""
    import asyncio
    import logging

    from kinformer import KinformerError
    from kinformer.cli.target import Server

    async def asking() -> Offers:
        async with asyncio.timeout(_PATIENCE), server.client() as client:
            return await ask(client)

    options = {name: ctx.params.get(name) for name in ("kubeconfig", "context")}
    logging.getLogger("kinformer").addHandler(logging.NullHandler())
    try:
        server = Server(url=ctx.params.get("server"), **options)
        return asyncio.run(asking())
    except (KinformerError, UsageError, OSError):
        return []


def _harmless(offers: Iterable[tuple[str, str]], incomplete: str) -> Offers:
    return [offer for offer in offers if offer[0].startswith(incomplete) and _HARMLESS.fullmatch(offer[0]) is not None]
