"""The state of a pod as a value; its words are held against kubectl's in tests/cli/test_text.py."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from typing import Any

import pytest

from kinformer import KubeObject
from kinformer.objects import PodState


def pod(**status: Any) -> dict[str, Any]:
    spec = {
        "containers": [{"name": "main"}, {"name": "side"}],
        "readinessGates": [{"conditionType": "example.com/a"}, {"conditionType": "example.com/b"}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1"}, "spec": spec, "status": status}


def container(name: str, ended: str, restarts: int) -> dict[str, Any]:
    last = {"terminated": {"finishedAt": ended}}
    return {"name": name, "ready": True, "restartCount": restarts, "state": {"running": {}}, "lastState": last}


def test_it_counts_containers_restarts_and_gates() -> None:
    document = pod(
        phase="Running",
        conditions=[{"type": "example.com/b", "status": "True"}],
        containerStatuses=[
            container("main", "2026-01-01T10:00:00Z", 2),
            container("side", "2026-01-01T12:00:00Z", 1),
        ],
    )
    state = PodState.of(document)
    assert state == PodState(
        reason="Running",
        ready=2,
        total=2,
        restarts=3,
        last_restart=datetime(2026, 1, 1, 12, tzinfo=UTC),
        open_gates=1,
        gates=2,
    )
    assert PodState.of(KubeObject.from_dict(document)) == state
    with pytest.raises(FrozenInstanceError):
        state.ready = 1  # type: ignore[misc]


@pytest.mark.parametrize("ended", ["", "yesterday"])
def test_a_time_that_cannot_be_read_is_none(ended: str) -> None:
    state = PodState.of(pod(phase="Running", containerStatuses=[container("main", ended, 2)]))
    assert (state.restarts, state.last_restart) == (2, None)
