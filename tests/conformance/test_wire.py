"""The recorded requests, sent to a real server again: it answers as it was recorded.

The embedded server has the same test in the ordinary suite (tests/apiserver/test_wire.py), in virtual time.
"""

from __future__ import annotations

import pytest

from tests.conformance.conftest import StartControlPlane
from tests.support.wire_replay import CoreReplay, CustomReplay

# The server of vectors.jsonl had no aggregator, and so no /apis.
WITHOUT_AGGREGATOR = frozenset({"groups", "agg"})


@pytest.mark.kubernetes("1.36", "they were recorded on that one")
async def test_recorded_requests_are_answered_as_recorded(start_control_plane: StartControlPlane) -> None:
    control_plane = await start_control_plane(users={"user-token": "user"})
    differences = await CoreReplay(control_plane).run()
    differences += await CustomReplay(control_plane).run(left_out=WITHOUT_AGGREGATOR)
    assert not differences, "\n".join(differences)
