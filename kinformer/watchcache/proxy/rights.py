"""The rights of callers, which the server reviews: for each request, and again while a watch is open."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec
from aiohttp import web

from kinformer._runtime.logs import get_logger
from kinformer._runtime.tasks import wait_for_end
from kinformer.apiserver.selecting.selection import parse_fields
from kinformer.apiserver.status import StatusError, forbidden
from kinformer.client.client import Client
from kinformer.objects.requests.path import RequestPath
from kinformer.watchcache.proxy.callers import UNANSWERED, Caller, Callers, Memory, review
from kinformer.watchcache.proxy.tunnel import Ending

__all__ = ["Access", "Attempt", "attempt_of"]

log = get_logger("kinformer.proxy")

_REMEMBERED = 10.0  # seconds, as a kube-apiserver's own reviews (DelegatingAuthorizationOptions)
_MOST = 16384  # answers
_LONG = 1024  # characters of an attempt with long selectors, whose answer is not remembered
_UNANSWERED = 60.0  # seconds for which a watch stays open while the server does not answer reviews
_PATH = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _AccessStatus(msgspec.Struct):
    allowed: bool = False
    denied: bool = False
    reason: str = ""


class Attempt(NamedTuple):
    """A read for which a caller needs a right."""

    verb: str
    group: str
    version: str
    resource: str
    namespace: str
    name: str
    field_selector: str = ""
    label_selector: str = ""

    def attributes(self) -> dict[str, object]:
        """Return the ResourceAttributes of a review."""
        found: dict[str, object] = {name: value for name, value in self._asdict().items() if value}
        for name, field in (("field_selector", "fieldSelector"), ("label_selector", "labelSelector")):
            if name in found:
                found[field] = {"rawSelector": found.pop(name)}
        return found

    def refusal(self, caller: Caller, reason: str) -> StatusError:
        """Return the 403 of an API server (apiserver, handlers/responsewriters/errors.go)."""
        where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        what = f'cannot {self.verb} resource "{self.resource}" in API group "{self.group}" {where}'
        text = f'User "{caller.name}" {what}{f": {reason}" if reason else ""}'
        return forbidden(self.group, self.resource, self.name, text)


def attempt_of(path: RequestPath, params: Mapping[str, str], *, watch: bool) -> Attempt:
    """Return the attempt of a GET of a resource without a subresource.

    Raises:
        StatusError: A 400. The field selector is invalid.
    """
    verb = "get" if path.name else "watch" if watch else "list"
    name, labels, fields = path.name, "", ""
    if not name:
        labels, fields = params.get("labelSelector", ""), params.get("fieldSelector", "")
        named = [value for field, value, wanted in parse_fields(fields) if field == "metadata.name" and wanted]
        name = named[0] if named else ""
    return Attempt(verb, path.group, path.version, path.resource, path.namespace_of_access, name, fields, labels)


class Access:
    """Decides which requests are allowed.

    Args:
        client: The client for the reviews.
        recheck: Seconds between two reviews for an open watch.
    """

    def __init__(self, client: Client, *, recheck: float) -> None:
        self.callers = Callers(client)
        self._client = client
        self._recheck = recheck
        self._answers: Memory[tuple[Caller, Attempt], tuple[bool, str]] = Memory(_REMEMBERED, _MOST)

    async def check(self, caller: Caller, attempt: Attempt) -> None:
        """Raise a `StatusError` unless a caller has the right to an attempt: a 403, or a 503 without an answer."""
        try:
            if sum(map(len, attempt)) > _LONG:
                allowed, reason = await self._ask(caller, attempt)
            else:
                allowed, reason = await self._answers.get((caller, attempt), lambda: self._ask(caller, attempt))
        except UNANSWERED as error:
            raise self.callers.unavailable(error) from None
        if not allowed:
            raise attempt.refusal(caller, reason)

    @asynccontextmanager
    async def watching(self, request: web.BaseRequest, attempt: Attempt, ending: Ending) -> AsyncIterator[None]:
        """Review the credentials and rights of a caller again and again during a block, and end it when they are gone.

        Args:
            request: The request of the watch, which has been allowed.
            attempt: The attempt that it makes.
            ending: Ends the watch.
        """
        task = asyncio.create_task(self._keep_checking(request, attempt, ending), name="kinformer proxy: rights")
        try:
            yield
        finally:
            task.cancel()
            await wait_for_end((task,))

    async def _keep_checking(self, request: web.BaseRequest, attempt: Attempt, ending: Ending) -> None:
        loop = asyncio.get_running_loop()
        answered = loop.time()
        while True:
            await asyncio.sleep(self._recheck * random.uniform(0.8, 1.0))  # watches that began together are spread
            try:
                await self.check(await self.callers.identify(request), attempt)
            except StatusError as error:
                if error.code == 503 and loop.time() - answered < _UNANSWERED:
                    continue
                log.info("a watch of %s ends: %s", attempt.resource, error, reason="forbidden")
                ending.end()
                return
            answered = loop.time()

    async def _ask(self, caller: Caller, attempt: Attempt) -> tuple[bool, str]:
        spec: dict[str, object] = {"user": caller.name, "resourceAttributes": attempt.attributes()}
        if caller.uid:
            spec["uid"] = caller.uid
        if caller.groups:
            spec["groups"] = list(caller.groups)
        if caller.extra:
            spec["extra"] = {name: list(values) for name, values in caller.extra}
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        status = await review(self._client, _PATH, body, _AccessStatus)
        return status.allowed and not status.denied, status.reason
