"""`kinformer wait`: waits until a condition holds for objects, with the messages of `kubectl wait`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import kinformer.conditions as conditions
from kinformer import Client, ConfigError, KinformerError, KubeObject, NotFoundError
from kinformer.cli.output import documents
from kinformer.cli.output.errors import complain, one_line
from kinformer.cli.output.screen import Loading
from kinformer.cli.target import ObjectSelection, Server, UsageError, check_name
from kinformer.cli.usage import parsed_seconds
from kinformer.client import APIResource
from kinformer.exceptions import BadRequestError
from kinformer.kinds.conditions import equals
from kinformer.objects.paths.json_path import parse_braced

__all__ = ["WaitCondition", "seconds_of", "wait"]

Check = Callable[[KubeObject | None], object]

_WEEK = 7 * 86400.0  # seconds, for a negative timeout as in kubectl
_ONCE = 30.0  # seconds for a response, if the condition is checked once
_LOOK = 0.25  # seconds between two updates of the progress
_POLL = 0.5  # seconds between two lists, until an object exists
_AT_ONCE = 50  # watches that are open at the same time
_PAGE = 500  # objects
_METADATA_ONLY = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"}
_EQUALS = re.compile(r"(?<![=!<>])=(?!=)")  # not a comparison within a filter
_NO_VALUE = "jsonpath wait has to have a value after equal sign, like --for=jsonpath='{.status.readyReplicas}'=3"
_FORMS = "create, delete, condition=NAME[=VALUE] or jsonpath='{.PATH}'[=VALUE]"


class WaitCondition:
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
            such_as = "" if "=" in text else f", such as condition={text}"
            raise UsageError(f'unrecognized condition: "{text}"; expected {_FORMS}{such_as}')

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
        seconds = parsed_seconds(text)
    except ValueError:
        raise UsageError(f"invalid --timeout {text!r}: use a duration such as 30s, 1m30s or 2h") from None
    return seconds if seconds >= 0 else _WEEK


async def wait(server: Server, selections: Sequence[ObjectSelection], awaited: WaitCondition, *, timeout: float) -> int:
    """Wait until the condition holds for each object, and print a line for each.

    Args:
        server: The server.
        selections: The objects. Without names, these are all that match when the command starts.
        awaited: The condition.
        timeout: Seconds for all objects together, or 0 to check once.

    Returns:
        0, or 1 if the condition does not hold for an object in time or another failure occurs, after the others have
        ended.
    """
    for selection in selections:
        for name in selection.names:
            check_name(name)
    deadline = asyncio.get_running_loop().time() + timeout
    async with server.client() as client:
        waits: list[_Wait] = []
        for selection in selections:
            resource, namespace = await selection.find(client)
            if "watch" not in resource.verbs:
                raise ConfigError(f"{resource} cannot be watched; the server offers {', '.join(resource.verbs)}")
            named = _named(resource, namespace, selection)
            waits += named or await _matching(client, resource, namespace, selection, awaited, deadline)
        if not waits and not awaited.deletion:
            return complain("no matching resources found")
        with Loading(_counted(waits)) as loading:
            run = _Run(client, awaited, timeout, loading)
            results = await run.all(waits)
    return _report([failure for failure in results if failure is not None], len(waits))


@dataclass(frozen=True, slots=True)
class _Wait:
    """The wait for one object. `chosen` is True if it was found by a selector rather than named."""

    resource: APIResource
    namespace: str | None
    name: str
    chosen: bool

    @property
    def key(self) -> str:
        """The object's key."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class _Failure(NamedTuple):
    """An object for which the condition does not hold, with the reason. `late` is True at the timeout."""

    target: _Wait
    reason: str
    late: bool


def _named(resource: APIResource, namespace: str | None, selection: ObjectSelection) -> list[_Wait]:
    return [_Wait(resource, namespace, name, False) for name in selection.names]


async def _matching(
    client: Client,
    resource: APIResource,
    namespace: str | None,
    selection: ObjectSelection,
    awaited: WaitCondition,
    deadline: float,
) -> list[_Wait]:
    """Return the waits for the objects that match a selection. For `create`, there must be one by the deadline."""
    while True:
        try:
            waits = [
                _Wait(resource, item["metadata"].get("namespace"), item["metadata"]["name"], True)
                async for item in _metadata(client, resource, namespace, selection)
            ]
        except BadRequestError as error:
            raise selection.refused(resource, error) from error
        if waits or not awaited.creation or asyncio.get_running_loop().time() >= deadline:
            return waits
        await asyncio.sleep(_POLL)


async def _metadata(
    client: Client, resource: APIResource, namespace: str | None, selection: ObjectSelection
) -> AsyncIterator[Any]:
    """Yield the metadata of the objects of a selection, page by page."""
    options = {"labelSelector": selection.label_selector, "fieldSelector": selection.field_selector}
    params = {name: value for name, value in options.items() if value} | {"limit": str(_PAGE)}
    while True:
        page: Any = await client.request("GET", resource.gvr.path(namespace), params=params, headers=_METADATA_ONLY)
        for item in page.get("items") or ():
            yield item
        params["continue"] = (page.get("metadata") or {}).get("continue") or ""
        if not params["continue"]:
            return


class _Run:
    """Waits for all objects at once, with progress on a terminal.

    Args:
        client, awaited, timeout: As for `wait`.
        loading: Shows the progress.
    """

    def __init__(self, client: Client, awaited: WaitCondition, timeout: float, loading: Loading) -> None:
        self._client = client
        self._awaited = awaited
        self._timeout = timeout
        self._deadline = asyncio.get_running_loop().time() + timeout
        self._loading = loading
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._done = 0

    async def all(self, waits: Sequence[_Wait]) -> list[_Failure | None]:
        """Wait for all, and return the failures in the same order, with None for what has been met."""
        tasks = [asyncio.ensure_future(self._wait(target)) for target in waits]
        try:
            pending: set[asyncio.Future[_Failure | None]] = set(tasks)
            while pending:
                _, pending = await asyncio.wait(pending, timeout=_LOOK)
                self._loading.update(f"{self._done:,} of {len(waits):,}")
            return [task.result() for task in tasks]
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _wait(self, target: _Wait) -> _Failure | None:
        async with self._room:  # each wait is a watch
            left = max(0.0, self._deadline - asyncio.get_running_loop().time()) if self._timeout else 0.0
            failure, existed = await _wait_for_one(self._client, target, self._awaited, left)
        self._done += failure is None
        if failure is not None and not target.chosen:
            complain(failure.reason)
        elif failure is None and existed:  # kubectl prints nothing for an object that was already absent
            print(f"{documents.name_of(target.resource, target.name)} condition met", flush=True)
        return failure


async def _wait_for_one(
    client: Client, target: _Wait, awaited: WaitCondition, timeout: float
) -> tuple[_Failure | None, bool]:
    """Return the failure, or None if the condition holds, and True if the object existed."""
    resource, name = target.resource, target.name
    title = f"{resource.name}.{resource.group}" if resource.group else resource.name
    existed = seen = False
    condition = awaited.check(title, name)

    def check(obj: KubeObject | None) -> object:
        nonlocal existed, seen
        existed, seen = existed or obj is not None, True
        met = condition(obj)
        if timeout == 0 and not met:
            raise _NotMetError(f"condition not met for {resource.name}/{name}")
        return met

    try:
        await client.wait_for(resource.gvr, target.key, check, timeout or _ONCE, allow_recreate=True)
    except TimeoutError as error:
        if target.chosen and timeout and not seen:  # its turn came too late to look at it
            return await _wait_for_one(client, target, awaited, 0.0)
        how = str(error).partition("; ")[2]
        reason = how if target.chosen else f"timed out waiting for the condition on {resource.name}/{name}; {how}"
        return _Failure(target, reason, True), existed
    except _NotMetError as error:
        return _Failure(target, "" if target.chosen else str(error), True), existed
    except (KinformerError, OSError) as error:
        return _Failure(target, one_line(error), False), existed
    return None, existed


def _counted(waits: Sequence[_Wait]) -> str:
    names = {target.resource.name for target in waits}
    return names.pop() if len(names) == 1 else "objects"


def _report(failures: Sequence[_Failure], total: int) -> int:
    """Print one line for all objects of selectors that the condition does not hold for. Returns the exit status."""
    chosen = [failure for failure in failures if failure.target.chosen]
    if chosen:
        late = (
            "timed out waiting for the condition on" if any(failure.late for failure in chosen) else "no condition for"
        )
        by_key = len({failure.target.namespace for failure in chosen}) > 1
        reasons = [
            f"{target.key if by_key else target.name}{f' ({reason})' if reason else ''}" for target, reason, _ in chosen
        ]
        complain(
            f"{late} {len(chosen)} of {total} {_counted([failure.target for failure in chosen])}: {', '.join(reasons)}"
        )
    return 1 if failures else 0


class _NotMetError(KinformerError):
    """The condition does not hold, and there is no point in waiting."""


def _exists(obj: KubeObject | None) -> bool:
    return obj is not None


def _json_path(text: str) -> Check:
    """Return the condition that a path has a given value, or any value, as `kubectl wait` reads it."""
    path, *values = _EQUALS.split(text.strip("'\"") if "=" not in text else text, maxsplit=1)
    path, value = path.strip("'\""), values[0].strip("'\"").strip() if values else None
    if value == "":
        raise UsageError(_NO_VALUE)
    try:
        parsed = parse_braced(path)
    except ConfigError as error:
        raise UsageError(f"--for=jsonpath={text}: {error}") from error

    def check(obj: KubeObject | None) -> bool:
        matches = [] if obj is None else parsed.find(obj)
        if len(matches) > 1:
            raise ConfigError("given jsonpath expression matches more than one value")
        if not matches or value is None:
            return bool(matches)
        if isinstance(matches[0], dict | list):
            raise ConfigError("jsonpath leads to a nested object or list which is not supported")
        return equals(matches[0], value)

    return check
