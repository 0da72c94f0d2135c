"""The helpers of a reconcile: finalizers, conditions, the status, owner references."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kinformer import Client, ConfigError, ConflictError, KubeObject, NotFoundError
from kinformer.controller import Finalizer, write_status
from kinformer.objects import (
    Condition,
    condition_is,
    condition_of,
    controller_of,
    owned_by,
    owner_reference,
    with_conditions,
)
from kinformer.testing import APIServer
from tests.support.kube import pod
from tests.support.machine_clock import NOON, MachineClock

PODS = "v1/pods"
CLEANUP = "example.com/cleanup"


Make = Callable[..., Awaitable[KubeObject]]


def stored(server: APIServer, obj: KubeObject) -> KubeObject:
    """Return the object as the server has it now."""
    return KubeObject.from_dict(server.get(PODS, obj.namespace, obj.name))


def writes(server: APIServer) -> int:
    return sum(request.method != "GET" for request in server.requests)


# --- finalizers ----------------------------------------------------------------------------------------------


async def test_a_finalizer_is_added_once_and_keeps_those_of_others(
    server: APIServer, client: Client, make_pod: Make
) -> None:
    finalizer = Finalizer(client, PODS, CLEANUP)
    obj = await make_pod(finalizers=["other.com/x"])
    obj = await finalizer.add(obj)
    assert obj.path("metadata.finalizers") == ["other.com/x", CLEANUP]
    assert finalizer.is_on(obj)
    before = writes(server)
    assert await finalizer.add(obj) is obj
    assert writes(server) == before


async def test_an_object_is_not_gone_before_its_finalizer_is_removed(
    server: APIServer, client: Client, make_pod: Make
) -> None:
    finalizer = Finalizer(client, PODS, CLEANUP)
    made = await make_pod()
    await finalizer.add(made)
    server.delete(PODS, made.namespace, made.name)
    obj = stored(server, made)
    assert obj.deletion_timestamp is not None
    assert await Finalizer(client, PODS, "example.com/late").add(obj) is obj, "what is being deleted takes no more"
    await finalizer.remove(obj)
    with pytest.raises(NotFoundError):
        await client.request("GET", f"/api/v1/namespaces/{made.namespace}/pods/{made.name}")
    await finalizer.remove(obj)  # gone is as good as removed


async def test_a_finalizer_that_somebody_else_added_meanwhile_is_not_overwritten(
    server: APIServer, client: Client, make_pod: Make
) -> None:
    mine, other = Finalizer(client, PODS, CLEANUP), Finalizer(client, PODS, "other.com/x")
    old = await make_pod()
    await other.add(old)
    assert set((await mine.add(old)).path("metadata.finalizers")) == {CLEANUP, "other.com/x"}
    await other.remove(old)  # `old` does not show it, so there is nothing to do
    await other.remove(stored(server, old))
    assert stored(server, old).path("metadata.finalizers") == [CLEANUP]


async def test_another_object_of_the_same_name_gets_no_finalizer(
    server: APIServer, client: Client, make_pod: Make
) -> None:
    old = await make_pod("a")
    server.delete(PODS, old.namespace, "a")
    await make_pod("a")
    with pytest.raises(NotFoundError, match="another object has its name"):
        await Finalizer(client, PODS, CLEANUP).add(old)
    assert stored(server, old).path("metadata.finalizers") is None
    await Finalizer(client, PODS, CLEANUP).remove(KubeObject.from_dict(with_finalizer(old)))


def with_finalizer(obj: KubeObject) -> dict[str, Any]:
    document = obj.to_dict()
    document["metadata"]["finalizers"] = [CLEANUP]
    return document


class Contested:
    """A client before whose every write somebody else is faster."""

    def __init__(self, server: APIServer, client: Client) -> None:
        self._server = server
        self._client = client
        self.tries = 0

    async def request(self, method: str, path: str, **options: Any) -> Any:
        if method == "PATCH":
            self.tries += 1
            *_, namespace, _, name = path.split("/")
            current = self._server.get(PODS, namespace, name)
            current["metadata"].setdefault("labels", {})["n"] = str(self.tries)
            self._server.update(current)
        return await self._client.request(method, path, **options)


async def test_a_fight_over_an_object_ends_in_a_conflict_and_not_in_a_loop(
    server: APIServer, client: Client, make_pod: Make
) -> None:
    contested = Contested(server, client)
    with pytest.raises(ConflictError):
        await Finalizer(contested, PODS, CLEANUP).add(await make_pod())  # type: ignore[arg-type]
    assert contested.tries == 4


@pytest.mark.parametrize("name", ["cleanup", "/cleanup", "example.com/"])
def test_a_finalizer_without_a_domain_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="expected a domain"):
        Finalizer(Client(), PODS, name)


# --- conditions and status ---------------------------------------------------------------------------------


READY = Condition("Ready", True, "AllGood")
MACHINE, LATER = MachineClock(NOON), MachineClock(NOON + 100)


def foo(generation: int = 1, *conditions: dict[str, Any]) -> KubeObject:
    metadata = {"name": "a", "generation": generation}
    return KubeObject.from_dict(
        {"apiVersion": "v1", "kind": "Foo", "metadata": metadata, "status": {"conditions": list(conditions)}}
    )


def test_a_new_condition_says_since_when_and_of_which_generation() -> None:
    assert with_conditions(foo(3), READY, clock=MACHINE.clock) == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AllGood",
            "message": "",
            "lastTransitionTime": "2023-11-14T22:13:20Z",
            "observedGeneration": 3,
        }
    ]


def test_where_nothing_has_changed_the_list_is_equal_so_there_is_nothing_to_write() -> None:
    before = with_conditions(foo(3), READY, clock=MACHINE.clock)
    assert with_conditions(foo(3, *before), READY, clock=LATER.clock) == before


def test_the_transition_time_is_that_of_the_status_and_of_nothing_else() -> None:
    before = with_conditions(foo(3), READY, clock=MACHINE.clock)
    (reason,) = with_conditions(foo(4, *before), Condition("Ready", True, "StillGood", "yes"), clock=LATER.clock)
    assert reason["lastTransitionTime"] == before[0]["lastTransitionTime"]
    assert (reason["reason"], reason["message"], reason["observedGeneration"]) == ("StillGood", "yes", 4)
    (lost,) = with_conditions(foo(4, *before), Condition("Ready", None, "NobodyKnows"), clock=LATER.clock)
    assert (lost["status"], lost["lastTransitionTime"]) == ("Unknown", "2023-11-14T22:15:00Z")


def test_conditions_of_others_stay_where_they_are() -> None:
    others = [{"type": "A", "status": "True"}, {"type": "Ready", "status": "False"}, {"type": "Z", "status": "True"}]
    changed = with_conditions(foo(1, *others), READY, Condition("New", False, "NotYet"))
    assert [one["type"] for one in changed] == ["A", "Ready", "Z", "New"]
    assert changed[0] == others[0]


def test_what_a_server_adds_to_a_condition_or_leaves_out_of_it_is_no_change() -> None:
    (entry,) = with_conditions(foo(3), READY)
    as_of_a_pod = {**entry, "lastProbeTime": None}
    del as_of_a_pod["message"]
    assert with_conditions(foo(3, as_of_a_pod), READY) == [as_of_a_pod]
    (said,) = with_conditions(foo(3, as_of_a_pod), Condition("Ready", True, "AllGood", "now with words"))
    assert said["message"] == "now with words"


def test_a_condition_is_believed_if_it_speaks_of_this_generation() -> None:
    conditions = with_conditions(foo(3), READY, Condition("Broken", False, "Fine"))
    assert condition_is(foo(3, *conditions), "Ready")
    assert not condition_is(foo(4, *conditions), "Ready"), "it speaks of an older spec"
    assert condition_is(foo(3, *conditions), "Broken", False)
    assert not condition_is(foo(3, *conditions), "Broken")
    assert not condition_is(foo(3), "Ready")
    assert not condition_is(None, "Ready")
    assert condition_is({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "Ready")
    assert condition_of(foo(3), "Ready") is None


@pytest.mark.parametrize(
    ("part", "arguments"),
    [
        ("type", ("not a word", True, "A")),
        ("status", ("Ready", "True", "A")),
        ("reason", ("Ready", True, "")),
        ("reason", ("Ready", True, "two words")),
        ("message", ("Ready", True, "A", "x" * 40000)),
    ],
)
def test_what_the_server_would_refuse_is_refused_before(part: str, arguments: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=part):
        Condition(*arguments)


async def test_a_status_is_written_if_it_differs_and_only_then(
    server: APIServer, client: Client, make_pod: Make
) -> None:
    obj = await make_pod(phase="Running")
    conditions = with_conditions(obj, READY)
    obj = await write_status(client, PODS, obj, {"phase": "Running", "conditions": conditions})
    assert obj.path("status.phase") == "Running"
    before = writes(server)
    assert await write_status(client, PODS, obj, {"conditions": with_conditions(obj, READY)}) is obj
    assert writes(server) == before
    obj = await write_status(client, PODS, obj, {"message": "hello"})
    assert obj.path("status.phase") == "Running", "a field that is not named stays"


async def test_a_mapping_in_a_status_becomes_what_is_said_and_other_fields_stay(
    server: APIServer, client: Client, make_object: Make
) -> None:
    server.register("example.com/v1", "Foo", "foos", namespaced=True)
    foos = "example.com/v1/foos"
    obj = await make_object(api_version="example.com/v1", kind="Foo")
    obj = await write_status(client, foos, obj, {"other": {"x": 1}, "zones": {"a": {"up": 1, "down": 2}, "b": {}}})
    for zones in ({"a": {"up": 1}}, {"a": {"up": 3}, "c": None}, {"c": [{"d": 1}]}, {"c": "text"}, {}):
        obj = await write_status(client, foos, obj, {"zones": zones})
        there = {zone: value for zone, value in zones.items() if value is not None}
        assert obj["status"] == {"other": {"x": 1}, "zones": there}
        assert await write_status(client, foos, obj, {"zones": zones}) is obj
    obj = await write_status(client, foos, obj, {"zones": None})
    assert obj["status"] == {"other": {"x": 1}}


async def test_a_status_that_was_concluded_from_an_old_state_is_not_written(
    server: APIServer, client: Client, make_pod: Make
) -> None:
    old = await make_pod()
    server.update({**old.to_dict(), "metadata": {**old["metadata"], "labels": {"a": "b"}}})
    with pytest.raises(ConflictError):
        await write_status(client, PODS, old, {"phase": "Failed"})


# --- owners --------------------------------------------------------------------------------------------------


def owner(namespace: str = "default", uid: str = "u-1", name: str = "web") -> KubeObject:
    metadata = {"name": name, "namespace": namespace, "uid": uid}
    return KubeObject.from_dict({"apiVersion": "example.com/v1", "kind": "Foo", "metadata": metadata})


def test_an_owned_object_names_its_controller() -> None:
    child = pod()
    owned = owned_by(child, owner())
    assert "ownerReferences" not in child["metadata"], "what was given is not changed"
    assert owned["metadata"]["ownerReferences"] == [
        {
            "apiVersion": "example.com/v1",
            "kind": "Foo",
            "name": "web",
            "uid": "u-1",
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
    found = controller_of(KubeObject.from_dict(owned))
    assert found is not None
    assert found.uid == "u-1"
    assert owned_by(owned, owner()) == owned
    assert controller_of(KubeObject.from_dict(child)) is None


def test_an_object_has_one_controller_and_any_number_of_owners() -> None:
    owned = owned_by(pod(), owner())
    with pytest.raises(ValueError, match="'a', which is already controlled by Foo web"):
        owned_by(owned, owner(uid="u-2", name="other"))
    both = owned_by(owned, owner(uid="u-2", name="other"), controller=False)
    assert [one["controller"] for one in both["metadata"]["ownerReferences"]] == [True, False]


def test_an_owner_in_another_namespace_is_refused_because_the_child_would_be_deleted() -> None:
    with pytest.raises(ValueError, match="cannot own 'a', which is in namespace 'default'"):
        owned_by(pod(), owner(namespace="prod"))
    with pytest.raises(ValueError, match="which is in no namespace"):
        owned_by({"metadata": {"name": "node-1"}}, owner())
    assert owned_by(KubeObject.from_dict(pod()), owner(namespace=""))["metadata"]["ownerReferences"]


def test_an_owner_that_the_server_has_not_made_owns_nothing() -> None:
    with pytest.raises(ValueError, match="no uid"):
        owner_reference(KubeObject.from_dict(pod()))
