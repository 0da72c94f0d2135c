"""The target of a command: a server, and a selection of its objects."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kinformer import (
    APIResource,
    BadRequestError,
    Client,
    ConfigError,
    FieldSelector,
    KinformerError,
    LabelSelector,
    discover,
)

__all__ = ["Selection", "Server", "UsageError", "check_name"]


_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")  # apimachinery, pkg/util/validation, IsDNS1123Label


class UsageError(Exception):
    """Options that cannot be combined, or have a wrong value; exit status 2."""


def check_name(name: str) -> None:
    """Raise UsageError if no object can have this name."""
    if "/" in name or "%" in name or name in (".", "..", ""):
        raise UsageError(f"invalid name {name!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """The API server: `--server`, or `--kubeconfig` and `--context`, or the one that kubectl would take."""

    url: str | None = None
    kubeconfig: str | None = None
    context: str | None = None

    def __post_init__(self) -> None:
        if self.url and (self.kubeconfig or self.context):
            raise UsageError("--server cannot be combined with --kubeconfig or --context")

    def client(self) -> Client:
        """Return a client that has not been entered yet. Raises ConfigError if the URL cannot be a server's."""
        if self.url:
            return Client.from_url(self.url)
        if self.kubeconfig or self.context:
            return Client.from_kubeconfig(self.kubeconfig, context=self.context)
        return Client()


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The selected objects, as the options name them: `RESOURCE`, `-n` or `-A`, `-l`, `--field-selector`."""

    resource: str
    namespace: str | None = None
    all_namespaces: bool = False
    label_selector: str | None = None
    field_selector: str | None = None

    def __post_init__(self) -> None:
        if self.namespace and self.all_namespaces:
            raise UsageError("-n and -A cannot be combined")
        if self.namespace and not _NAMESPACE.fullmatch(self.namespace):
            raise UsageError(f"invalid namespace {self.namespace!r}: use lowercase letters, digits and '-'")
        # Parsed before any request is made: the errors name the position.
        LabelSelector.parse(self.label_selector)
        FieldSelector.parse(self.field_selector)

    def in_words(self) -> str:
        """Return the selectors as on a command line: ` -l app=web`; "" if there are none."""
        labels = f" -l {self.label_selector}" if self.label_selector else ""
        return labels + (f" --field-selector {self.field_selector}" if self.field_selector else "")

    def refused(self, resource: APIResource, error: BadRequestError) -> KinformerError:
        """Return the error to raise for a 400: one that names the selectors, if there are any."""
        if not self.in_words():
            return error
        return ConfigError(f"{resource} cannot be selected by{self.in_words()}: {error}")

    async def find(self, client: Client) -> tuple[APIResource, str | None]:
        """Return the resource, and the namespace to look in; None is all of them, or a cluster-scoped resource.

        Without `-n` and `-A` it is the namespace of the kubeconfig's context, else "default".

        Raises:
            ConfigError: The server has no such resource, or one that cannot be listed.
            APIError, ConnectError, DecodeError: Discovery failed.
        """
        resource = (await discover(client)).find(self.resource)
        if "list" not in resource.verbs:
            raise ConfigError(
                f"{resource} cannot be listed; the server offers {', '.join(resource.verbs) or 'nothing'}"
            )
        if not resource.namespaced or self.all_namespaces:
            return resource, None
        return resource, self.namespace or client.namespace
