"""Definitions that many clusters have, with rules on values of any size."""

from __future__ import annotations

from typing import Any

from tests.conformance.site import Site
from tests.conformance.test_custom import DEFINITIONS
from tests.conformance.test_expressions import Kind

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}


def ruled(schema: dict[str, Any], *rules: str) -> dict[str, Any]:
    """Return a schema with rules."""
    return {**schema, "x-kubernetes-validations": [{"rule": rule} for rule in rules]}


def object_of(**fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields}


LABELS = {"type": "object", "additionalProperties": TEXT}
SELECTOR = object_of(
    matchLabels=LABELS,
    matchExpressions={
        "type": "array",
        "items": object_of(key=TEXT, operator=TEXT, values={"type": "array", "items": TEXT}),
    },
)
PUBLISHED = [
    # an object that cannot be changed: VolumeGroupSnapshot, TrainJob
    ruled(SELECTOR, "self == oldSelf"),
    ruled(object_of(name=TEXT, kind=TEXT, template=SELECTOR), "self == oldSelf", "!has(self.kind) || self != oldSelf"),
    {
        "type": "object",
        "additionalProperties": ruled(SELECTOR, "self == oldSelf"),
    },
    # lists of objects, without duplicates: MachineDrainRule
    ruled(
        {"type": "array", "maxItems": 32, "items": object_of(selector=SELECTOR, clusterSelector=SELECTOR)},
        "self.all(x, self.exists_one(y, x == y))",
    ),
    ruled(
        {"type": "array", "items": object_of(source=TEXT, target=SELECTOR)},
        "self.all(one, has(one.target) && one.target == self[0].target)",
    ),
    # keys of labels and annotations: Istio, Gateway API
    ruled(
        {"type": "object", "maxProperties": 4096, "additionalProperties": {"type": "string", "maxLength": 63}},
        "self.all(key, !key.contains('*'))",
        "self.all(key, key.size() != 0)",
        "self.all(key, !self[key].contains('*'))",
    ),
    ruled(
        {"type": "object", "maxProperties": 128, "additionalProperties": NUMBER},
        "self.all(key, size(key) < 63 && key.matches('^[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?$'))",
        "self.all(key, key.split('/')[0].size() < 253)",
    ),
    ruled(LABELS, "self.all(key, key == 'a' || key.startsWith('b') || key in ['c'])"),
    ruled(LABELS, "self.exists(key, value, key != value && value.endsWith(key))"),
    # maps as a whole
    ruled(LABELS, "self == oldSelf"),
    ruled({"type": "object", "additionalProperties": SELECTOR}, "self.all(key, self[key] == oldSelf[key])"),
    # values whose size the format limits
    ruled({"type": "array", "items": {"type": "string", "format": "date-time"}}, "self.all(one, one == self[0])"),
]


async def test_published_definitions_with_rules_are_taken(site: Site) -> None:
    kind = Kind(site)
    for schema in PUBLISHED:
        body = kind.definition({"rule": "true"}, schema=object_of(x=schema))
        answer = await site.post(f"{DEFINITIONS}?dryRun=All", body)
        assert answer.status == 201, (schema, answer.body)
