"""Reading one's own writes: which changes of a controller's making its caches have yet to see.

A reconcile that makes an object and is triggered again at once, by another change, looks into a cache that does not
have the object, and makes it again. So a key of which writes are outstanding is not reconciled until the informers
have passed them (the idea of Kubernetes' own controllers since 1.36: KEP-5647; they skip, this waits).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kinformer._runtime.logs import get_logger
from kinformer._runtime.write_log import Write
from kinformer.exceptions import ConfigError, KeyFuncError, StoppedError, WatchError
from kinformer.informer.informer import SharedInformer
from kinformer.informer.wait_for import wait_for
from kinformer.objects.accessors import key_of, resource_version_of, uid_of
from kinformer.objects.meta import GroupVersionResource, version_number
from kinformer.objects.object import KubeObject

__all__ = ["LIMIT", "OwnWrites"]

log = get_logger("kinformer.controller")

LIMIT = 10.0  # seconds for which a key waits at most

_SWEEP_ABOVE = 64  # keys: from there on those are looked for now and then that have seen all, and may never run again


class _Outstanding(NamedTuple):
    """A change that an informer is to show: the object at `version` or later, or, at 0, its end."""

    informer: SharedInformer
    key: str
    uid: str
    version: int

    @property
    def target(self) -> tuple[SharedInformer, str]:
        return self.informer, self.key

    @property
    def seen(self) -> bool:
        cached: KubeObject | None = self.informer.indexer.get_by_key(self.key)
        if not self.version:
            return cached is None or cached.uid != self.uid or cached.deletion_timestamp is not None
        reached = (cached.resource_version if cached is not None else "", self.informer.last_sync_resource_version)
        return any(_number(version) >= self.version for version in reached)

    async def wait(self) -> None:
        if self.version:
            namespace = self.key.rpartition("/")[0]
            await self.informer.wait_for_resource_version(str(self.version), namespace=namespace)
        else:
            await wait_for(self.informer, self.key, lambda _: self.seen)


class OwnWrites:
    """The outstanding writes of one run of a controller, by the key of the request that they belong to."""

    def __init__(self, informers: Iterable[SharedInformer]) -> None:
        self._informers = [(informer, _resource(informer)) for informer in dict.fromkeys(informers)]
        self._kinds: dict[SharedInformer, tuple[str, str]] = {}
        self._outstanding: dict[str, list[_Outstanding]] = {}
        self._sweep_above = _SWEEP_ABOVE
        self.waits = 0
        self.timeouts = 0

    def note(self, key: str, write: Write) -> None:
        """A request that `Client` made in a reconcile of `key`."""
        parsed = _parse(write.path)
        if parsed is None:
            return
        resource, namespace, name = parsed
        answer = write.answer
        is_marked = isinstance(answer, KubeObject) and answer.deletion_timestamp is not None
        for informer in [one for one, has in self._informers if has == resource]:
            if write.method == "DELETE" and name and not is_marked:
                target = f"{namespace}/{name}" if namespace else name
                cached = informer.indexer.get_by_key(target)
                uid = _details(answer).get("uid") or uid_of(answer) or (cached.uid if cached is not None else "")
                self._expect(key, _Outstanding(informer, target, uid, 0))
            elif isinstance(answer, KubeObject):
                self._expect(key, _Outstanding(informer, answer.key, answer.uid, _number(answer.resource_version)))

    def wrote(self, key: str, obj: Any) -> None:
        """What a program says that it wrote, in a reconcile of `key`."""
        try:
            target = key_of(obj)
        except KeyFuncError as error:
            raise TypeError(f"wrote({obj!r}): an object of the API is needed, as the server answered it") from error
        version = _number(resource_version_of(obj))
        if version:
            for informer in self._informers_of(obj):
                self._expect(key, _Outstanding(informer, target, uid_of(obj), version))

    def _expect(self, key: str, outstanding: _Outstanding) -> None:
        followed = outstanding.informer.namespaces
        namespace = outstanding.key.rpartition("/")[0]
        if followed is not None and namespace not in followed:
            return
        before = self._outstanding.get(key, ())
        if not outstanding.seen or any(one.target == outstanding.target for one in before):
            self._outstanding.setdefault(key, []).append(outstanding)
            if len(self._outstanding) > self._sweep_above:
                for one in list(self._outstanding):
                    self.behind(one)
                self._sweep_above = max(_SWEEP_ABOVE, 2 * len(self._outstanding))

    def behind(self, key: str) -> bool:
        """Whether something that a reconcile of `key` wrote has not been seen. What has been is forgotten here."""
        outstanding = self._outstanding.get(key)
        if outstanding is None:
            return False
        left = _unseen(outstanding)
        if left:
            self._outstanding[key] = left
        else:
            del self._outstanding[key]
        return bool(left)

    async def wait(self, key: str) -> None:
        """Until all that `key` wrote has been seen, or is taken for lost: 10 s at most, for all of it together."""
        self.waits += 1
        try:
            async with asyncio.timeout(LIMIT):
                for outstanding in self._outstanding.get(key, ()):
                    try:
                        await outstanding.wait()
                    except WatchError as error:  # the server went back in time: that write is of another past
                        text = "%s: not waiting for a write to %s: %s"
                        log.info(text, key, outstanding.key, error, key=key, reason=error)
                    except ValueError:
                        text = "%s: the informer does not follow the namespace of %s"
                        log.debug(text, key, outstanding.key, key=key, reason="not_followed")
        except TimeoutError:
            self.timeouts += 1
            text = "%s: what it wrote has not come back within %g s; it is reconciled all the same"
            log.warning(text, key, LIMIT, key=key, reason="own_write_unseen")
        except StoppedError:
            log.debug("%s: not waiting for its writes: the informer has been left", key, key=key, reason="stopped")
        self._outstanding.pop(key, None)

    def _informers_of(self, obj: Any) -> list[SharedInformer]:
        """Those that follow objects of this kind.

        An informer knows its resource, and an object its kind. Which goes with which is told by what a cache holds;
        of an empty one it is guessed from the words, and where no word fits by what else there is in the group.
        """
        api_version, kind = _type_of(obj)
        group = api_version.rpartition("/")[0]
        certain: list[SharedInformer] = []
        guessed: list[SharedInformer] = []
        possible: list[SharedInformer] = []
        for informer, resource in self._informers:
            held = self._kind_of(informer)
            if held is not None:
                certain += [informer] if held == (group, kind) else []
            elif resource is not None and resource[0] == group:
                (guessed if resource[1] in _plurals(kind) else possible).append(informer)
        return certain or guessed or possible

    def _kind_of(self, informer: SharedInformer) -> tuple[str, str] | None:
        """Group and kind of what the informer holds, or has held."""
        known = self._kinds.get(informer)
        if known is None:
            key = informer.indexer.any_key()
            sample = informer.indexer.get_by_key(key) if key is not None else None
            if sample is not None and sample.kind:
                known = self._kinds[informer] = (sample.api_version.rpartition("/")[0], sample.kind)
        return known


def _unseen(outstanding: Iterable[_Outstanding]) -> list[_Outstanding]:
    """What has not been seen of the changes of one key, in their order.

    None has that comes after an unseen one of the same object: a cache that has not yet heard of an object, which was
    made and deleted since, would pass for one that has seen its end.
    """
    left: list[_Outstanding] = []
    targets = set()
    for one in outstanding:
        if not one.seen or one.target in targets:
            left.append(one)
            targets.add(one.target)
    return left


def _number(resource_version: str) -> int:
    try:
        return version_number(resource_version)
    except ValueError:
        return 0


def _resource(informer: SharedInformer) -> tuple[str, str] | None:
    """Group and resource of an informer; where its source does not say them, its name may."""
    resource = informer.resource
    if not isinstance(resource, GroupVersionResource):
        try:
            resource = GroupVersionResource.parse(informer.name.partition(" in ")[0])
        except ConfigError:
            return None
    return resource.group, resource.resource


def _parse(path: str) -> tuple[tuple[str, str], str, str] | None:
    """Group and resource, namespace and name of a path; None for one that leads to no resource."""
    parts = path.partition("?")[0].strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, rest = "", parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, rest = parts[1], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    return (group, rest[0]), namespace, rest[1] if len(rest) > 1 else ""


def _details(answer: Any) -> Mapping[str, Any]:
    details = answer.get("details") if isinstance(answer, Mapping) else None
    return details if isinstance(details, Mapping) else {}


def _type_of(obj: Any) -> tuple[str, str]:
    """The apiVersion and the kind of a KubeObject, a dict, or a model."""
    if isinstance(obj, Mapping) and not isinstance(obj, KubeObject):
        return str(obj.get("apiVersion") or ""), str(obj.get("kind") or "")
    return str(getattr(obj, "api_version", None) or ""), str(getattr(obj, "kind", None) or "")


def _plurals(kind: str) -> tuple[str, ...]:
    """What a resource of this kind may be called (apimachinery, pkg/api/meta/restmapper.go)."""
    singular = kind.lower()
    stem = singular[:-1] + "ies" if singular.endswith("y") else f"{singular}es"
    return singular, f"{singular}s", stem
