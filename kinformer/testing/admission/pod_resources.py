"""The requests and limits of a pod, summed over its containers (component-helpers/resource)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from kinformer.objects.units import amount, canonical

__all__ = ["Amounts", "as_amounts", "containers_of", "pod_resources", "shown"]

Object = Mapping[str, Any]
Amounts = dict[str, "Amount"]

_OF_PODS = ("cpu", "memory")  # what spec.resources of a pod may state


class Amount:
    """A quantity that supports addition and keeps its format."""

    __slots__ = ("text", "value")

    def __init__(self, text: str, value: Decimal | None = None) -> None:
        self.text = text
        self.value = amount(text) if value is None else value

    def plus(self, other: Amount, sign: int = 1) -> Amount:
        """Return the sum, in the format of the first operand that is not zero."""
        value = self.value + sign * other.value
        first = self if self.value else other
        binary = first.text.endswith("i")
        return Amount(_written(value, binary=binary), value)

    def __str__(self) -> str:
        return canonical(self.text)


def _written(value: Decimal, *, binary: bool) -> str:
    if value != value.to_integral_value():
        return canonical(f"{format(value.scaleb(3).normalize(), 'f')}m")
    whole = int(value)
    if not binary:
        return canonical(str(whole))
    return canonical(f"{whole // 1024}Ki") if whole % 1024 == 0 and whole else str(whole)


def as_amounts(given: Mapping[str, Any] | None) -> Amounts:
    """Parse a resource list."""
    return {name: Amount(str(quantity)) for name, quantity in (given or {}).items()}


def shown(amounts: Amounts) -> str:
    """Format amounts: `cpu=1,memory=1Gi`."""
    return ",".join(f"{name}={amounts[name]}" for name in sorted(amounts))


def containers_of(spec: Object, *, init: bool = True) -> list[Object]:
    """Return the containers of a pod, and its init containers."""
    return [*(spec.get("containers") or []), *((spec.get("initContainers") or []) if init else [])]


def _add(into: Amounts, more: Amounts) -> None:
    for name, added in more.items():
        into[name] = into[name].plus(added) if name in into else added


def _raise(into: Amounts, other: Amounts) -> None:
    """Replace amounts, in place, by those of `other` that are higher."""
    for name, candidate in other.items():
        if name not in into or candidate.value > into[name].value:
            into[name] = candidate


def _of(containers: Iterable[Object], part: str) -> Iterable[tuple[Object, Amounts]]:
    for container in containers:
        yield container, as_amounts((container.get("resources") or {}).get(part))


def pod_resources(spec: Object, part: str, *, overhead: bool = False) -> Amounts:
    """Return the total `requests` or `limits` of a pod. Init containers run before the others, or alongside them."""
    total: Amounts = {}
    for _, amounts in _of(spec.get("containers") or [], part):
        _add(total, amounts)
    beside: Amounts = {}  # of the sidecars so far, which run on beside the init containers after them
    highest: Amounts = {}
    for container, amounts in _of(spec.get("initContainers") or [], part):
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
            _add(beside, amounts)
            _raise(highest, beside)
        else:
            both = dict(amounts)
            _add(both, beside)
            _raise(highest, both)
    _raise(total, highest)
    whole = as_amounts((spec.get("resources") or {}).get(part))
    total.update({name: stated for name, stated in whole.items() if name in _OF_PODS})
    if overhead and (part == "requests" or total):
        more = as_amounts(spec.get("overhead"))
        _add(total, more if part == "requests" else {name: added for name, added in more.items() if name in total})
    return total
