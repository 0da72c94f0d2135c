"""The target of a command: a server, and a selection of its objects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kinformer import (
    Client,
    ConfigError,
    FieldSelector,
    KinformerError,
    LabelSelector,
    SelectorError,
    SharedInformer,
    SharedInformerFactory,
)
from kinformer.cli.usage import UsageError
from kinformer.client import APIResource, discover
from kinformer.exceptions import BadRequestError
from kinformer.objects.meta import is_namespace_name, is_path_segment
from kinformer.objects.spellings import is_core_version

__all__ = ["ObjectSelection", "Server", "UsageError", "check_name", "selections_of"]


def check_name(name: str) -> None:
    """Raise UsageError if no object can have this name."""
    if not is_path_segment(name):
        raise UsageError(f"invalid name {name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The API server: `--server`, or `--kubeconfig` and `--context`, or kubectl's default."""

    url: str | None = None
    kubeconfig: str | None = None
    context: str | None = None

    def __post_init__(self) -> None:
        if self.url and (self.kubeconfig or self.context):
            raise UsageError("--server cannot be combined with --kubeconfig or --context")
        if self.url is not None:
            try:
                Client.from_url(self.url)
            except ConfigError as error:  # it quotes the URL without credentials
                raise UsageError(f"invalid --server: {str(error).removeprefix('url: ')}") from None

    def client(self) -> Client:
        """Return a client that has not been entered yet."""
        if self.url:
            return Client.from_url(self.url)
        if self.kubeconfig or self.context:
            return Client.from_kubeconfig(self.kubeconfig, context=self.context)
        return Client()


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectSelection:
    """The selected objects of one resource, from the options `-n`, `-A`, `-l` and `--field-selector`.

    Attributes:
        names: Only objects with these names. Empty for all.
    """

    resource: str
    names: tuple[str, ...] = ()
    namespace: str | None = None
    all_namespaces: bool = False
    label_selector: str | None = None
    field_selector: str | None = None

    def __post_init__(self) -> None:
        if self.namespace and self.all_namespaces:
            raise UsageError("-n and -A cannot be combined")
        if self.namespace and not is_namespace_name(self.namespace):
            raise UsageError(f"invalid namespace {self.namespace!r}: use lowercase letters, digits and '-'")
        if self.names and (self.all_namespaces or self.label_selector or self.field_selector):
            raise UsageError("names cannot be combined with -A or a selector")
        for name in self.names:
            check_name(name)
        try:  # parse them before any request is made. The errors name the position
            LabelSelector.parse(self.label_selector)
            FieldSelector.parse(self.field_selector)
        except SelectorError as error:
            raise UsageError(str(error)) from None

    @property
    def fields(self) -> list[str | None]:
        """The field selectors of the informers for these objects, one for each name."""
        named: list[str | None] = [str(FieldSelector((("metadata.name", "=", name),))) for name in self.names]
        return named or [self.field_selector]

    def in_words(self) -> str:
        """Return the selectors as on a command line, such as ` -l app=web`, or "" if there are none."""
        labels = f" -l {self.label_selector}" if self.label_selector else ""
        return labels + (f" --field-selector {self.field_selector}" if self.field_selector else "")

    def informers(
        self, factory: SharedInformerFactory, resource: APIResource, namespace: str | None, **options: Any
    ) -> list[SharedInformer]:
        """Return the informers for these objects, one for each name. `options` are those of `for_resource`."""
        labels = self.label_selector
        return [
            factory.for_resource(
                resource.gvr, namespace=namespace, label_selector=labels, field_selector=field, **options
            )
            for field in self.fields
        ]

    def refused(self, resource: APIResource, error: BadRequestError) -> KinformerError:
        """Return the error to raise for a 400, which names the selectors if there are any."""
        if not self.in_words():
            return error
        return ConfigError(f"{resource} cannot be selected by{self.in_words()}: {error}")

    async def find(self, client: Client) -> tuple[APIResource, str | None]:
        """Return the resource and the namespace, which is None for all namespaces or for a cluster-scoped resource.

        Without `-n` and `-A`, it is the namespace of the kubeconfig's context, or else "default".

        Raises:
            ConfigError: The resource does not exist or cannot be listed.
            APIError, ConnectError, DecodeError: Discovery failed.
        """
        served = await discover(client)
        for candidate in served if self.names else ():  # a group and a kind, read as RESOURCE/NAME
            if candidate.group == self.resource and self.names[0] in (candidate.kind, candidate.name):
                raise ConfigError(f"invalid resource '{self.resource}/{self.names[0]}': expected {candidate}")
        resource = served.find(self.resource)
        if "list" not in resource.verbs:
            raise ConfigError(
                f"{resource} cannot be listed; the server offers {', '.join(resource.verbs) or 'nothing'}"
            )
        if not resource.namespaced or self.all_namespaces:
            return resource, None
        return resource, self.namespace or client.namespace


def selections_of(
    words: Sequence[str], namespace: str | None, all_namespaces: bool, labels: str | None, fields: str | None
) -> list[ObjectSelection]:
    """Parse the arguments of a command into selections, one for each resource.

    Args:
        words: `pods`, `pods NAME...`, `pods,deployments`, or `pods/NAME deployments/NAME`. A resource may include its
            version, as in `v1/pods` and `apps/v1/deployments/NAME`.
        namespace, all_namespaces, labels, fields: The options.

    Raises:
        UsageError: The words have another form, or an option has an invalid value.
    """
    named = [_split(word) for word in words]
    if any(name for _, name in named):
        if not all(name for _, name in named):
            raise UsageError("RESOURCE/NAME cannot be combined with a resource or a name alone: " + " ".join(words))
        names: dict[str, list[str]] = {}
        for resource, name in named:
            names.setdefault(resource, []).append(name)
    else:
        first, *rest = words
        names = dict.fromkeys(first.split(","), rest)
    if not all(names):
        raise UsageError(
            f"invalid resource {words[0]!r}: expected names with a comma between them, as in pods,services"
        )
    return [
        ObjectSelection(
            resource=resource,
            names=tuple(dict.fromkeys(some)),
            namespace=namespace,
            all_namespaces=all_namespaces,
            label_selector=labels,
            field_selector=fields,
        )
        for resource, some in names.items()
    ]


def _split(word: str) -> tuple[str, str]:
    """Split `pods/web-1` into resource and name. A version belongs to the resource, as in `v1/pods/web-1`."""
    parts = word.split("/")
    depth = 3 if len(parts) > 2 else 1
    if is_core_version(parts[0]) and len(parts) > 1:
        depth = 2
    return "/".join(parts[:depth]), "/".join(parts[depth:])
