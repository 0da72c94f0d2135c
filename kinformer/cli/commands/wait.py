"""`kinformer wait`: waits until a condition holds for objects, with the messages of `kubectl wait`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

import kinformer.conditions as conditions
from kinformer import Client, ConfigError, KinformerError, KubeObject, NotFoundError
from kinformer.cli.output import documents
from kinformer.cli.output.errors import complain
from kinformer.cli.target import Selection, Server, UsageError, check_name
from kinformer.client import APIResource

__all__ = ["Awaited", "seconds_of", "wait"]

Check = Callable[[KubeObject | None], object]

_WEEK = 7 * 86400.0  # seconds, for a negative timeout as in kubectl
_ONCE = 30.0  # seconds for a response, if the condition is checked once
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:ns|us|µs|ms|s|m|h))+")
_PART = re.compile(r"(\d+(?:\.\d*)?)(ns|us|µs|ms|s|m|h)")
_BRACED = re.compile(r"\{(?P<path>.*)\}(?:=(?P<value>.*))?", re.DOTALL)
_NO_VALUE = "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3"
_FORMS = "create, delete, condition=NAME[=VALUE] or jsonpath='{.PATH}'[=VALUE]"


class Awaited:
    """The condition that `--for` names.

    Args:
        text: As for kubectl wait: `delete`, `create`, `condition=Ready`, `condition=Ready=false`,
            `jsonpath='{.status.phase}'=Running`, `jsonpath=.status.phase`.

    Raises:
        UsageError: The condition has another form, or a path is invalid.

    Attributes:
        deletion: True to wait for deletion.
        creation: True if the objects need not exist yet.
    """

    def __init__(self, text: str) -> None:
        kind, _, rest = text.partition("=")
        self.deletion, self.creation = text.lower() == "delete", text.lower() == "create"
        self._check: Check = _exists
        if self.deletion or self.creation:
            return
        if kind.lower() == "condition" and rest:
            name, _, value = rest.partition("=")
            self._check = conditions.has_condition(name, value or True)
        elif kind.lower() == "jsonpath" and rest:
            self._check = _json_path(rest)
        else:
            raise UsageError(f'unrecognized condition: "{text}"; expected {_FORMS}')

    def check(self, resource: str, name: str) -> Check:
        """Return the condition for one object. If it does not exist at first, that is an error, as in kubectl.

        Args:
            resource: The name of the resource for errors.
            name: The name of the object.
        """
        first: KubeObject | None = None

        def deleted(obj: KubeObject | None) -> bool:
            nonlocal first
            first = first or obj
            return first is None or conditions.is_deleted(first.uid)(obj)

        def holds(obj: KubeObject | None) -> object:
            nonlocal first
            first = first or obj
            if first is None and not self.creation:
                raise NotFoundError(404, "NotFound", f'{resource} "{name}" not found')
            return self._check(obj)

        return deleted if self.deletion else holds


def seconds_of(text: str) -> float:
    """Parse a duration as kubectl does, `90s` or `1m30s`, or a number of seconds. Returns seconds.

    Raises:
        UsageError: The value is neither.
    """
    try:
        return float(text) if float(text) >= 0 else _WEEK
    except ValueError:
        if not _DURATION.fullmatch(text):
            raise UsageError(f"invalid --timeout {text!r}: use a duration such as 30s, 1m30s or 2h") from None
    if text.startswith("-"):
        return _WEEK
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))


async def wait(server: Server, selections: Sequence[Selection], awaited: Awaited, *, timeout: float) -> int:
    """Wait until the condition holds for each object, and print a line for each.

    Args:
        server: The server.
        selections: The resources, each with the names of its objects.
        awaited: The condition.
        timeout: Seconds for all objects together, or 0 to check once.

    Returns:
        0, or 1 if the condition does not hold for an object in time or another failure occurs, after the others have
        ended.
    """
    for selection in selections:
        for name in selection.names:
            check_name(name)
    async with server.client() as client:
        waits: list[tuple[APIResource, str | None, str]] = []
        for selection in selections:
            resource, namespace = await selection.find(client)
            if "watch" not in resource.verbs:
                raise ConfigError(f"{resource} cannot be watched; the server offers {', '.join(resource.verbs)}")
            waits += [(resource, namespace, name) for name in selection.names]
        failed = await asyncio.gather(
            *(_wait_for_one(client, resource, namespace, name, awaited, timeout) for resource, namespace, name in waits)
        )
    return 1 if any(failed) else 0


async def _wait_for_one(
    client: Client, resource: APIResource, namespace: str | None, name: str, awaited: Awaited, timeout: float
) -> int:
    key = f"{namespace}/{name}" if namespace else name
    title = f"{resource.name}.{resource.group}" if resource.group else resource.name
    existed = False
    condition = awaited.check(title, name)

    def check(obj: KubeObject | None) -> object:
        nonlocal existed
        existed = existed or obj is not None
        met = condition(obj)
        if timeout == 0 and not met:
            raise _NotMetError(f"condition not met for {resource.name}/{name}")
        return met

    try:
        await client.wait_for(resource.gvr, key, check, timeout or _ONCE, allow_recreate=True)
    except TimeoutError as error:
        how = str(error).partition("; ")[2]
        return complain(f"timed out waiting for the condition on {resource.name}/{name}; {how}")
    except (KinformerError, OSError) as error:
        return complain(error)
    if existed:  # kubectl prints nothing for an object that was already absent
        print(f"{documents.name_of(resource, name)} condition met", flush=True)
    return 0


class _NotMetError(KinformerError):
    """The condition does not hold, and there is no point in waiting."""


def _exists(obj: KubeObject | None) -> bool:
    return obj is not None


def _json_path(text: str) -> Check:
    """Return the condition that a path has a given value, or any value (kubectl, pkg/cmd/wait/json.go)."""
    text = text.strip("'\"") if text.count("=") == 0 else text
    braced = _BRACED.fullmatch(text.replace("'{", "{").replace("}'", "}"))
    if braced is not None:
        path, value = braced["path"], braced["value"]
    else:
        path, equals, value = text.partition("=")
        value = value if equals else None
    if value is not None:
        value = value.strip("'\"").strip()
        if not value:
            raise UsageError(_NO_VALUE)
    try:
        met = conditions.matches(path) if value is None else conditions.matches(path, value)
    except ConfigError as error:
        raise UsageError(f"--for=jsonpath={text}: {error}") from error

    def check(obj: KubeObject | None) -> bool:
        found = None if obj is None else obj.path(path)
        if ("[*]" in path or ".*" in path) and isinstance(found, list):
            if len(found) > 1:
                raise ConfigError("given jsonpath expression matches more than one value")
            found = found[0] if found else None
        if value is not None and isinstance(found, dict | list):
            raise ConfigError("jsonpath leads to a nested object or list which is not supported")
        return met(obj)

    return check
