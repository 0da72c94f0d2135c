"""Rules of custom resources in CEL: refusals when a definition is written, and the rules at work."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conformance.site import Site
from tests.conformance.test_custom import DEFINITIONS
from tests.conformance.versions import RECORDED, Minor
from tests.support.waiting import until

SHORT = {"type": "string", "maxLength": 20}
FIELDS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "x": {"type": "number"},
        "s": SHORT,
        "b": {"type": "boolean"},
        "when": {"type": "string", "format": "date-time"},
        "span": {"type": "string", "format": "duration"},
        "data": {"type": "string", "format": "byte", "maxLength": 20},
        "port": {"x-kubernetes-int-or-string": True, "maxLength": 20},
        "maybe": {"type": "string", "nullable": True, "maxLength": 20},
        "list": {"type": "array", "maxItems": 5, "items": {"type": "integer"}},
        "set": {"type": "array", "maxItems": 5, "x-kubernetes-list-type": "set", "items": SHORT},
        "map": {"type": "object", "maxProperties": 5, "additionalProperties": {"type": "integer"}},
        "for": SHORT,
        "a-b.c/d": SHORT,
        "__e__": SHORT,
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "hosts": {
            "type": "array",
            "maxItems": 5,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["host"],
            "items": {
                "type": "object",
                "required": ["host"],
                "properties": {"host": SHORT, "port": {"type": "integer"}},
            },
        },
    },
}
SPEC = {
    "n": 3,
    "x": 1.5,
    "s": "hello",
    "b": True,
    "when": "2024-02-29T12:34:56.789Z",
    "span": "90m",
    "data": "aGk=",
    "port": 80,
    "maybe": None,
    "list": [3, 1, 2],
    "set": ["a", "b"],
    "map": {"one": 1, "two": 2},
    "for": "f",
    "a-b.c/d": "g",
    "__e__": "h",
    "free": {"any": 1},
    "hosts": [{"host": "a", "port": 1}, {"host": "b"}],
}
UNCOMPILED = [
    "self.z == 100",
    "self = 42",
    "self.n +",
    "self.n == 'a'",
    "nothing == 1",
    "nothing(self.n)",
    "self.n",
    "self.s.size",
    "self.s.nothing()",
    "self.n.size() == 1",
    "self.s.startsWith(1)",
    "self.list.all(x, x.y)",
    "self.n.all(x, true)",
    "self.list.all(x + 1, true)",
    "has(self)",
    "has(self.z)",
    "[1, 'a'].size() == 2",
    "{'a': 1, 2: 3}.size() == 2",
    "self.b ? 1 : 'a'",
    "(self.n == 1",
    "self.s.matches('(')",
    "duration('soon') == duration('1s')",
    "timestamp('today') == timestamp('2020-01-01T00:00:00Z')",
    "self.free.any == 1",
    "self.hosts[0].nothing == 1",
    "self.map.one == 'a'",
    "!self.n",
    "-self.s == 1",
    "self.n && self.b",
    "cel.bind(x, 1, x == 1)",
    "quantity(self.n).isInteger()",
    "self.list.isSorted(1)",
    "Thing{a: 1} == Thing{a: 1}",
    "self.n == 1 self.n",
    "int('x') == 1",
    "double('x') == 1.0",
    "bool('x')",
    "uint('-1') == 1u",
    "int(1e300) == 1",
    "bytes('a') == b'a' && timestamp(1) == self.when && 'ä€😀' == nothing",
    "'%d'.format(['a']) == ''",
    "'%s'.format([]) == ''",
    "'%s'.format([1, 2]) == ''",
    "'%z'.format([1]) == ''",
    "'%'.format([1]) == ''",
    "#",
    "'\\q' == 'a'",
    "'abc",
    "99999999999999999999 == 1",
    "self.n == 1 &&\n  self.z == 2",
    "",
    "   ",
]
LATER_CEL = pytest.mark.kubernetes("1.33", "its CEL lacks functions, or takes some of these for too dear")
# Functions that a server of 1.33 does not have; a definition that calls one is refused there.
NEW_FUNCTIONS = re.compile(r"lists\.range|\]\.(sort|flatten|distinct|reverse|slice)\(|[sS]emver\(")

VALUES = [
    # numbers
    "string(self.n + 1)",
    "string(7 / 2)",
    "string(-7 / 2)",
    "string(-7 % 3)",
    "string(7u / 2u)",
    "string(self.x * 2.0)",
    "string(1.0 / 3.0)",
    "string(1e30)",
    "string(1e-9)",
    "string(100000000.0)",
    "string(int(self.x))",
    "string(double(self.n))",
    "string(uint(self.n))",
    "string(int('-5'))",
    "string(1.0 / 0.0)",
    "string(dyn(self.n) == 3.0)",
    "string(1 < 1.5)",
    "string(2u > 1)",
    "string(dyn(1) == dyn('a'))",
    "string(0x1F)",
    "string(-0x1F)",
    "string(.5)",
    "string(1e3)",
    "string(bool('true'))",
    "string(bool('F'))",
    # strings
    "self.s.charAt(1)",
    "self.s.substring(1)",
    "self.s.substring(1, 3)",
    "self.s.upperAscii()",
    "'ABC'.lowerAscii()",
    "string(self.s.indexOf('l'))",
    "string(self.s.lastIndexOf('l'))",
    "string(self.s.indexOf('l', 3))",
    "string(self.s.indexOf('z'))",
    "string(self.s.size())",
    "string('ü€😀'.size())",
    "string(bytes('ü€😀').size())",
    "'\\u00fc\\x41\\101\\n'.trim()",
    "self.s.replace('l', 'L')",
    "self.s.replace('l', 'L', 1)",
    "' a '.trim()",
    "string('a,b'.split(',', 0).size())",
    "string('abc'.contains('b'))",
    "string('abc'.startsWith('ab'))",
    "string('abc'.endsWith('x'))",
    "string('abc'.matches('^a.c$'))",
    "'%s %d %.2f %x %X %o %b %e %%'.format([self.s, self.n, self.x, 255, 255, 8, 5, 1234.5])",
    "'%s %s %s %s %s'.format([[1, 2], {'a': 1}, null, true, duration('90s')])",
    "'abc 123 de'.find('[0-9]+')",
    "'abc'.find('z')",
    "strings.quote('a\"b\\n')",
    "r'\\d'",
    "'''a'b'''",
    '"""c"d"""',
    "string(self.data)",
    "string(self.data.size())",
    # lists and maps
    "string(self.list.sum())",
    "string(self.list.min())",
    "string(self.list.max())",
    "string(self.list.isSorted())",
    "string(self.list.indexOf(1))",
    "string(self.list.lastIndexOf(9))",
    "string([1.5, 2.5].sum())",
    "string([].size())",
    "string(self.list.map(x, x * 2).sum())",
    "string(self.list.filter(x, x > 1).size())",
    "string(self.list.map(x, x > 1, x).sum())",
    "string(self.list.exists(x, x == 2))",
    "string(self.list.all(x, x > 1))",
    "string(self.list.exists_one(x, x > 2))",
    "string(self.list[0])",
    "string(self.map['one'])",
    "string(self.map.two)",
    "string('one' in self.map)",
    "string(3 in self.list)",
    "string(self.map.all(k, self.map[k] > 0))",
    "string(self.map.exists(k, k == 'two'))",
    "string(self.map.size())",
    "string(sets.contains([1, 2, 3], [2]))",
    "string(sets.equivalent([1, 2], [2, 1, 1]))",
    "string(sets.intersects([1], [2]))",
    "string(self.list == [3, 1, 2])",
    "string(self.set == ['b', 'a'])",
    "string(self.set + ['b', 'c'] == ['a', 'b', 'c'])",
    "string(self.hosts.size())",
    "self.hosts[0].host",
    "string(has(self.hosts[1].port))",
    "string(self.hosts.map(h, h.host).size())",
    "string([1, 2] + [3] == [1, 2, 3])",
    "string(dyn({'a': 1}) == {'a': 1.0})",
    "string([1, 2, 3].all(i, v, v == i + 1))",
    "string(lists.range(4).sum())",
    "string([3, 1, 2].sort() == [1, 2, 3])",
    "string([[1], [2]].flatten().size())",
    "string([1, 1, 2].distinct().size())",
    "string([1, 2].reverse()[0])",
    "string([1, 2, 3].slice(1, 3).size())",
    "string({'a': 1, 'b': 2}.transformList(k, v, v).sum())",
    "string({'a': 1}.transformMap(k, v, v + 1)['a'])",
    # optional values and types
    "string(self.?n.orValue(9))",
    "string(self.?b.hasValue())",
    "string(optional.of(1).value())",
    "string(optional.none().hasValue())",
    "string(self.list[?9].orValue(7))",
    "string(self.map[?'one'].orValue(7))",
    "string(optional.of(2).optMap(x, x + 1).value())",
    "string({?'a': optional.none()}.size())",
    "string([?optional.of(1), ?optional.none()].size())",
    "string(type(self.n) == int)",
    "string(type(self.port) == int)",
    "string(type(self.s) == string)",
    "string(type(null) == null_type)",
    "string(dyn(self.maybe) == null)",
    "string(has(self.maybe))",
    "string(has(self.s))",
    "self.__for__",
    "self.a__dash__b__dot__c__slash__d",
    "self.__underscores__e__underscores__",
    "string(type(self.port) == int ? self.port : int(self.port))",
    # times
    "string(self.when)",
    "string(self.when.getFullYear())",
    "string(self.when.getMonth())",
    "string(self.when.getDate())",
    "string(self.when.getDayOfWeek())",
    "string(self.when.getDayOfYear())",
    "string(self.when.getHours())",
    "string(self.when.getMilliseconds())",
    "string(self.when.getHours('+02:00'))",
    "string(self.when.getHours('America/New_York'))",
    "string(self.when + self.span)",
    "string(self.span)",
    "string(self.span.getMinutes())",
    "string(self.span.getHours())",
    "string(duration('1h30m') == self.span)",
    "string(timestamp('2024-01-01T00:00:00Z') < self.when)",
    "string(self.when - timestamp('2024-02-29T12:34:56Z'))",
    "string(int(self.when))",
    # Kubernetes' own
    "string(quantity('1.5Gi').isInteger())",
    "string(quantity('500m').asApproximateFloat())",
    "string(quantity('2k').asInteger())",
    "string(quantity('1Gi').isGreaterThan(quantity('1G')))",
    "string(quantity('1000m') == quantity('1'))",
    "string(sign(quantity('-1')))",
    "string(quantity('1').add(quantity('500m')).sub(1).compareTo(quantity('0.5')))",
    "string(isQuantity('x'))",
    "string(isQuantity('10Mi'))",
    "string(ip('10.0.0.1').family())",
    "string(ip('::1').isLoopback())",
    "string(ip('2001:DB8::1'))",
    "string(isIP('1.2.3'))",
    "string(ip('224.0.0.1').isLinkLocalMulticast())",
    "string(ip('169.254.1.1').isLinkLocalUnicast())",
    "string(ip('192.168.0.1').isGlobalUnicast())",
    "string(ip.isCanonical('2001:DB8::1'))",
    "string(ip('0.0.0.0').isUnspecified())",
    "string(isIP('::ffff:1.2.3.4'))",
    "string(isIP('01.2.3.4'))",
    "string(cidr('10.0.0.5/8').masked())",
    "string(cidr('10.0.0.0/8').containsIP('10.1.2.3'))",
    "string(cidr('10.0.0.0/8').prefixLength())",
    "string(cidr('10.0.0.0/8').containsCIDR(cidr('10.1.0.0/16')))",
    "string(cidr('10.0.0.0/8').ip())",
    "string(isCIDR('10.0.0.0/33'))",
    "url('https://user@a.example:8443/b%20c?x=1&x=2&y').getHost()",
    "url('https://[::1]:80/').getHostname()",
    "url('/p').getEscapedPath()",
    "url('https://a:8443/b c').getPort()",
    "url('https://a:8443/b c').getEscapedPath()",
    "string(url('https://a/?x=1&x=2').getQuery()['x'].size())",
    "string(isURL('../x'))",
    "string(isURL('https://a'))",
    "url('https://a').getScheme()",
    "string(format.dns1123Label().validate('a-b').hasValue())",
    "string(format.named('uuid').hasValue())",
    "string(format.named('x').hasValue())",
    "string(format.date().validate('2024-01-01').hasValue())",
    "string(format.byte().validate('a').hasValue())",
    "string(format.uri().validate('/a').hasValue())",
    "string(semver('1.2.3').major())",
    "string(semver('1.2.3-a').isLessThan(semver('1.2.3')))",
    "string(isSemver('v1.0', true))",
    "string(isSemver('v1.0'))",
    # logic
    "string(self.b || self.list[9] == 1)",
    "string(self.list[9] == 1 || self.b)",
    "string(!self.b && self.list[9] == 1)",
    "string(self.list.exists(x, 1 / (x - 1) > 0))",
    "(self.b ? 'yes' : 'no')",
    "string(self.n in [1, 2, 3])",
]
ERRORS = [
    "self.list[9] == 1",
    "self.map['three'] == 1",
    "self.map.three == 1",
    "self.n / 0 == 1",
    "self.n % 0 == 1",
    "9223372036854775807 + self.n == 0",
    "0u - uint(self.n) == 0u",
    "int(self.s) == 1",
    "uint(self.s) == 1u",
    "double(self.s) == 1.0",
    "bool(self.s)",
    "self.port.startsWith('a')",
    "duration(self.s) == duration('1s')",
    "quantity(self.s).isInteger()",
    "ip(self.s).family() == 4",
    "cidr(self.s).prefixLength() == 4",
    "url(self.s).getHost() == ''",
    "self.s.charAt(9) == ''",
    "self.s.substring(9) == ''",
    "self.s.substring(3, 1) == ''",
    "self.list.filter(x, false).min() == 1",
    "optional.none().value() == 1",
    "self.s.matches(self.s + '(')",
    "self.list.all(x, 1 / (x - 3) > 9)",
    "'%d'.format([self.port]) == ''",
    "'%d'.format([dyn('a')]) == ''",
    "dyn(self.n) + 'a' == 'a'",
    "dyn(self.s).exists(x, x == 1)",
    "dyn(self.n).startsWith('a')",
    "dyn(self.s) < 1",
    "self.list[dyn('a')] == 1",
    "dyn([dyn(1), dyn('a')]).max() == 1",
    "dyn(self.n) ? true : false",
    "dyn(self.n) && true",
    "dyn(self.n).field == 1",
    "int(self.x * 1e300) == 1",
]


class Kind:
    """Thing, a kind whose spec has the fields above."""

    def __init__(self, site: Site) -> None:
        self.site = site
        self.group = f"{site.namespace}.example.com"
        self.things = site.of(f"{self.group}/v1", "things")

    def definition(self, *rules: dict[str, Any], schema: dict[str, Any] | None = None) -> dict[str, Any]:
        spec = {**(schema or FIELDS), "x-kubernetes-validations": list(rules)}
        version = {
            "name": "v1",
            "served": True,
            "storage": True,
            "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object"}}}
            },
        }
        names = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"things.{self.group}"},
            "spec": {"group": self.group, "scope": "Namespaced", "names": names, "versions": [version]},
        }

    def thing(self, spec: Any, name: str = "a") -> dict[str, Any]:
        return {"apiVersion": f"{self.group}/v1", "kind": "Thing", "metadata": {"name": name}, "spec": spec}

    async def refused(self, *rules: dict[str, Any], schema: dict[str, Any] | None = None) -> None:
        body = self.definition(*rules, schema=schema)
        answer = (await self.site.post(f"{DEFINITIONS}?dryRun=All", body)).json
        assert answer["kind"] == "Status", rules

    async def defined(self, *rules: dict[str, Any], schema: dict[str, Any] | None = None) -> None:
        await self.site.server.install_crds(self.definition(*rules, schema=schema))


async def test_a_rule_that_cannot_be_compiled_is_refused_with_its_definition(site: Site) -> None:
    kind = Kind(site)
    for rule in (*UNCOMPILED, f"{'(' * 300}self.b{')' * 300}"):
        await kind.refused({"rule": rule})


async def test_the_form_of_a_rule_is_checked(site: Site) -> None:
    kind, holds = Kind(site), "self.n > 0"
    for more in (
        {"message": " "},
        {"message": "a\nb"},
        {"rule": "self.n > 0 &&\nself.n < 9"},
        {"messageExpression": " "},
        {"messageExpression": "self.n"},
        {"messageExpression": "self.z"},
        {"reason": "Because"},
        {"fieldPath": "n"},
        {"fieldPath": ".z"},
        {"fieldPath": " "},
        {"fieldPath": ".list[0]"},
        {"optionalOldSelf": True},
    ):
        await kind.refused({"rule": holds, **more})
    item = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]}
    schema = {"type": "object", "properties": {"list": {"type": "array", "maxItems": 5, "items": item}}}
    await kind.refused({"rule": "true"}, schema=schema)


async def test_a_rule_within_its_costs_is_taken(site: Site) -> None:
    kind = Kind(site)
    bounded = {"type": "array", "maxItems": 725, "items": {"type": "integer"}}
    long = " && ".join(f"!(self.x.size() == {1000 + index})" for index in range(400))
    rules = ("self.x.all(a, self.x.all(b, a == b))", "self.x.isSorted() && self.x.sum() > 0", long)
    await kind.defined(*({"rule": rule} for rule in rules), schema={"type": "object", "properties": {"x": bounded}})
    await site.post(kind.things, kind.thing({"x": [2, 2]}))
    await site.post(kind.things, kind.thing({"x": [2, 1]}))
    await site.post(kind.things, kind.thing({"x": [20] * 725}))
    await site.post(kind.things, kind.thing({}))


@LATER_CEL
async def test_the_functions_of_expressions_say_what_they_say_on_a_real_server(site: Site, kubernetes: Minor) -> None:
    kind = Kind(site)
    known = [expression for expression in VALUES if kubernetes >= RECORDED or not NEW_FUNCTIONS.search(expression)]
    await kind.defined(*({"rule": "false", "messageExpression": expression} for expression in known))
    await site.post(kind.things, kind.thing(SPEC))


@LATER_CEL
async def test_an_expression_that_has_no_value_is_an_error_with_its_cause(site: Site) -> None:
    kind = Kind(site)
    await kind.defined(*({"rule": rule} for rule in ERRORS))
    await site.post(kind.things, kind.thing(SPEC))


async def test_a_rule_names_what_it_says_where_it_says_it(site: Site) -> None:
    kind = Kind(site)
    await kind.defined(
        {"rule": "self.n > 5"},
        {"rule": "self.n > 6", "message": " must be larger "},
        {"rule": "self.n > 7", "messageExpression": "'%d is not enough'.format([self.n])", "message": "unused"},
        {"rule": "self.n > 8", "messageExpression": "string(self.list[9])", "message": "instead"},
        {"rule": "self.n > 9", "messageExpression": "''"},
        {"rule": "self.n > 10", "messageExpression": "'a\\nb'"},
        {"rule": "self.n > 11", "reason": "FieldValueRequired", "fieldPath": ".n"},
        {"rule": "self.n > 12", "reason": "FieldValueForbidden", "fieldPath": ".map['one']"},
        {"rule": "self.n > 13", "reason": "FieldValueDuplicate", "fieldPath": ".hosts"},
        {"rule": "self.n > 14", "reason": "FieldValueInvalid"},
    )
    await site.post(kind.things, kind.thing(SPEC))


async def test_rules_are_held_at_every_depth(site: Site) -> None:
    kind = Kind(site)
    positive = [{"rule": "self > 0"}]
    number = {"type": "integer", "x-kubernetes-validations": positive}
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": SHORT, "n": number},
        "x-kubernetes-validations": [{"rule": "self.name != 'no'"}],
    }
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    schema = {
        "type": "object",
        "properties": {
            "one": number,
            "list": {"type": "array", "maxItems": 9, "items": number},
            "map": {"type": "object", "maxProperties": 9, "additionalProperties": number},
            "items": {"type": "array", "maxItems": 9, "items": item, **keyed},
            "text": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [{"rule": "self.startsWith('a')"}]},
        },
    }
    await kind.defined({"rule": "has(self.one)"}, schema=schema)
    for spec in (
        {"one": 1, "list": [1], "map": {"a": 1}, "items": [{"name": "yes", "n": 1}], "text": "abc"},
        {"one": 0},
        {"one": 1, "list": [1, 0]},
        {"one": 1, "map": {"a": 0}},
        {"one": 1, "items": [{"name": "no", "n": 1}]},
        {"one": 1, "items": [{"name": "yes", "n": 0}]},
        {"one": 1, "text": "b"},
        {},
        {"one": "a"},
        {"one": None},
    ):
        await site.post(f"{kind.things}?dryRun=All", kind.thing(spec))


async def test_rules_see_the_name_and_the_kind_of_an_object(site: Site) -> None:
    kind = Kind(site)
    body = kind.definition()
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [
        {"rule": "self.metadata.name.startsWith('good')", "messageExpression": "self.kind + ' ' + self.metadata.name"},
        {"rule": "self.apiVersion != ''"},
    ]
    await site.server.install_crds(body)
    await site.post(kind.things, kind.thing(SPEC, "good-one"))
    await site.post(kind.things, kind.thing(SPEC, "bad-one"))
    labels = "self.metadata.labels.size() == 0"
    body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-validations"] = [{"rule": labels}]
    await site.post(f"{DEFINITIONS}?dryRun=All", {**body, "metadata": {"name": body["metadata"]["name"]}})


async def test_transition_rules_compare_with_what_was_before(site: Site) -> None:
    kind = Kind(site)
    keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    growing = {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf", "message": "only up"}]}
    once = {"rule": "!oldSelf.hasValue() || self == oldSelf.value()", "optionalOldSelf": True, "message": "set once"}
    item = {"type": "object", "required": ["name"], "properties": {"name": SHORT, "n": growing}}
    schema = {
        "type": "object",
        "properties": {
            "n": growing,
            "fixed": {"type": "string", "maxLength": 9, "x-kubernetes-validations": [once]},
            "items": {"type": "array", "maxItems": 9, "items": item, **keyed},
            "map": {"type": "object", "maxProperties": 9, "additionalProperties": growing},
        },
    }
    await kind.defined({"rule": "!has(oldSelf.n) || has(self.n)"}, schema=schema)
    await site.post(kind.things, kind.thing({"n": 5, "items": [{"name": "a", "n": 5}], "map": {"k": 5}}))
    path = f"{kind.things}/a"
    for patch in (
        {"n": 4},
        {"n": 6},
        {"n": None},
        {"fixed": "x"},
        {"fixed": "y"},
        {"items": [{"name": "b", "n": 1}, {"name": "a", "n": 5}]},
        {"items": [{"name": "b", "n": 0}, {"name": "a", "n": 5}]},
        {"map": {"k": 4}},
        {"map": {"j": 1}},
    ):
        await site.patch(path, {"spec": patch})


async def test_what_a_new_rule_refuses_may_stay_as_it_is(site: Site) -> None:
    kind = Kind(site)
    fields = {"n": {"type": "integer"}, "s": SHORT}
    await kind.defined({"rule": "true"}, schema={"type": "object", "properties": fields})
    await site.post(kind.things, kind.thing({"n": 1, "s": "a"}))
    strict = {"type": "integer", "x-kubernetes-validations": [{"rule": "self > 5"}]}
    await kind.defined({"rule": "true"}, schema={"type": "object", "properties": {**fields, "n": strict}})
    path = f"{kind.things}/a"

    async def is_strict() -> int:
        return (await site.ask("POST", f"{kind.things}?dryRun=All", kind.thing({"n": 1}, "b"), kept=False)).status

    await until(is_strict, 20, holds=lambda status: status == 422)
    await site.patch(path, {"spec": {"s": "b"}})
    await site.patch(path, {"spec": {"n": 2}})
    await site.patch(path, {"spec": {"n": 9}})
    await site.patch(path, {"spec": {"n": 3}})


async def test_fields_with_reserved_names_are_read_with_underscores_and_without(site: Site) -> None:
    kind = Kind(site)
    names = ("namespace", "package", "if", "as", "void", "return")
    below = {"type": "object", "properties": {"import": SHORT}}
    schema = {"type": "object", "properties": {**dict.fromkeys(names, SHORT), "o": below, "const": below}}
    read = [text for name in names for text in (f"self.{name}", f"self.__{name}__", f"self.?{name}.orValue('none')")]
    read += ["self.o.import", "self.const.import", "has(self.namespace) && !has(self.let.import) ? 'yes' : 'no'"]
    for rule in ("self.let == 'a'", "namespace == 'a'", "self.o.namespace == 'a'"):
        await kind.refused({"rule": rule}, schema=schema)
    schema["properties"]["let"] = below
    await kind.defined(*({"rule": "false", "messageExpression": expression} for expression in read), schema=schema)
    spec = {**{name: f"the {name}" for name in names}, "o": {"import": "one"}, "const": {"import": "two"}, "let": {}}
    await site.post(kind.things, kind.thing(spec))
