"""The habits of the docstrings, for mkdocstrings."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import griffe

_PARAGRAPH = re.compile(r"^( *)::\n", re.MULTILINE)  # a line of its own, before an indented block
_ENDING = re.compile(r"(?<=\S)::\n(?=\n)")  # the end of a sentence, before an indented block
# The items below `Args:`, with all names that share a description: `a, b, c: See X`.
_ARGS = re.compile(r"^Args:\n((?: +.*\n?|\n(?= ))+)", re.MULTILINE)
_ITEM = re.compile(r"^    (\*{0,2}\w+(?:,\s+\w+)*): (.*\n?(?:     +\S.*\n?|\n(?=     ))*)", re.MULTILINE)


def readable(text: str, parameters: set[str] | None = None) -> str:
    """The docstring as Markdown: blocks without their `::`, and arguments that share a description each with it.

    Args:
        text: The docstring.
        parameters: Those of a function that takes any further keywords; what is described beside these goes to a
            section of its own. None: of one that does not.
    """
    text = _ENDING.sub(":\n", _PARAGRAPH.sub("", text))
    return _ARGS.sub(_separated(parameters), text)


def _separated(parameters: set[str] | None) -> Callable[[re.Match[str]], str]:
    def separate(found: re.Match[str]) -> str:
        args, keywords = "", ""
        for names, description in _ITEM.findall(found[1]):
            for name in re.split(r",\s+", names):
                item = f"    {name}: {description.rstrip()}\n"
                if parameters is None or name.lstrip("*") in parameters:
                    args += item
                else:
                    keywords += item
        sections = [f"{title}:\n{items}" for title, items in (("Args", args), ("Keyword Args", keywords)) if items]
        return "\n".join(sections) + "\n"

    return separate


class Readable(griffe.Extension):
    """Rewrites each docstring before it is parsed, and leaves out the members of a class that are not promised."""

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        for name, member in list(cls.members.items()):
            if not member.is_alias and member.docstring and ":meta private:" in member.docstring.value:
                del cls.members[name]

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        parameters = None
        called = obj.members.get("__init__") if isinstance(obj, griffe.Class) else obj
        if isinstance(called, griffe.Function) and any(
            parameter.kind is griffe.ParameterKind.var_keyword for parameter in called.parameters
        ):
            parameters = {parameter.name for parameter in called.parameters}
        obj.docstring.value = readable(obj.docstring.value, parameters)
