"""The chosen namespaces of an informer: the keys of a collection of Namespaces, which join and leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from kinformer._runtime.fence import unfenced
from kinformer._runtime.logs import LogOnce, get_logger
from kinformer._runtime.tasks import Tasks
from kinformer.exceptions import ConfigError, describe
from kinformer.informer.collection import Collection, core_of
from kinformer.informer.following import KeyFollower
from kinformer.list_watcher import ListerWatcher, Source, source_of
from kinformer.processor.processor import UNKNOWN_SCOPES
from kinformer.queue.atomic_delta_fifo import AtomicDeltaFIFO, ScopeStep

__all__ = ["ChosenNamespaces", "NamespaceFollower", "followed_namespaces", "sources_of"]

log = get_logger("kinformer.informer")


class ChosenNamespaces:
    """The sources of an informer for the namespaces in a collection.

    Args:
        collection: The collection, whose keys are the names of namespaces. Its owner enters it.
        source_of: Creates the source of a namespace. For None it creates one for all, of which only the abilities
            are read.
    """

    def __init__(self, collection: Collection, source_of: Callable[[str | None], ListerWatcher]) -> None:
        self.collection = collection
        self.source_of = source_of
        self.template = source_of(None)

    def unsynced_reason(self) -> str:
        """Return why the namespaces are not known, or "" if they are."""
        core = core_of(self.collection)
        reason = core.unlisted_reason() if core is not None else "it has not synced"
        return reason and f"the namespaces of {self.collection.name} are not known: {reason}"


Sources = dict[str | None, ListerWatcher] | ChosenNamespaces


def sources_of(
    list_watch: ListerWatcher | Mapping[str, ListerWatcher] | ChosenNamespaces,
) -> tuple[Sources, Source]:
    """Return the sources of an informer, by scope or as chosen namespaces, and one of them.

    Raises:
        ConfigError: There is no source.
    """
    if isinstance(list_watch, ChosenNamespaces):
        return list_watch, source_of(list_watch.template)
    scopes = _by_scope(list_watch)
    return scopes, source_of(next(iter(scopes.values())))


class NamespaceFollower:
    """Follows the keys of a collection of namespaces for one informer, and starts and stops following each namespace.

    It does nothing if the informer's namespaces are fixed.

    Args:
        name: The name of the informer.
        chosen: The chosen namespaces, or None if they are fixed.
        queue: The informer's queue.
        join: Creates the parts of a namespace that joins, and runs its reflector in a task.
        leave: Removes the objects of a namespace.
        tasks: The informer's tasks.
    """

    def __init__(
        self,
        name: str,
        chosen: ChosenNamespaces | None,
        queue: AtomicDeltaFIFO,
        *,
        join: Callable[[str], asyncio.Task[None]],
        leave: Callable[[str], None],
        tasks: Tasks,
    ) -> None:
        self._name = name
        self._chosen = chosen
        self._queue = queue
        self._join = join
        self._leave = leave
        self._tasks = tasks
        self._told = LogOnce()
        self._ignored: set[object] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._following: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start following the collection.

        Raises:
            StoppedError: The collection was stopped. If it crashed, its error is raised instead.
        """
        if self._chosen is None:
            return
        follower = KeyFollower(
            self._chosen.collection,
            f"namespaces of {self._name}",
            changed=self._changed,
            synced=self._known,
            ended=self._ended,
        )
        with unfenced():  # it may be started in a leader's body, and outlive it
            self._following = self._tasks.start_guest(follower.run(), f"kinformer namespaces of {self._name}")

    def stop(self) -> None:
        """Stop following the collection."""
        if self._following is not None:
            self._tasks.drop([self._following])

    @property
    def is_current(self) -> bool:
        """True if the namespaces of the collection, as it is now, are those that are followed."""
        if self._chosen is None or self._following is None or self._following.done():
            return True
        return self._running.keys() | self._ignored >= self._chosen.collection.by_key.keys() >= self._running.keys()

    def _changed(self, key: str, *, is_there: bool) -> bool:
        """Start or stop following a namespace, and return True if it did either.

        The loop then has a turn, because each namespace sends requests.
        """
        if is_there and (not isinstance(key, str) or not key or "/" in key):
            self._ignore(key, "it is not a valid namespace name")
            return False
        if is_there and key not in self._running:
            try:
                self._running[key] = self._join(key)
            except Exception as error:  # noqa: BLE001 - one namespace must not end the others
                self._ignore(key, describe(error))
                return False
            return True
        if not is_there and (running := self._running.pop(key, None)) is not None:
            self._leave(key)
            self._tasks.drop([running])
            return True
        return False

    def _ignore(self, key: object, why: str) -> None:
        self._ignored.add(key)
        if self._told.is_news(str(key)):
            log.error("%s: ignored %r: %s", self._name, key, why, resource=self._name, reason="bad_namespace")

    def _known(self) -> None:
        """Record that the first namespaces are known."""
        self._queue.change_scope(UNKNOWN_SCOPES, ScopeStep.COMPLETE)

    def _ended(self, error: BaseException) -> None:
        """Log that the collection has ended. The namespaces stay as they are."""
        assert self._chosen is not None
        name = self._chosen.collection.name
        core = core_of(self._chosen.collection)
        message = "%s: the namespaces of %s are no longer followed: %s"
        level = log.warning if core is None or core.life.crash is None else log.error
        level(message, self._name, name, describe(error), resource=self._name, reason=error)


def _by_scope(list_watch: ListerWatcher | Mapping[str, ListerWatcher]) -> dict[str | None, ListerWatcher]:
    """Return the sources of one cache by namespace. The key is None if one source covers all.

    Raises:
        ConfigError: There is none.
    """
    if not isinstance(list_watch, Mapping):
        return {None: list_watch}
    if not list_watch:
        raise ConfigError("namespaces: an informer needs at least one")
    if len(list_watch) == 1:
        return {None: next(iter(list_watch.values()))}
    scopes: dict[str | None, ListerWatcher] = dict(list_watch.items())
    return scopes


def followed_namespaces(sources: Mapping[str | None, ListerWatcher]) -> tuple[str, ...] | None:
    """Return the namespaces covered by these sources (by scope), or None for all."""
    if None not in sources:
        return tuple(name for name in tuple(sources) if name is not None)
    only = source_of(sources[None]).namespace
    return (only,) if only else None
