r"""Templates of `-o jsonpath`, as kubectl reads them: `{range .items[*]}{.metadata.name}{"\n"}{end}`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from kinformer.exceptions import ConfigError
from kinformer.objects.paths.printing import printed
from kinformer.objects.paths.syntax import STRING, PathParser, Step, unquoted, walk

__all__ = ["JSONTemplate"]

_ACTION = re.compile(r"\{\s*")
_END = re.compile(r"\s*\}")
_RANGE = re.compile(r"range\s+")

_Part: TypeAlias = "str | Sequence[Step] | _Range"


class _Range:
    """A part that is repeated for each value at a path.

    Attributes:
        steps: The steps of the path.
        body: The parts to repeat.
        position: Where it begins.
    """

    def __init__(self, steps: Sequence[Step], position: int) -> None:
        self.steps = steps
        self.body: list[_Part] = []
        self.position = position


class JSONTemplate:
    """A template: text, and in braces paths, quoted strings, `range PATH` and `end`.

    Args:
        text: The template.

    Raises:
        ConfigError: The template is invalid. The message names the position.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._parts: list[_Part] = []
        self._open: list[_Range] = []  # while the text is parsed, the ranges whose end is still to come
        position = 0
        while (start := text.find("{", position)) >= 0:
            self._add(text[position:start])
            position = self._action(start)
        if "{" not in text:
            raise ConfigError(f"the template {text!r} has no path in braces, as in {{.metadata.name}}")
        self._add(text[position:])
        if self._open:
            raise ConfigError(
                f"the template {text!r} has no {{end}} for the range at position {self._open[-1].position}"
            )

    def render(self, document: Any) -> str:
        """Return the text for a document. What is missing is empty."""
        return "".join(_rendered(self._parts, document))

    def _add(self, part: _Part) -> None:
        if part != "":
            (self._open[-1].body if self._open else self._parts).append(part)

    def _action(self, start: int) -> int:
        """Parse what is in braces at a position, and return the position behind them."""
        parser = PathParser(self._text, start)
        parser.match(_ACTION)
        if parser.match(_RANGE):
            loop = _Range(self._path(parser), start)
            self._add(loop)
            self._open.append(loop)
        elif parser.take("end"):
            if not self._open:
                raise ConfigError(f"the template {self._text!r} has an {{end}} without a range at position {start}")
            self._open.pop()
        elif quoted := parser.match(STRING):
            self._add(unquoted(quoted.group()))
        else:
            self._add(self._path(parser))
        if parser.match(_END) is None:
            raise parser.unexpected("'}'", "template")
        return parser.position

    def _path(self, parser: PathParser) -> Sequence[Step]:
        if not (parser.take("@") or parser.take("$")) and not self._text.startswith((".", "["), parser.position):
            raise parser.unexpected("a path such as .metadata.name, a quoted string, range or end", "template")
        return parser.path().steps


def _rendered(parts: Iterable[_Part], document: Any) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, _Range):
            for value in walk(document, part.steps):
                yield from _rendered(part.body, value)
        else:
            yield " ".join(map(printed, walk(document, part))) if part or document is not None else "<no value>"
