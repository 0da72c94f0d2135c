"""The options of the commands that run their own server: `demo`, `dashboard`, `proxy` and `serve`."""

from __future__ import annotations

from typing import Annotated

import typer

from kinformer.cli.completion import complete_resource
from kinformer.cli.launch import launch
from kinformer.cli.options import (
    ContextOption,
    DurationOption,
    KubeconfigOption,
    ServerOption,
    checked_number,
    checked_port,
    checked_seconds,
    duration_of,
)
from kinformer.cli.output.errors import complain
from kinformer.cli.usage import UsageError, number, seconds, whole_number

__all__ = ["dashboard", "demo", "proxy", "serve"]


AddressOption = Annotated[
    str, typer.Option("--host", metavar="ADDRESS", help="The address to listen on; default: 127.0.0.1.")
]

AllowedHostOption = Annotated[
    list[str] | None,
    typer.Option("--allowed-host", "--allow-host", metavar="NAME", help="A further accepted host name. Repeatable."),
]


def demo(
    duration: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS",
            help="Default: until q, or 20 without a terminal.",
            callback=checked_seconds("--duration"),
        ),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Print lines, for scripts; the default without a terminal.")
    ] = False,
) -> None:
    """Show informers that follow a simulated cluster in this process; no Kubernetes needed."""
    from kinformer.cli.demo.command import demo as command

    launch(lambda: command(duration=duration_of(duration), plain=plain))


def dashboard(
    resources: Annotated[
        list[str] | None, typer.Argument(metavar="RESOURCE", help="The resources to show; default: the usual ones.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Show a small simulated cluster in this process.")] = False,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NS", help="One namespace; default: all.")
    ] = None,
    host: AddressOption = "127.0.0.1",
    port: Annotated[
        str, typer.Option(metavar="PORT", help="The port, or 0 for a free one; default: 8080.", callback=checked_port)
    ] = "8080",
    allowed_host: AllowedHostOption = None,
    duration: DurationOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Show a live cluster on a web page. Changes nothing in it."""
    try:
        from kinformer.cli.dashboard.command import dashboard as command
    except ModuleNotFoundError as error:
        raise typer.Exit(complain(f"{error.name} is not installed; pip install 'kinformer[dashboard]'")) from None
    from kinformer.cli.target import Server

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    launch(
        lambda: command(
            target,
            resources or [],
            demo=demo,
            namespace=namespace,
            host=host,
            port=whole_number("--port", port, 0, 65535),
            names=allowed_host or [],
            duration=duration_of(duration),
        ),
        follows=True,
    )


def proxy(
    resources: Annotated[
        list[str],
        typer.Argument(
            metavar="RESOURCE",
            help="The resources to answer from a cache: v1/pods, nodes.",
            autocompletion=complete_resource,
        ),
    ],
    listen: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="The loopback address to listen on; default: 127.0.0.1:8001."),
    ] = None,
    socket: Annotated[
        str | None, typer.Option(metavar="PATH", help="Listen on a unix socket of yours instead.")
    ] = None,
    health: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Serve the proxy's own /livez, /readyz, /statusz and /metrics."),
    ] = None,
    allowed_host: AllowedHostOption = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NS", help="Keep one namespace; default: all.")
    ] = None,
    managed_fields: Annotated[
        bool, typer.Option("--managed-fields", help="Keep managedFields, which takes more memory.")
    ] = False,
    duration: DurationOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Answer reads of the Kubernetes API: of these resources from one cache, of all else from the server."""
    from kinformer.cli.commands.proxy import proxy as command
    from kinformer.cli.target import Server

    if listen and socket:
        raise UsageError("--listen cannot be combined with --socket")
    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    launch(
        lambda: command(
            target,
            resources,
            listen=None if socket else listen or "127.0.0.1:8001",
            socket=socket,
            health=health,
            allowed_hosts=allowed_host or [],
            namespace=namespace,
            managed_fields=managed_fields,
            duration=duration_of(duration),
        )
    )


def serve(
    host: AddressOption = "127.0.0.1",
    port: Annotated[
        str, typer.Option(metavar="PORT", help="The port, or 0 for a free one; default: 8001.", callback=checked_port)
    ] = "8001",
    allowed_host: AllowedHostOption = None,
    objects: Annotated[
        list[str] | None, typer.Option(metavar="RESOURCE=COUNT", help="Objects to create: pods=1000. May be repeated.")
    ] = None,
    churn: Annotated[
        str, typer.Option(metavar="N", help="Changes per second; default: 0.", callback=checked_number("--churn"))
    ] = "0",
    living: Annotated[
        bool, typer.Option("--living", help="A cluster that lives: controllers run Deployments, Jobs and Services.")
    ] = False,
    runtime: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS",
            help="End pods after this time unless they restart; default: only those of Jobs.",
            callback=checked_seconds("--runtime"),
        ),
    ] = None,
    tls: Annotated[bool, typer.Option("--tls", help="Serve https, with a certificate created for this run.")] = False,
    rbac: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Roles and bindings (YAML) that limit their users. Implies --tls. Default: no limits."
        ),
    ] = None,
    write_kubeconfig: Annotated[
        str | None, typer.Option(metavar="PATH", help="The kubeconfig to write; default: a temporary file.")
    ] = None,
    duration: DurationOption = None,
) -> None:
    """Serve an embedded API server, for kubectl, curl and tests."""
    from pathlib import Path

    from kinformer.cli.commands.serving.serve import serve as command

    launch(
        lambda: command(
            host=host,
            port=whole_number("--port", port, 0, 65535),
            names=allowed_host or [],
            objects=objects or [],
            churn=number("--churn", churn),
            living=living,
            runtime=None if runtime is None else seconds("--runtime", runtime),
            tls=tls,
            rbac=None if rbac is None else Path(rbac),
            kubeconfig=None if write_kubeconfig is None else Path(write_kubeconfig),
            duration=duration_of(duration),
        )
    )
