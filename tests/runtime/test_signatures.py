"""A callback is checked when it is passed: one rule, wherever a callback is taken.

Internals: the informer with a model, which otherwise a factory makes, over a source of the test.
"""

from __future__ import annotations

import asyncio
import operator
import re
from collections.abc import AsyncIterator, Callable
from functools import partial, wraps
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from kinformer import (
    Client,
    Controller,
    DeltaFIFO,
    Indexer,
    LeaderElector,
    ListWatch,
    Manager,
    Reflector,
    SharedInformer,
    SharedInformerFactory,
    Store,
    blocking,
    meta_namespace_key,
    wait_for,
    watch,
)
from kinformer.controller import Predicate, generation_changed
from kinformer.informer.typed import ModelInformer
from kinformer.testing import APIServer
from tests.support.memory_source import MemorySource

# Typed as Any, as all of these are wrong, and a type checker would say so.
no_arguments: Any = lambda: None  # noqa: E731
one_argument: Any = lambda obj: None  # noqa: E731
two_arguments: Any = lambda old, new: None  # noqa: E731


async def asynchronous(obj: Any) -> bool:
    return True


COROUTINE: Any = asynchronous


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    async with Client.from_url("http://127.0.0.1:1") as client:
        yield client


# --- the handlers of an informer ----------------------------------------------------------------------------------


def test_a_handler_with_too_few_parameters_is_refused_by_name() -> None:
    def changed(pod: object) -> None: ...

    informer = SharedInformer(MemorySource(), name="v1/pods")
    with pytest.raises(TypeError) as caught:
        informer.add_event_handler(on_update=changed)  # type: ignore[arg-type]
    assert str(caught.value) == (
        "informer v1/pods: on_update=test_a_handler_with_too_few_parameters_is_refused_by_name.<locals>.changed "
        "is called with (old, new), but takes (pod): too many positional arguments"
    )


def test_a_handler_that_is_no_function_is_refused() -> None:
    informer = SharedInformer(MemorySource(), name="v1/pods")
    with pytest.raises(TypeError, match=r"informer v1/pods: on_add='print' is not callable; pass .* takes \(obj\)"):
        informer.add_event_handler(on_add="print")  # type: ignore[arg-type]


class Recorder:
    def one(self, obj: object) -> None: ...
    def two(self, old: object, new: object) -> None: ...
    async def flagged(self, obj: object, *, is_in_initial_list: bool) -> None: ...
    def any_number(self, *objects: object) -> None: ...
    def with_default(self, obj: object, log: object = None) -> None: ...
    def demanding(self, obj: object, *, log: object) -> None: ...
    def __call__(self, obj: object) -> None: ...


def injecting(function: Callable[..., object]) -> Callable[..., object]:
    """A decorator that passes on one more argument than it takes."""

    @wraps(function)
    def with_database(obj: object) -> object:
        return function(obj, "database")

    return with_database


@injecting
def stored(obj: object, database: object, *, is_in_initial_list: bool = False) -> None: ...


recorder = Recorder()


@pytest.mark.parametrize(
    "callback",
    [
        recorder.one,
        recorder.flagged,
        recorder.any_number,
        recorder.with_default,
        recorder,
        partial(recorder.two, "first"),
        partial(recorder.demanding, log=print),
        Recorder.one.__get__(recorder),
        one_argument,
        print,
        [].append,
        dict,
        operator.attrgetter("key"),
        MagicMock(),
        AsyncMock(),
        injecting(recorder.two),
        stored,
    ],
)
async def test_whatever_can_be_called_with_an_object_is_accepted_and_called(callback: Any) -> None:
    source = MemorySource()
    source.set("a")
    async with SharedInformer(source) as informer:
        informer.add_event_handler(on_add=callback)
        await informer.wait_handlers_synced()
        if callback is not dict:  # takes what it is given for a mapping, and may fail on its values
            assert informer.statistics().handler_errors == 0


@pytest.mark.parametrize(
    "callback",
    [no_arguments, two_arguments, recorder.two, recorder.demanding, Recorder.one, partial(recorder.one, 1), object()],
)
def test_whatever_cannot_be_called_with_an_object_is_refused(callback: Any) -> None:
    informer = SharedInformer(MemorySource())
    for option in ("on_add", "on_delete", "filter"):
        callbacks = {"on_add": one_argument, option: callback}
        with pytest.raises(TypeError, match=f"informer v1/configmaps: {option}="):
            informer.add_event_handler(**callbacks)
    with pytest.raises(TypeError, match="filter="):
        informer.events(filter=callback)
    assert informer.statistics().pending == {}


def test_the_methods_of_a_handler_object_are_checked_too() -> None:
    class Wrong:
        def on_update(self, obj: object) -> None: ...

    for informer in (SharedInformer(MemorySource()), ModelInformer(SharedInformer(MemorySource()), dict)):
        with pytest.raises(
            TypeError, match=r"on_update=.*Wrong\.on_update is called with \(old, new\), but takes \(obj\)"
        ):
            informer.add_event_handler(Wrong())  # type: ignore[arg-type]


def test_a_callable_without_a_known_signature_is_accepted() -> None:
    class Unknown:
        @property
        def __signature__(self) -> object:
            raise ValueError("no signature")

        __call__ = MagicMock()

    SharedInformer(MemorySource()).add_event_handler(on_add=Unknown(), on_update=max)  # type: ignore[arg-type]


# --- everywhere else ---------------------------------------------------------------------------------------------


async def passed(pass_to: Callable[[Client, Any], Any], client: Client, callback: Any) -> None:
    result = pass_to(client, callback)
    if asyncio.iscoroutine(result):
        await result


PLACES: dict[str, tuple[Any, Callable[[Client, Any], object]]] = {
    "index": (two_arguments, lambda client, f: SharedInformer(MemorySource(), indexers={"i": f})),
    "index of a factory": (
        two_arguments,
        lambda client, f: SharedInformerFactory(client).for_resource("v1/pods", indexers={"i": f}),
    ),
    "index with a model": (
        two_arguments,
        lambda client, f: SharedInformerFactory(client).for_resource("v1/pods", indexers={"i": f}, model=dict),
    ),
    "add_indexers": (no_arguments, lambda client, f: SharedInformer(MemorySource()).add_indexers({"i": f})),
    "asynchronous index": (COROUTINE, lambda client, f: SharedInformer(MemorySource(), indexers={"i": f})),
    "transform": (two_arguments, lambda client, f: SharedInformer(MemorySource(), transform=f)),
    "asynchronous transform": (COROUTINE, lambda client, f: SharedInformer(MemorySource(), transform=f)),
    "on_error": (one_argument, lambda client, f: SharedInformer(MemorySource(), on_error=f)),
    "tweak_list_options": (
        no_arguments,
        lambda client, f: SharedInformerFactory(client).for_resource("v1/pods", tweak_list_options=f),
    ),
    "tweak of a ListWatch": (no_arguments, lambda client, f: ListWatch(client, "v1/pods", tweak_list_options=f)),
    "asynchronous filter": (COROUTINE, lambda client, f: SharedInformer(MemorySource()).events(filter=f)),
    "reconcile": (no_arguments, lambda client, f: Controller(f)),
    "predicate": (
        two_arguments,
        lambda client, f: Controller(COROUTINE).for_(SharedInformer(MemorySource()), predicate=f),
    ),
    "asynchronous predicate": (
        COROUTINE,
        lambda client, f: Controller(COROUTINE).for_(SharedInformer(MemorySource()), predicate=f),
    ),
    "predicate of owns": (
        two_arguments,
        lambda client, f: Controller(COROUTINE).owns(SharedInformer(MemorySource()), "Foo", f),
    ),
    "mapper": (no_arguments, lambda client, f: Controller(COROUTINE).watches(SharedInformer(MemorySource()), f)),
    "Predicate": (no_arguments, lambda client, f: Predicate(f)),
    "and": (two_arguments, lambda client, f: generation_changed & f),
    "or": (no_arguments, lambda client, f: generation_changed | f),
    "Store": (no_arguments, lambda client, f: Store(f)),
    "Indexer": (two_arguments, lambda client, f: Indexer(f)),
    "index of an Indexer": (two_arguments, lambda client, f: Indexer(meta_namespace_key, {"i": f})),
    "DeltaFIFO": (two_arguments, lambda client, f: DeltaFIFO(f)),
    "transform of a DeltaFIFO": (no_arguments, lambda client, f: DeltaFIFO(meta_namespace_key, transform=f)),
    "on_error of a Reflector": (one_argument, lambda client, f: Reflector(MemorySource(), Indexer(), on_error=f)),
    "on_error of a watch": (one_argument, lambda client, f: watch(MemorySource(), on_error=f)),
    "Manager.add": (one_argument, lambda client, f: Manager(client).add(f)),
    "Manager.add_check": (one_argument, lambda client, f: Manager(client).add_check("check", f)),
    "elector": (no_arguments, lambda client, f: Manager(client, elector=f)),
    "LeaderElector.run": (
        one_argument,
        lambda client, f: LeaderElector(client, namespace="a", name="b").run(f),
    ),
    "wait_for": (two_arguments, lambda client, f: wait_for(SharedInformer(MemorySource()), "a/b", f)),
    "asynchronous wait_for": (COROUTINE, lambda client, f: wait_for(SharedInformer(MemorySource()), "a/b", f)),
    "client.wait_for": (no_arguments, lambda client, f: client.wait_for("v1/pods", "a/b", f)),
}


@pytest.mark.parametrize("place", PLACES)
async def test_a_callback_that_does_not_fit_is_refused_where_it_is_passed(client: Client, place: str) -> None:
    wrong, pass_to = PLACES[place]
    for callback in (wrong, 3.5):
        with pytest.raises(TypeError) as caught:
            await passed(pass_to, client, callback)
        text = str(caught.value)
        if callback is not wrong:
            assert re.search(r"3\.5( is not callable|$)|got 3\.5|expected a controller", text), text
        elif wrong is COROUTINE:
            assert "asynchronous is a coroutine function" in text
        else:
            assert re.search(r"<lambda> is called with \(.*\), but takes \(.*\): ", text), text


def test_a_handler_of_a_thread_is_refused_in_the_line_that_passes_it() -> None:
    with blocking.Informers(url="http://127.0.0.1:1") as informers:
        pods = informers.for_resource("v1/pods")
        with pytest.raises(TypeError, match=r"informer v1/pods: on_update=<lambda> is called with \(old, new\)"):
            pods.add_event_handler(on_update=one_argument)
        with pytest.raises(TypeError, match=r"indexers\['i'\]=<lambda> is called with \(obj\)"):
            pods.add_indexers({"i": no_arguments})


async def test_a_refused_handler_leaves_the_informer_as_it_was() -> None:
    async with APIServer() as server, server.client() as client, SharedInformerFactory(client) as factory:
        pods = factory.for_resource("v1/pods", indexers={"i": lambda pod: [pod.name]})
        for refused in ({"on_add": no_arguments}, {"on_add": one_argument, "filter": no_arguments}):
            with pytest.raises(TypeError):
                pods.add_event_handler(**refused)
        with pytest.raises(TypeError):
            factory.for_resource("v1/pods", indexers={"j": no_arguments})
        assert pods.statistics().pending == {}
        await factory.wait_for_cache_sync(timeout=10, handlers=True)
