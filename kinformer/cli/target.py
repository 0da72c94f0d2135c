"""What a command is about: which server, and which of its objects."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kinformer.client.client import Client
from kinformer.client.config import Connection, from_url
from kinformer.client.discovery import APIResource, resolve
from kinformer.client.kubeconfig import load_default, load_kubeconfig
from kinformer.exceptions import BadRequestError, ConfigError, KinformerError
from kinformer.objects.selectors import FieldSelector, LabelSelector

__all__ = ["Selection", "Server", "UsageError"]


_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # apimachinery, pkg/util/validation, IsDNS1123Label


class UsageError(Exception):
    """Options that do not go together; exit status 2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """Which API server: `--server`, or `--kubeconfig` and `--context`, or what kubectl would take."""

    url: str | None = None
    kubeconfig: str | None = None
    context: str | None = None

    def __post_init__(self) -> None:
        if self.url and (self.kubeconfig or self.context):
            raise UsageError("--server does not go with --kubeconfig or --context")

    def connection(self) -> Connection:
        """What a client would be made of; reads files, and so belongs in a thread. Raises ConfigError."""
        if self.url:
            return from_url(self.url)
        if self.kubeconfig or self.context:
            return load_kubeconfig(self.kubeconfig, context=self.context)
        return load_default()

    def client(self) -> Client:
        """A client that has not been entered yet. Raises ConfigError for a URL that cannot be a server's."""
        if self.url:
            return Client.from_url(self.url)
        if self.kubeconfig or self.context:
            return Client.from_kubeconfig(self.kubeconfig, context=self.context)
        return Client()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects, as the options name them: `RESOURCE`, `-n` or `-A`, `-l`, `--field-selector`."""

    resource: str
    namespace: str | None = None
    all_namespaces: bool = False
    label_selector: str | None = None
    field_selector: str | None = None

    def __post_init__(self) -> None:
        if self.namespace and self.all_namespaces:
            raise UsageError("-n and -A do not go together")
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise UsageError(f"-n {self.namespace!r} is no name of a namespace: small letters, digits and - have one")
        # The errors name the position, before any request is made.
        LabelSelector.parse(self.label_selector)
        FieldSelector.parse(self.field_selector)

    def in_words(self) -> str:
        """The selectors, as they stand on a command line: ` -l app=web`; "" where there are none."""
        labels = f" -l {self.label_selector}" if self.label_selector else ""
        return labels + (f" --field-selector {self.field_selector}" if self.field_selector else "")

    def refused(self, resource: APIResource, error: BadRequestError) -> KinformerError:
        """What to say of a 400: the selector that it is about, where there is one."""
        if not self.in_words():
            return error
        return ConfigError(f"{resource} cannot be selected by{self.in_words()}: {error}")

    async def find(self, client: Client) -> tuple[APIResource, str | None]:
        """The resource that is meant, and the namespace to look in; None is all of them, or a cluster-scoped resource.

        Without `-n` and `-A` it is the namespace of the kubeconfig's context, else "default".

        Raises:
            ConfigError: The server has no such resource, or one that cannot be listed.
            APIError, ConnectError, DecodeError: Discovery failed.
        """
        resource = await resolve(client, self.resource)
        if "list" not in resource.verbs:
            raise ConfigError(
                f"{resource} cannot be listed; the server offers {', '.join(resource.verbs) or 'nothing'}"
            )
        if not resource.namespaced or self.all_namespaces:
            return resource, None
        return resource, self.namespace or client.namespace
