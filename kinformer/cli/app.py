"""The commands and their options; what they do is in the modules named after them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from kinformer.cli.errors import FAILED, INTERRUPTED, USAGE, complain, run_command
from kinformer.cli.target import Selection, Server, UsageError
from kinformer.exceptions import ConfigError, KinformerError

__all__ = ["app", "run"]

# What click raises for a wrong command line: its own class, or the one of the copy that newer typers bring.
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]

app = typer.Typer(
    name="kinformer",
    help="Kubernetes informers for asyncio, from the command line.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Output(StrEnum):
    """What `-o` takes."""

    table = "table"
    json = "json"
    name = "name"  # pyright: ignore[reportIncompatibleMethodOverride, reportAssignmentType]


_SERVER_PANEL = "Which server"
_WHICH_PANEL = "Which objects"

ResourceArgument = Annotated[
    str, typer.Argument(metavar="RESOURCE", help="As kubectl takes it: pods, po, deployments.apps; or v1/pods.")
]
NamespaceOption = Annotated[
    str | None,
    typer.Option("--namespace", "-n", metavar="NS", help="Default: the context's.", rich_help_panel=_WHICH_PANEL),
]
AllOption = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.", rich_help_panel=_WHICH_PANEL)
]
LabelsOption = Annotated[
    str | None,
    typer.Option("--selector", "-l", metavar="SELECTOR", help="By labels.", rich_help_panel=_WHICH_PANEL),
]
FieldsOption = Annotated[
    str | None,
    typer.Option("--field-selector", metavar="SELECTOR", help="By fields.", rich_help_panel=_WHICH_PANEL),
]
OutputOption = Annotated[Output, typer.Option("--output", "-o", help="What to print.")]
KubeconfigOption = Annotated[
    str | None,
    typer.Option(metavar="PATH", help="Default: KUBECONFIG, ~/.kube/config, the pod.", rich_help_panel=_SERVER_PANEL),
]
ContextOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Default: the current one.", rich_help_panel=_SERVER_PANEL)
]
ServerOption = Annotated[
    str | None,
    typer.Option(metavar="URL", help="Without a kubeconfig, as of kubectl proxy.", rich_help_panel=_SERVER_PANEL),
]


def _show_version(wanted: bool) -> None:
    if wanted:
        from kinformer import __version__

        print(f"kinformer {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version, and exit.")
    ] = False,
) -> None:
    pass


def _run(command: Callable[[], Coroutine[Any, Any, int | None]]) -> None:
    raise typer.Exit(run_command(command))


@app.command()
def demo(
    duration: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Default: until q; 20 without a terminal.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Lines, for scripts; the default without a terminal.")] = False,
) -> None:
    """A living cluster in this process, followed by informers; no Kubernetes needed."""
    from kinformer.cli.demo import demo as command

    _run(lambda: command(duration=duration, plain=plain))


@app.command()
def watch(
    resource: ResourceArgument,
    namespace: NamespaceOption = None,
    all_namespaces: AllOption = False,
    selector: LabelsOption = None,
    field_selector: FieldsOption = None,
    output: OutputOption = Output.table,
    duration: Annotated[float | None, typer.Option(metavar="SECONDS", min=0, help="Default: until Ctrl-C.")] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Print what there is, then every change, through outages of the server."""
    from kinformer.cli.watch import watch as command

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    selection = _selection(resource, namespace, all_namespaces, selector, field_selector)
    _run(lambda: command(target, selection, output=output.value, duration=duration))


@app.command()
def get(
    resource: ResourceArgument,
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Only these.")] = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllOption = False,
    selector: LabelsOption = None,
    field_selector: FieldsOption = None,
    output: OutputOption = Output.table,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Print what there is, once."""
    from kinformer.cli.get import get as command

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    selection = _selection(resource, namespace, all_namespaces, selector, field_selector)
    _run(lambda: command(target, selection, names=names or [], output=output.value))


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8001,
    objects: Annotated[
        list[str] | None, typer.Option(metavar="RESOURCE=COUNT", help="Fill it: pods=1000. May be repeated.")
    ] = None,
    churn: Annotated[float, typer.Option(metavar="N", min=0, help="Changes a second.")] = 0,
    duration: Annotated[float | None, typer.Option(metavar="SECONDS", min=0, help="Default: until Ctrl-C.")] = None,
) -> None:
    """Serve an embedded API server, for kubectl, curl and tests."""
    from kinformer.cli.serve import serve as command

    _run(lambda: command(host=host, port=port, objects=objects or [], churn=churn, duration=duration))


@app.command()
def dashboard(
    resources: Annotated[
        list[str] | None, typer.Argument(metavar="RESOURCE", help="What to show; default: the usual ones.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="A small living cluster in this process.")] = False,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NS", help="Only this one; default: all.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes any that is free.")] = 8080,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A host name to answer to. May be repeated.")
    ] = None,
    duration: Annotated[float | None, typer.Option(metavar="SECONDS", min=0, help="Default: until Ctrl-C.")] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Show a cluster as it lives, on a web page. Changes nothing in it."""
    try:
        from kinformer.cli.dashboard.command import dashboard as command
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error.name} is not installed; pip install 'kinformer[dashboard]'") from error

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    _run(
        lambda: command(
            target,
            resources or [],
            demo=demo,
            namespace=namespace,
            host=host,
            port=port,
            names=allow_host or [],
            duration=duration,
        )
    )


def _selection(
    resource: str, namespace: str | None, all_namespaces: bool, labels: str | None, fields: str | None
) -> Selection:
    return Selection(
        resource=resource,
        namespace=namespace,
        all_namespaces=all_namespaces,
        label_selector=labels,
        field_selector=fields,
    )


def run(argv: Sequence[str] | None = None) -> int:
    """Read a command line and run it; see `kinformer.cli.main`."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    try:
        status = app(args=arguments, prog_name="kinformer", standalone_mode=False)
    except UsageError as error:
        return complain(error, USAGE)
    except KinformerError as error:
        return complain(error, FAILED)
    except _ClickError as error:
        text: str = getattr(error, "format_message", error.__str__)()
        return complain(f"{text.rstrip('.')} (see kinformer --help)", USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    return status if isinstance(status, int) else 0
