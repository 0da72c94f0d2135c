"""The estimated cost of rules, which decides whether a definition is taken."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.site import Site
from tests.conformance.test_custom import DEFINITIONS
from tests.conformance.test_expressions import SHORT, Kind
from tests.conformance.versions import Minor

LONG = {"type": "string", "maxLength": 253}
TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
TAGS = {"type": "array", "maxItems": 3, "items": SHORT}
FIELDS: dict[str, Any] = {
    "n": NUMBER,
    "s": SHORT,
    "long": LONG,
    "when": {"type": "string", "format": "date-time"},
    "span": {"type": "string", "format": "duration"},
    "data": {"type": "string", "format": "byte", "maxLength": 50},
    "kind": {"type": "string", "enum": ["One", "Another"]},
    "port": {"x-kubernetes-int-or-string": True, "maxLength": 20},
    "o": {"type": "object", "properties": {"s": SHORT, "namespace": SHORT}},
    "texts": {"type": "array", "maxItems": 9, "items": SHORT},
    "ints": {"type": "array", "maxItems": 9, "items": NUMBER},
    "map": {"type": "object", "maxProperties": 7, "additionalProperties": LONG},
    "items": {
        "type": "array",
        "maxItems": 8,
        "items": {
            "type": "object",
            "properties": {"name": LONG, "tags": TAGS},
        },
    },
}
# Each is repeated so often that it just exceeds the limit, so that the refusal tells its cost to the unit.
PRICED = [
    (1442858, "self.n == oldSelf.n"),
    (673334, "self.s == oldSelf.s"),
    (1442858, "self.o == oldSelf.o"),
    (2020000, "self == oldSelf"),
    (1262500, "self.items == oldSelf.items"),
    (1262500, "self.map == oldSelf.map"),
    (918182, "self.when == oldSelf.when"),
    (1262500, "self.span < oldSelf.span"),
    (841667, "self.data == oldSelf.data"),
    (1262500, "self.kind == oldSelf.kind"),
    (673334, "self.port == oldSelf.port"),
    (12273, "self.long.contains(self.s)"),
    (48326, "self.long.matches('^[a-z]+$')"),
    (1683334, "matches(self.long, '^[a-z]+$')"),
    (673334, "self.long.startsWith(self.s)"),
    (46119, "self.long.find('[0-9]+') == self.s"),
    (47868, "self.long.findAll('[0-9]+').size() > 0"),
    (32166, "self.long.replace('a', self.s) != self.long"),
    (32166, "self.long.replace(self.s, 'a') != self.long"),
    (2373, "self.long.split(',').all(part, part != '')"),
    (43914, "self.long.split(',', 3).exists(part, part == self.s)"),
    (66014, "self.texts.join(',') != self.long"),
    (28858, "self.texts.map(t, t + self.s).all(t, t != self.long)"),
    (43163, "self.texts.filter(t, t != self.s).size() == 2"),
    (117442, "self.texts.isSorted()"),
    (105209, "self.texts.max() == self.s"),
    (673334, "self.ints.sum() > 0"),
    (673334, "self.ints.indexOf(3) > 0"),
    (113484, "self.texts.indexOf(self.s) > 0"),
    (53158, "self.texts.sort() == self.texts"),
    (55192, "self.texts.distinct().size() == self.texts.size()"),
    (360715, "self.texts.reverse()[0] == self.s"),
    (348276, "self.ints.slice(1, 3).all(i, i > 0)"),
    (246342, "[self.ints, self.ints].flatten().all(i, i > 0)"),
    (183637, "lists.range(5).all(i, i < self.n)"),
    (113484, "sets.contains(self.texts, self.texts)"),
    (59412, "sets.equivalent(self.texts, self.texts)"),
    (631250, "self.s in self.texts"),
    (1262500, "self.s in self.map"),
    (210417, "self.map.all(k, k.contains(self.s))"),
    (210417, "self.map.all(k, k.matches('^[a-z]+$'))"),
    (12900, "self.map.all(k, self.map[k] == self.long)"),
    (246342, "self.map.all(k, v, v.startsWith(k))"),
    (210417, "self.map.all(k, k == oldSelf.s)"),
    (31762, "self.items.all(a, self.items.exists_one(b, a == b))"),
    (1449, "self.items.all(a, self.items.exists_one(b, a.name == b.name))"),
    (90, "self.items.all(a, a.tags.all(t, t != a.name))"),
    (54595, "self.items.map(a, a.name).exists(m, m == self.long)"),
    (62733, "self.items.transformList(i, a, a.tags.size() + i).sum() > 0"),
    (505000, "self.items[0].name == self.items[1].tags[0]"),
    (561112, "has(self.o.s) && self.o.s == self.s"),
    (631250, "self.?s.orValue('none') == self.s"),
    (1, "self.?s.optMap(x, x + self.s).hasValue()"),
    (90179, "(self.n > 1 ? self.long : self.s) == self.long"),
    (631250, "dyn(self.s) == self.long"),
    (85594, "quantity(self.s).isGreaterThan(quantity(self.long))"),
    (85594, "quantity(self.s) == quantity(self.long)"),
    (85594, "ip(self.s) == ip(self.long)"),
    (48558, "ip.isCanonical(self.long)"),
    (83472, "cidr(self.long).containsIP(self.s)"),
    (81452, "cidr(self.long).containsCIDR(self.s)"),
    (46119, "url(self.s) == url(self.long)"),
    (420834, "url(self.s).getHost() == self.s"),
    (85594, "semver(self.s).isLessThan(semver(self.long))"),
    (3088, "format.dns1123Label().validate(self.long).hasValue()"),
    (841667, "format.dns1123Label() == format.uuid()"),
    (31270, "self.long.lowerAscii() + self.s == self.long"),
    (19349, "string(bytes(self.long)) == self.s"),
    (439131, "strings.quote(self.s) == self.s"),
    (388462, "'%s'.format([self.s]) == self.s"),
    (1442858, "type(self.port) == int"),
]


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
TOO_EXPENSIVE = [
    # the same rules on values that may be as large as a request
    ruled({"type": "array", "items": object_of(name=TEXT)}, "self.all(x, self.exists_one(y, x == y))"),
    ruled({"type": "array", "items": object_of(name=TEXT)}, "self.all(x, x.name == self[0].name)"),
    ruled(LABELS, "self.all(key, self[key].contains(key + 'a'))"),
    ruled(LABELS, "self.all(key, self[key].matches('^a+$'))"),
    ruled(LABELS, "self.map(key, key).all(key, key.matches('^a+$'))"),
    ruled(object_of(namespace=TEXT), "self.namespace.contains('a')"),
    ruled(object_of(namespace=SHORT), "self.namespace == self.namespace"),
    ruled(object_of(address=SHORT), "ip(self.address) != ip(self.address)"),
    ruled(object_of(value=SHORT), "self.?value.optMap(x, x + 'a').hasValue()"),
    # a loop over a field of an item, in which another field of the item is read, counts as often as that one is long
    ruled(
        object_of(items={"type": "array", "maxItems": 90, "items": object_of(name=LONG, tags=TAGS)}),
        "self.items.all(a, self.items.exists(b, a.tags.all(t, t != a.name)))",
    ),
]


async def test_published_definitions_with_rules_are_taken(site: Site) -> None:
    kind = Kind(site)
    for schema in PUBLISHED:
        body = kind.definition({"rule": "true"}, schema=object_of(x=schema))
        answer = await site.post(f"{DEFINITIONS}?dryRun=All", body)
        assert answer.status == 201, (schema, answer.body)


async def test_rules_on_values_of_unlimited_size_are_refused(site: Site) -> None:
    kind = Kind(site)
    for schema in TOO_EXPENSIVE:
        await kind.refused({"rule": "true"}, schema=object_of(x=schema))


@pytest.mark.kubernetes("1.33", "its CEL has no loops with two variables")
async def test_a_refusal_tells_the_estimated_cost_of_a_rule(site: Site, kubernetes: Minor) -> None:
    kind = Kind(site)
    for times, expression in PRICED:
        repeated = {"type": "array", "maxItems": times, "items": NUMBER}
        rule = {"rule": f"self.times.all(i, {expression})"}
        await kind.refused(rule, schema=object_of(**FIELDS, times=repeated))
