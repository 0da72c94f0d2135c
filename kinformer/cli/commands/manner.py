"""The form in which `kinformer watch` shows objects and their changes."""

from __future__ import annotations

from dataclasses import dataclass

from kinformer import KubeObject
from kinformer.cli.output.columns import ColumnSet, Order, custom_columns
from kinformer.cli.output.template import JSONTemplate
from kinformer.cli.usage import UsageError
from kinformer.contrib.changes.differences import NOISE
from kinformer.objects import showable

__all__ = ["Manner"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """The form in which a watch is shown.

    Attributes:
        output: The value of `-o`, such as "table", "json", "jsonpath=TEMPLATE" or "custom-columns=COLUMNS". A watch
            writes a line or a document for each event, so "json" and "jsonl" are then the same.
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
        if self.diff and self.form in ("name", "yaml", "jsonpath"):
            raise UsageError(f"--diff cannot be combined with -o {self.form}")
        if self.show_secrets and self.form not in ("json", "jsonl", "yaml", "jsonpath"):
            raise UsageError(
                f"--show-secrets cannot be combined with -o {self.form}: use json, jsonl, yaml or jsonpath"
            )
        _ = self.order, self.template, self.columns  # raises UsageError for an invalid one, before any request

    @property
    def form(self) -> str:
        """The output without what follows `=`."""
        return self.output.partition("=")[0]

    @property
    def is_table(self) -> bool:
        """True if objects are rows of columns."""
        return self.form in ("table", "wide", "custom-columns")

    @property
    def template(self) -> JSONTemplate | None:
        """The template of `-o jsonpath`."""
        if self.form != "jsonpath":
            return None
        try:
            return JSONTemplate(self.output.partition("=")[2])
        except ValueError as error:
            raise UsageError(f"invalid -o jsonpath: {error}") from None

    @property
    def columns(self) -> ColumnSet | None:
        """The columns of `-o custom-columns`."""
        if self.form != "custom-columns":
            return None
        try:
            return custom_columns(self.output.partition("=")[2])
        except ValueError as error:
            raise UsageError(f"invalid -o custom-columns: {error}") from None

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
