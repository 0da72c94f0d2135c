"""Random applies, patches and updates of an object, with the empties and nulls that people write."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.conformance.site import APPLY, MERGE, STRATEGIC

Object = dict[str, Any]
Maker = Callable[[], Any]

GROUP = "random.example.com"
TEXT = {"type": "string"}
TEXTS = {"type": "array", "items": TEXT}
ITEM = {
    "type": "object",
    "required": ["key"],
    "properties": {
        "key": TEXT,
        "value": TEXT,
        "filled": {"type": "string", "default": "filled"},
        "set": {**TEXTS, "x-kubernetes-list-type": "set"},
    },
}
FIELDS = {
    "type": "object",
    "properties": {
        "text": TEXT,
        "nullable": {"type": "string", "nullable": True},
        "filled": {"type": "string", "default": "filled"},
        "map": {"type": "object", "additionalProperties": TEXT},
        "nullableMap": {"type": "object", "nullable": True, "additionalProperties": {**TEXT, "nullable": True}},
        "atomicMap": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": TEXT},
        "list": TEXTS,
        "set": {**TEXTS, "x-kubernetes-list-type": "set"},
        "items": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["key"],
            "items": ITEM,
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"known": TEXT}},
    },
}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"randoms.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "randoms", "singular": "random", "kind": "Random", "listKind": "RandomList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": FIELDS, "status": FIELDS}}},
            }
        ],
    },
}


@dataclass(frozen=True, slots=True)
class Write:
    """One request: how it is sent, below the path of the object, and its body."""

    method: str
    query: str
    body: Object
    content_type: str = "application/json"


class RandomWrites:
    """A source of writes of one object; the same for the same seed."""

    def __init__(self, seed: int, kind: str) -> None:
        self._random = random.Random(seed)
        self._kind = kind
        self._make: Callable[[], Object] = getattr(self, f"_{kind}")

    def write(self, *, first: bool) -> Write:
        """The next write; the first makes the object."""
        body, manager, kind = self._make(), self._random.choice(["one", "two", "three"]), self._random.random()
        below = ""
        if self._kind == "custom" and not first and self._random.random() < 0.15:
            below = "/status"
            body.setdefault("status", {"text": "1"})
        if first or kind < 0.6:
            force = self._random.choice(["true", "true", "false"])
            return Write("PATCH", f"{below}?fieldManager={manager}&force={force}", body, APPLY)
        if kind < 0.85:
            body = {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}
            merged = MERGE if self._kind == "custom" else STRATEGIC
            return Write("PATCH", f"{below}?fieldManager={manager}", body, merged)
        if kind < 0.96:
            return Write("PUT", f"{below}?fieldManager={manager}", body)
        return Write("PATCH", f"?fieldManager={manager}", {"metadata": {"managedFields": [{}]}}, MERGE)

    # -- objects --------------------------------------------------------------------------------------------------

    def _configmap(self) -> Object:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": self._metadata(self._maybe)}
        return body | self._some(data=self._map, binaryData=lambda: self._maybe(lambda: {"x": "AAAA"}, {}))

    def _deployment(self) -> Object:
        labels = {"app": "a", **self._some(x=self._letter)}
        pod = {"containers": [self._container(name) for name in self._sample("mn", least=1)]}
        pod |= self._some(
            nodeSelector=self._map,
            tolerations=lambda: self._maybe(lambda: [{"key": self._letter(), "operator": "Exists"}], []),
            volumes=lambda: self._maybe(lambda: [{"name": name, "emptyDir": {}} for name in self._sample("vw")], []),
            securityContext=lambda: self._maybe(lambda: {"runAsUser": self._random.randint(0, 1)}, {}),
        )
        template = {"metadata": {"labels": labels}, "spec": pod}
        spec: Object = {"selector": {"matchLabels": {"app": "a"}}, "template": template}
        spec |= self._some(
            replicas=lambda: self._maybe(lambda: self._random.randint(0, 3), None),
            strategy=lambda: self._maybe(lambda: {"type": "RollingUpdate"}, {}),
            paused=lambda: self._random.random() < 0.5,
        )
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": self._metadata(self._maybe), "spec": spec}

    def _container(self, name: str) -> Object:
        number = self._random.randint(1, 3)
        return {"name": name, "image": f"registry.invalid/{name}:{number}"} | self._some(
            args=self._letters,
            env=lambda: self._maybe(lambda: [{"name": one, "value": self._letter()} for one in self._sample("AB")], []),
            ports=lambda: self._maybe(lambda: [{"containerPort": 80}, {"containerPort": 81}][:number], []),
            resources=lambda: self._maybe(lambda: {"limits": self._maybe(lambda: {"cpu": str(number)}, {})}, {}),
            securityContext=lambda: self._maybe(lambda: {"runAsNonRoot": number > 1}, {}),
        )

    def _custom(self) -> Object:
        # A real server keeps an empty map of labels that a custom object was given, and takes its loss for a change.
        body = {"apiVersion": f"{GROUP}/v1", "kind": "Random", "metadata": self._metadata(lambda make, empty: make())}
        return body | self._some(spec=self._fields, status=self._fields)

    def _fields(self) -> Object:
        return self._some(
            text=lambda: self._maybe(self._letter, ""),
            nullable=lambda: self._maybe(self._letter, ""),
            filled=lambda: self._maybe(self._letter, ""),
            map=self._map,
            nullableMap=lambda: self._maybe(lambda: {"a": self._maybe(self._letter, "")}, {}),
            atomicMap=self._map,
            list=self._letters,
            set=self._letters,
            items=lambda: self._maybe(lambda: [self._item(key) for key in self._sample("xyz")], []),
            free=lambda: self._maybe(lambda: {"a": self._free(2), "b": self._free(2)}, {}),
        )

    def _item(self, key: str) -> Object:
        some = self._some(
            value=lambda: self._maybe(self._letter, ""), filled=lambda: self._maybe(self._letter, ""), set=self._letters
        )
        return {"key": key, **some}

    def _free(self, depth: int) -> Any:
        kind = self._random.random()
        if not depth or kind < 0.4:
            return self._random.choice([None, {}, [], "x", 2])
        if kind < 0.8:
            return {name: self._free(depth - 1) for name in self._sample("ab")}
        return [self._free(depth - 1)]

    def _metadata(self, maybe: Callable[[Maker, Any], Any]) -> Object:
        def some(make: Maker, least: Any) -> Any:
            return maybe(lambda: make() or least, type(least)())

        return {"name": "a"} | self._some(
            labels=lambda: some(lambda: {key: self._letter() for key in self._sample("ab")}, {"c": "x"}),
            annotations=lambda: some(lambda: {key: self._letter() for key in self._sample("ab")}, {"c": "x"}),
            finalizers=lambda: some(lambda: [f"x.io/{one}" for one in self._sample("abc")], ["x.io/d"]),
        )

    # -- values ---------------------------------------------------------------------------------------------------

    def _some(self, **makers: Maker) -> Object:
        return {name: make() for name, make in makers.items() if self._random.random() < 0.4}

    def _maybe(self, make: Maker, empty: Any) -> Any:
        """A value, or now and then a null or an empty one."""
        kind = self._random.random()
        return None if kind < 0.12 else empty if kind < 0.24 else make()

    def _letter(self) -> str:
        return self._random.choice("123")

    def _sample(self, names: str, *, least: int = 0) -> list[str]:
        return self._random.sample(names, self._random.randint(least, len(names)))

    def _letters(self) -> Any:
        return self._maybe(lambda: self._sample("abcd"), [])

    def _map(self) -> Any:
        return self._maybe(lambda: {key: self._letter() for key in self._sample("abc")}, {})
