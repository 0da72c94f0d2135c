"""The options of the commands about a whole cluster or program: `problems`, `changes` and `doctor`."""

from __future__ import annotations

from typing import Annotated

import typer

from kinformer.cli.completion import choices, complete_resource
from kinformer.cli.launch import launch
from kinformer.cli.options import (
    PLAIN_FORMS,
    AllOption,
    ContextOption,
    DurationOption,
    FieldsOption,
    KubeconfigOption,
    LabelsOption,
    NamespaceOption,
    OneNamespaceOption,
    PlainForm,
    ServerOption,
    checked_choice,
    checked_seconds,
    duration_of,
)
from kinformer.cli.output.errors import TERMINATED
from kinformer.cli.usage import UsageError, seconds

__all__ = ["DOCTOR_ENDS", "PROBLEMS_ENDS", "changes", "doctor", "problems"]

PROBLEMS_ENDS = (
    "Exit codes: 0: no problem, 1: some, 2: something could not be read, or wrong command line, 130: Ctrl-C, "
    "143: SIGTERM."
)

DOCTOR_ENDS = (
    "Exit codes: 0: it works, 3: configuration, 4: server not reached, 5: credentials or authentication, "
    "6: no such resource, 7: a right is missing, 1: anything else."
)

LinesForm = Annotated[
    str,
    typer.Option(
        "--output",
        "-o",
        metavar="|".join(PLAIN_FORMS),
        help="json prints an object in each line.",
        autocompletion=choices(*PLAIN_FORMS),
        callback=checked_choice("-o", PLAIN_FORMS),
    ),
]


def problems(
    namespace: NamespaceOption = None,
    all_namespaces: AllOption = False,
    output: LinesForm = "table",
    grace: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS",
            help="How long anything may be wrong; default: a time for each rule.",
            callback=checked_seconds("--grace"),
        ),
    ] = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Show what is wrong right now: a line for each cause, with the owner at the top.

    Nodes, volumes and namespaces are included with -A.
    """
    from kinformer.cli.commands.problems import problems as command
    from kinformer.cli.target import ObjectSelection, Server

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    selection = ObjectSelection(resource="", namespace=namespace, all_namespaces=all_namespaces)
    limit = None if grace is None else seconds("--grace", grace)
    launch(lambda: command(target, selection, output=output, grace=limit), terminated=TERMINATED)


def changes(
    resources: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RESOURCE",
            help="As in kubectl: pods, deploy, pods/NAME; default: the usual ones.",
            autocompletion=complete_resource,
        ),
    ] = None,
    namespace: NamespaceOption = None,
    all_namespaces: AllOption = False,
    selector: LabelsOption = None,
    kind: Annotated[
        str | None, typer.Option(metavar="KIND", help="Only objects of this kind.", rich_help_panel="Which objects")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="Only names like web-*.", rich_help_panel="Which objects"),
    ] = None,
    output: LinesForm = "table",
    noise: Annotated[
        bool, typer.Option("--noise", help="Include heartbeats, generations, counts of replicas and the like.")
    ] = False,
    show_secrets: Annotated[bool, typer.Option("--show-secrets", help="Print the values of Secrets.")] = False,
    duration: DurationOption = None,
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Show what changes, as it comes: a line for each change, with what has changed.

    Existing objects are left out. `kinformer watch` shows those, and whole objects.
    """
    from kinformer.cli.commands.changes import ChangeFilter
    from kinformer.cli.commands.changes import changes as command
    from kinformer.cli.target import ObjectSelection, Server, selections_of

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    words = [word for argument in resources or () for word in ([argument] if "/" in argument else argument.split(","))]
    if words and any("/" in word for word in words):
        chosen: ObjectSelection | list[ObjectSelection] = selections_of(
            words, namespace, all_namespaces, selector, None
        )
    elif words:
        chosen = [
            selected for word in words for selected in selections_of([word], namespace, all_namespaces, selector, None)
        ]
    else:
        chosen = ObjectSelection(
            resource="", namespace=namespace, all_namespaces=all_namespaces, label_selector=selector
        )
    change_filter = ChangeFilter(kind=kind, name=name, noise=noise)
    launch(
        lambda: command(
            target, chosen, change_filter, output=output, show_secrets=show_secrets, duration=duration_of(duration)
        ),
        follows=True,
    )


def doctor(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RESOURCE",
            help="The resource to check; default: only the server. With --manifest, after --: PROGRAM's arguments.",
            autocompletion=complete_resource,
        ),
    ] = None,
    program: Annotated[
        str | None,
        typer.Option("--manifest", metavar="PROGRAM", help="Write the rights that a Python file or module uses."),
    ] = None,
    files: Annotated[
        list[str] | None,
        typer.Option("--apply", metavar="PATH", help="Definitions and samples for PROGRAM's server. Repeatable."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="With --manifest: the name to write; default: PROGRAM's."),
    ] = None,
    namespace: OneNamespaceOption = None,
    all_namespaces: AllOption = False,
    selector: LabelsOption = None,
    field_selector: FieldsOption = None,
    output: PlainForm = "table",
    timeout: Annotated[
        str,
        typer.Option(
            metavar="SECONDS",
            help="Time limit for each request, and for PROGRAM's first one; default: 15.",
            callback=checked_seconds("--timeout", 0.1),
        ),
    ] = "15",
    kubeconfig: KubeconfigOption = None,
    context: ContextOption = None,
    server: ServerOption = None,
) -> None:
    """Check, step by step, that an informer could list and watch a resource.

    With --manifest, run a program on an embedded server instead, and print the ServiceAccount, ClusterRole and binding
    for the requests that it makes.
    """
    limit = seconds("--timeout", timeout)
    if program is not None:
        if any((all_namespaces, selector, field_selector, output != "table", kubeconfig, context, server)):
            raise UsageError("--manifest can be combined with -n, --name, --apply and --timeout only")
        from kinformer.cli.doctor.program import manifest

        where, samples = namespace or "default", files or []
        launch(lambda: manifest(program, words or [], namespace=where, name=name, files=samples, timeout=limit))
    if files or name:
        raise UsageError(f"{'--apply' if files else '--name'} requires --manifest")
    resource, *others = words or [""]
    if others:
        raise UsageError(f"unexpected argument {others[0]}")
    from kinformer.cli.doctor.command import doctor as command
    from kinformer.cli.target import ObjectSelection, Server

    target = Server(url=server, kubeconfig=kubeconfig, context=context)
    selection = ObjectSelection(
        resource=resource,
        namespace=namespace,
        all_namespaces=all_namespaces,
        label_selector=selector,
        field_selector=field_selector,
    )
    launch(lambda: command(target, selection, output=output, timeout=limit))
