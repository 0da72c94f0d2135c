"""The commands and their options; each command is implemented in the module of its name."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from kinformer import ConfigError, KinformerError
from kinformer.cli.completion import (
    complete_name,
    complete_resource,
    is_completing,
    learn_shells,
    print_script,
)
from kinformer.cli.options import (
    AllOption,
    ContextOption,
    DurationOption,
    FieldsOption,
    KubeconfigOption,
    LabelsOption,
    NamespaceOption,
    OneNamespaceOption,
    PlainForm,
    ResourceArgument,
    ResourcesArgument,
    ServerOption,
    Shell,
    WatchForm,
    selection_of,
)
from kinformer.cli.output.errors import FAILED, INTERRUPTED, TERMINATED, USAGE, complain, ended_by
from kinformer.cli.run import run_command
from kinformer.cli.target import Server, UsageError

__all__ = ["app", "run"]

# The class of click's errors for a wrong command line: click's own, or that of the copy in newer releases of typer.
_ClickError: type[Exception] = typer.BadParameter.__mro__[2]

_ENDS = "Ends with 0: done, 1: failed, 2: wrong command line, 130: Ctrl-C, 141: the reader of the pipe has gone."
_WAIT_ENDS = (
    "Ends with 0: the condition holds, 1: timed out, deleted, refused, or no such object, 2: wrong command line, "
    "130: Ctrl-C, 143: SIGTERM."
)
_DOCTOR_ENDS = (
    "Ends with 0: it works, 3: configuration, 4: server not reached, 5: credentials or authentication, "
    "6: no such resource, 7: a right is missing, 1: anything else."
)

app = typer.Typer(
    epilog=_ENDS,
    name="kinformer",
    help="Kubernetes informers for asyncio, from the command line.",
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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


def _run(command: Callable[[], Coroutine[Any, Any, int | None]], *, terminated: int = 0) -> NoReturn:
    raise typer.Exit(run_command(command, terminated=terminated))


@app.command()
def demo(
    duration: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Default: until q; 20 without a terminal.")
    ] = None,
    plain: Annotated[bool, typer.Option("--plain", help="Lines, for scripts; the default without a terminal.")] = False,
) -> None:
    """Show informers that follow a living cluster in this process; no Kubernetes needed."""
    from kinformer.cli.demo.command import demo as command

    _run(lambda: command(duration=duration, plain=plain))


@app.command(epilog=_ENDS)
def watch(
    resource: ResourceArgument,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Only these objects, with --once.", autocompletion=complete_name),
    ] = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllOption = False,
    selector: LabelsOption = None,
    field_selector: FieldsOption = None,
    output: Annotated[
        WatchForm,
        typer.Option("--output", "-o", help="jsonl: a line for each event or object; yaml: with --once."),
    ] = WatchForm.table,
    once: Annotated[bool, typer.Option("--once", help="Print the objects that exist, and end.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Show the differences of updates.")] = False,
    all_fields: Annotated[
        bool, typer.Option("--all-fields", help="managedFields too; in differences resourceVersion and generation.")
    ] = False,
    changes_only: Annotated[bool, typer.Option("--changes-only", help="Leave out the objects that exist.")] = False,
    plain: Annotated[bool, typer.Option("--plain", help="Lines on a terminal too.")] = False,
    duration: DurationOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Show the objects that exist, then every change, through outages of the server.

    On a terminal a table that changes in place; q ends it. With --once the objects alone, as a list.
    """
    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    selection = selection_of(resource, namespace, all_namespaces, selector, field_selector)
    if once:
        given = {"--diff": diff, "--changes-only": changes_only, "--duration": duration is not None}
        for option in [option for option, is_given in given.items() if is_given]:
            raise UsageError(f"{option} cannot be combined with --once")
        from kinformer.cli.commands.once import watch_once

        _run(lambda: watch_once(target, selection, names=names or [], output=output.value, all_fields=all_fields))
    if names:
        raise UsageError(f"names need --once; to follow one object: --field-selector metadata.name={names[0]}")
    if output is WatchForm.yaml:
        raise UsageError("-o yaml needs --once")
    from kinformer.cli.commands.watch import Manner
    from kinformer.cli.commands.watch import watch as command

    manner = Manner(output=output.value, diff=diff, all_fields=all_fields, plain=plain, changes_only=changes_only)
    _run(lambda: command(target, selection, manner, duration=duration))


@app.command(
    hidden=True,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def get(context: typer.Context) -> None:
    """Name the command that took the place of this one."""
    raise UsageError(f"there is no get; type: {shlex.join(['kinformer', 'watch', '--once', *context.args])}")


@app.command(epilog=_WAIT_ENDS)
def wait(
    resource: ResourceArgument,
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME", help="The objects.", autocompletion=complete_name, show_default=False),
    ],
    condition: Annotated[
        str,
        typer.Option(
            "--for",
            metavar="CONDITION",
            help="delete, create, condition=NAME[=VALUE] or jsonpath='{.PATH}'[=VALUE].",
            show_default=False,
        ),
    ],
    namespace: NamespaceOption = None,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="30, 30s, 5m; 0 asks once, a negative one waits for a week.")
    ] = "30s",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Wait until a condition holds for objects, as kubectl wait does, but through outages of the server."""
    from kinformer.cli.commands.wait import Awaited, seconds_of
    from kinformer.cli.commands.wait import wait as command

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    selection = selection_of(resource, namespace, False, None, None)
    awaited, seconds = Awaited(condition), seconds_of(timeout)
    _run(lambda: command(target, selection, names, awaited, timeout=seconds), terminated=TERMINATED)


@app.command(epilog=_ENDS)
def stats(
    resources: ResourcesArgument,
    namespace: NamespaceOption = None,
    all_namespaces: AllOption = False,
    selector: LabelsOption = None,
    field_selector: FieldsOption = None,
    output: Annotated[PlainForm, typer.Option("--output", "-o", help="json: a line for each look.")] = PlainForm.table,
    once: Annotated[bool, typer.Option("--once", help="Print when the caches have synced, and end.")] = False,
    interval: Annotated[
        float, typer.Option(metavar="SECONDS", min=0.1, help="Between two looks, without a screen.")
    ] = 2.0,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0, help="For the caches, with --once.")] = 60.0,
    compact: Annotated[bool, typer.Option("--compact", help="Informers that keep objects compressed.")] = False,
    metadata_only: Annotated[bool, typer.Option("--metadata-only", help="Informers of the metadata alone.")] = False,
    duration: DurationOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Show running informers: objects, memory, events per second, relists, lag.

    On a terminal a table that changes in place; q ends it.
    """
    from kinformer.cli.commands.stats import stats as command

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    selections = [selection_of(one, namespace, all_namespaces, selector, field_selector) for one in resources]
    _run(
        lambda: command(
            target,
            selections,
            output=output.value,
            once=once,
            interval=interval,
            timeout=timeout,
            duration=duration,
            compact=compact,
            metadata_only=metadata_only,
        )
    )


@app.command(epilog=_DOCTOR_ENDS)
def doctor(
    resource: Annotated[
        str | None,
        typer.Argument(metavar="RESOURCE", help="Default: only the server.", autocompletion=complete_resource),
    ] = None,
    namespace: OneNamespaceOption = None,
    all_namespaces: AllOption = False,
    selector: LabelsOption = None,
    field_selector: FieldsOption = None,
    output: Annotated[PlainForm, typer.Option("--output", "-o", help="json: one document.")] = PlainForm.table,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="For each request.")] = 15.0,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Check, step by step, that a resource can be listed and watched, and what an informer would need."""
    from kinformer.cli.doctor.command import doctor as command

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    selection = selection_of(resource or "", namespace, all_namespaces, selector, field_selector)
    _run(lambda: command(target, selection, output=output.value, timeout=timeout))


@app.command()
def completion(shell: Annotated[Shell, typer.Argument(help="The shell.")]) -> None:
    """Print the completion script of a shell: source <(kinformer completion bash)"""
    raise typer.Exit(print_script(app, shell.value))


@app.command()
def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8001,
    objects: Annotated[
        list[str] | None, typer.Option(metavar="RESOURCE=COUNT", help="Objects to create: pods=1000. May be repeated.")
    ] = None,
    churn: Annotated[float, typer.Option(metavar="N", min=0, help="Changes per second.")] = 0,
    tls: Annotated[bool, typer.Option("--tls", help="Serve https, with a certificate made for this run.")] = False,
    write_kubeconfig: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a kubeconfig for the server.")
    ] = None,
    duration: DurationOption = None,
) -> None:
    """Serve an embedded API server, for kubectl, curl and tests."""
    from kinformer.cli.commands.serve import serve as command

    _run(
        lambda: command(
            host=host,
            port=port,
            objects=objects or [],
            churn=churn,
            tls=tls,
            kubeconfig=write_kubeconfig,
            duration=duration,
        )
    )


@app.command()
def dashboard(
    resources: Annotated[
        list[str] | None, typer.Argument(metavar="RESOURCE", help="The resources to show; default: the usual ones.")
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="A small living cluster in this process.")] = False,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", metavar="NS", help="One namespace; default: all.")
    ] = None,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8080,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A host name to answer to. May be repeated.")
    ] = None,
    duration: DurationOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Show a live cluster on a web page. Changes nothing in it."""
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


def run(argv: Sequence[str] | None = None) -> int:
    """Parse a command line and run it; see `kinformer.cli.main`."""
    arguments = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if is_completing():
        learn_shells()
    try:
        status = app(args=arguments, prog_name="kinformer", standalone_mode=False)
        sys.stdout.flush()
    except UsageError as error:
        return complain(error, USAGE)
    except KinformerError as error:
        return complain(error, FAILED)
    except _ClickError as error:
        text: str = getattr(error, "format_message", error.__str__)()
        return complain(f"{text.rstrip('.')} (see kinformer --help)", USAGE)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except OSError as error:
        return ended_by(error)
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # typer and rich turn a closed pipe into this
            return ended_by(end.__context__)
        raise
    return status if isinstance(status, int) else 0
