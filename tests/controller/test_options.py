"""The options of controllers and Leases: the keywords have the names, types and defaults of what keeps them.

Internals: the classes of options and of keywords, which must agree.
"""

from __future__ import annotations

from typing import Any

import pytest

from kinformer import Client, Controller, LeaderElector, Request
from kinformer.controller.options import ControllerKeywords, ControllerOptions
from kinformer.leaderelection.lease import LeaseKeywords, LeaseOptions


async def reconcile(request: Request) -> None:
    return None


@pytest.mark.parametrize(
    ("options", "keywords"), [(ControllerOptions, ControllerKeywords), (LeaseOptions, LeaseKeywords)]
)
def test_keywords_have_the_names_and_types_of_the_fields(options: Any, keywords: Any) -> None:
    hints = {name: hint.__forward_arg__ for name, hint in keywords.__annotations__.items()}
    assert hints == {name: options.__annotations__[name] for name in options.__struct_fields__}


def test_an_unknown_keyword_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match="wokers"):
        Controller(reconcile, wokers=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="duration"):
        LeaderElector(Client.from_url("http://127.0.0.1:1"), namespace="default", name="lock", duration=1)  # type: ignore[call-arg]
