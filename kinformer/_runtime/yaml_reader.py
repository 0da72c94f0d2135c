"""YAML from outside: limited in size, depth, aliases and merges, and every failure is a ConfigError.

PyYAML's safe loader runs no code, but a few hundred bytes of aliases or merge keys become millions of values, a tag
such as `!!int ""` raises an IndexError, and a number with a million digits takes minutes. This reader refuses all of
these before it builds a value. Its values are those of Kubernetes (sigs.k8s.io/yaml, over goyaml.v2), which PyYAML
reads otherwise: `y` is true, `1:30` and an unquoted date are strings, `1e3`, `08` and `0o17` are numbers, `1.0` is 1.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator
from functools import cache
from math import isinf
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from kinformer.exceptions import ConfigError

if TYPE_CHECKING:
    import yaml

__all__ = ["MANY_VALUES", "read_yaml", "read_yaml_documents", "reading_as_kubernetes"]

_BYTES = 16 * 1024 * 1024
MANY_VALUES = 200_000  # the most values of all documents, after aliases are expanded
_DEPTH = 100  # the most mappings and lists in each other
_DIGITS = 200  # characters of a number
_TAG = "tag:yaml.org,2002:"
_NULLS = ("", "~", "null", "Null", "NULL")
_BOOL = re.compile("[yYnN]|yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF")
_NO_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_NUMBER = re.compile(r"[-+0-9][-+0-9a-fA-FoOxX_.]*|\.[0-9][-+0-9eE]*")
_INTEGER = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hex>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)"
    r"|(?P<decimal>0|[1-9][0-9]*))"
)
_BASES = (("hex", 16), ("binary", 2), ("octal", 8))
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_TAGS = frozenset(
    _TAG + name for name in ("str", "int", "float", "bool", "null", "map", "seq", "merge", "timestamp", "binary")
)


def read_yaml(text: bytes | str, where: str, *, what: str = "YAML", most_values: int = MANY_VALUES) -> Any:
    """Return the value of a document, or None if it is empty.

    It may take seconds for a large document, so call it in a thread.

    Args:
        text: The document.
        where: The place of the document, with which each error begins: a file, or a Secret and its key.
        what: The expected content in errors, such as "a kubeconfig".
        most_values: The maximum number of values, including keys, after aliases are expanded.

    Raises:
        ConfigError: It is not YAML, has more than one document, or exceeds a limit. The message names the line. It
            quotes nothing of the content, which may be secret.
    """
    documents = list(read_yaml_documents(text, where, what=what, most_values=most_values))
    if len(documents) > 1:
        raise ConfigError(f"{where}: not {what}: expected one document, got {len(documents)}")
    return documents[0] if documents else None


def read_yaml_documents(
    text: bytes | str, where: str, *, what: str = "YAML", most_values: int = MANY_VALUES
) -> Iterator[Any]:
    """Yield the value of each document. Arguments and errors are as for `read_yaml`."""
    import yaml  # the import takes 20 ms, and few programs need it

    if len(text) > _BYTES:
        raise ConfigError(f"{where}: not {what}: longer than {_BYTES // 1024 // 1024} MiB")
    loader_class = _loader_class()
    try:
        _check_depth(yaml.parse(text, Loader=loader_class), most_values)
        loader = loader_class(text)
        try:
            limits = _Limits(most_values)
            while loader.check_node():
                node = loader.get_node()
                limits.check(node)
                yield _constructed(loader, node)
        finally:
            loader.dispose()
    except _LimitError as error:
        raise ConfigError(f"{where}: {_line(error.mark)}not {what}: {error}") from None
    except yaml.YAMLError as error:
        # The error's message quotes lines of the document, which may be secrets, so it must not become the cause.
        raise ConfigError(
            f"{where}: {_line(getattr(error, 'problem_mark', None))}not YAML: {_problem(error)}"
        ) from None
    except (UnicodeError, RecursionError) as error:
        raise ConfigError(f"{where}: not {what}: {type(error).__name__}") from None


@cache
def _loader_class() -> Any:
    import yaml

    return reading_as_kubernetes(getattr(yaml, "CSafeLoader", yaml.SafeLoader))


def reading_as_kubernetes(loader: Any) -> Any:
    """Return a class of PyYAML's loaders whose plain scalars have the types and values of sigs.k8s.io/yaml."""
    import yaml

    class Loader(loader):  # type: ignore[misc]
        bool_values: ClassVar[dict[str, bool]] = {**loader.bool_values, "y": True, "n": False}

        def resolve(self, kind: object, value: str, implicit: tuple[bool, bool]) -> object:
            if kind is yaml.ScalarNode and implicit[0]:
                return f"{_TAG}{_type_of(value)}"
            return super().resolve(kind, value, implicit)

        def construct_number(self, node: yaml.ScalarNode) -> int | float:
            number, is_whole = _number(node.value), _INTEGER.fullmatch(node.value.replace("_", ""))
            if number is None or (node.tag == f"{_TAG}int" and isinstance(number, float) and not is_whole):
                raise ValueError
            return number

        def construct_text(self, node: yaml.ScalarNode) -> str:
            return b64decode(node.value).decode()

    Loader.add_constructor(f"{_TAG}int", Loader.construct_number)
    Loader.add_constructor(f"{_TAG}float", Loader.construct_number)
    Loader.add_constructor(f"{_TAG}binary", Loader.construct_text)
    Loader.add_constructor(f"{_TAG}timestamp", Loader.construct_yaml_str)
    Loader.add_constructor(f"{_TAG}merge", Loader.construct_yaml_str)  # for `<<` as a value
    return Loader


def _type_of(text: str) -> str:
    """Return the type of a plain scalar."""
    if text == "<<":
        return "merge"
    if text in _NULLS:
        return "null"
    if _BOOL.fullmatch(text):
        return "bool"
    if _NO_JSON.fullmatch(text):
        return "float"
    if not _NUMBER.fullmatch(text) or (len(text) <= _DIGITS and _number(text) is None):
        return "str"
    return "int" if _INTEGER.fullmatch(text.replace("_", "")) else "float"


def _number(text: str) -> int | float | None:
    """Return the value of a number, or None if it is none, or only a string holds it."""
    digits = text.replace("_", "")
    if (whole := _INTEGER.fullmatch(digits)) is not None:
        base = next((base for name, base in _BASES if whole[name] is not None), 10)
        value = int(whole["sign"] + whole[{16: "hex", 8: "octal", 2: "binary", 10: "decimal"}[base]], base)
        if -(1 << 63) <= value < 1 << 64:
            return value
    if _FLOAT.fullmatch(digits) is None or isinf(number := float(digits)):
        return None
    return int(number) if number.is_integer() and abs(number) < 1 << 63 else number


class _Place(Protocol):
    """A place in a document. The two parsers of PyYAML have a type of their own for it."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


class _LimitError(Exception):
    """A limit that a document exceeds, or a value that cannot be built."""

    def __init__(self, message: str, mark: _Place | None) -> None:
        super().__init__(message)
        self.mark = mark


def _check_depth(events: Iterator[Any], most: int) -> None:
    """Check the nesting before a tree of nodes is built, since that is recursive."""
    import yaml

    depth = 0
    for count, event in enumerate(events):
        if isinstance(event, yaml.events.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.events.CollectionEndEvent):
            depth -= 1
        if depth > _DEPTH:
            raise _LimitError(f"nested more than {_DEPTH} levels deep", event.start_mark)
        if count > 3 * most + 10:  # at most two more events for each value, and two for the document
            raise _LimitError(f"more than {most} values", event.start_mark)


class _Limits:
    """Counts the values of documents as if each alias were written out, which bounds what a merge can add too."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._total = 0

    def check(self, node: yaml.Node) -> None:
        """Count a document. Raises _LimitError at the first limit that it exceeds."""
        self._total += self._weight(node, {})
        if self._total > self._most:
            raise _LimitError(f"more than {self._most} values with its aliases", node.start_mark)

    def _weight(self, node: yaml.Node, known: dict[int, int | None]) -> int:
        import yaml

        if id(node) in known:
            weight = known[id(node)]
            if weight is None:
                raise _LimitError("an alias contains itself", node.start_mark)
            return weight
        known[id(node)] = None
        weight = 1
        if node.tag not in _TAGS:
            raise _LimitError("a value has a tag that JSON has no type for", node.start_mark)
        if isinstance(node, yaml.ScalarNode):
            if node.tag != f"{_TAG}str" and len(node.value) > _DIGITS:
                raise _LimitError("a number is too long", node.start_mark)
        else:
            pairs = isinstance(node, yaml.MappingNode)
            for child in (part for pair in node.value for part in pair) if pairs else node.value:
                weight += self._weight(child, known)
                if weight > self._most:
                    raise _LimitError(f"more than {self._most} values with its aliases", child.start_mark)
        known[id(node)] = weight
        return weight


def _constructed(loader: yaml.SafeLoader, node: yaml.Node) -> object:
    import yaml

    try:
        return loader.construct_document(node)
    except yaml.YAMLError:
        raise
    except Exception as error:  # noqa: BLE001 - a constructor raises any type of error for a value of the wrong form
        mark = _failing(loader, node)
        raise _LimitError(f"a value is not of its type ({type(error).__name__})", mark) from None


def _failing(loader: yaml.SafeLoader, node: yaml.Node) -> _Place:
    """Return the place of the first scalar that cannot be built."""
    import yaml

    pending, seen = [node], {id(node)}
    while pending:
        inner = pending.pop()
        if isinstance(inner, yaml.ScalarNode):
            try:
                loader.construct_document(inner)
            except Exception:  # noqa: BLE001 - this is the one
                return inner.start_mark
            continue
        values = [part for pair in inner.value for part in pair] if isinstance(inner, yaml.MappingNode) else inner.value
        for child in reversed(values):
            if id(child) not in seen:
                seen.add(id(child))
                pending.append(child)
    return node.start_mark


def _line(mark: _Place | None) -> str:
    return f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""


def _problem(error: yaml.YAMLError) -> str:
    from yaml.parser import ParserError
    from yaml.scanner import ScannerError

    # The problem of a grammar error names only punctuation. Other problems may quote a value.
    problem = getattr(error, "problem", None) if isinstance(error, ScannerError | ParserError) else None
    return problem or type(error).__name__
