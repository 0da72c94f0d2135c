"""The form in which `kinformer watch` shows objects and their changes."""

from __future__ import annotations

from dataclasses import dataclass

from kinformer import KubeObject
from kinformer.cli.output.columns import Order
from kinformer.cli.output.differences import NOISE
from kinformer.cli.usage import UsageError
from kinformer.objects import showable

__all__ = ["Manner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """The form in which a watch is shown.

    Attributes:
        output: "table", "wide", "name", "json", "jsonl" or "yaml". A watch writes a line or a document for each event,
            so "json" and "jsonl" are then the same.
        diff: Show the differences of updates.
        all_fields: Keep managedFields, and leave nothing out of differences.
        plain: Write lines on a terminal too, instead of a table that changes in place.
        changes_only: Leave out the objects that exist when the watch begins.
        sort_by: The path whose values give the order, or None for namespace and name.
        show_labels: Add a column of the labels.
        headers: False omits the column names.
        show_secrets: Print the values of Secrets as JSON or YAML.
    """

    output: str = "table"
    diff: bool = False
    all_fields: bool = False
    plain: bool = False
    changes_only: bool = False
    sort_by: str | None = None
    show_labels: bool = False
    headers: bool = True
    show_secrets: bool = False

    def __post_init__(self) -> None:
        if self.diff and self.output in ("name", "yaml"):
            raise UsageError(f"--diff cannot be combined with -o {self.output}")
        if self.show_secrets and self.output not in ("json", "jsonl", "yaml"):
            raise UsageError(f"--show-secrets cannot be combined with -o {self.output}: use json, jsonl or yaml")
        _ = self.order

    @property
    def is_table(self) -> bool:
        """True if objects are rows of columns."""
        return self.output in ("table", "wide")

    def shown(self, obj: KubeObject) -> KubeObject:
        """Return an object as it is printed: a Secret without its values, unless they were asked for."""
        return obj if self.show_secrets else showable(obj)

    @property
    def noise(self) -> frozenset[str] | None:
        """The paths that differences leave out, or None if no differences are shown."""
        if not self.diff:
            return None
        return frozenset() if self.all_fields else NOISE

    @property
    def order(self) -> Order | None:
        """The order of the objects, or None for namespace and name."""
        try:
            return None if self.sort_by is None else Order(self.sort_by)
        except ValueError as error:
            raise UsageError(f"invalid --sort-by: {error}") from None
