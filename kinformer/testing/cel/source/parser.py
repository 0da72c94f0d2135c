"""Parses an expression to a syntax tree."""

from __future__ import annotations

from kinformer.testing.cel.source.lexer import Issues, Token, tokenize
from kinformer.testing.cel.source.macros import expand
from kinformer.testing.cel.source.syntax import (
    RESERVED,
    CallExpression,
    Expression,
    Ident,
    ListLiteral,
    Literal,
    MapLiteral,
    Select,
    Struct,
)
from kinformer.testing.cel.values import INT_MAX, INT_MIN

__all__ = ["DEPTH", "parse"]

_RELATIONS = ("<", "<=", ">", ">=", "==", "!=", "in")
_STARTS = (
    "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}"
)
_CONSTANTS = {"true": True, "false": False, "null": None}
DEPTH = 250  # the deepest nesting, of parentheses for example (cel-go's limit)


class _SyntaxError(Exception):
    """The rest cannot be parsed. The issue has been added."""


def parse(text: str, issues: Issues) -> Expression | None:
    """Parse an expression and expand its macros.

    Returns None if there are syntax errors, which are added to `issues`.
    """
    parser = _Parser(tokenize(text, issues), issues)
    try:
        root = parser.whole()
    except _SyntaxError:
        return None
    return None if issues else root


class _Parser:
    def __init__(self, tokens: list[Token], issues: Issues) -> None:
        self._tokens = tokens
        self._issues = issues
        self._index = 0
        self._depth = 0

    # -- tokens ---------------------------------------------------------------------------------------------------

    @property
    def _token(self) -> Token:
        return self._tokens[self._index]

    def _take(self) -> Token:
        token = self._tokens[self._index]
        if token.kind != "end":
            self._index += 1
        return token

    def _is(self, text: str) -> bool:
        token = self._token
        return token.text == text and (token.kind == "op" or (token.kind == "ident" and text == "in"))

    def _skip(self, text: str) -> bool:
        if self._is(text):
            self._index += 1
            return True
        return False

    def _fail(self, at: int, text: str) -> _SyntaxError:
        self._issues.add(at, text)
        return _SyntaxError()

    def _expect(self, text: str) -> Token:
        if self._is(text):
            return self._take()
        token = self._token
        following = self._tokens[min(self._index + 1, len(self._tokens) - 1)]
        if following.kind == "op" and following.text == text:
            raise self._fail(token.at, f"Syntax error: extraneous input '{token.text}' expecting '{text}'")
        if text in (")", "]", "}") and token.kind == "end":
            raise self._fail(token.at, f"Syntax error: missing '{text}' at '{token.text}'")
        raise self._fail(token.at, f"Syntax error: mismatched input '{token.text}' expecting '{text}'")

    # -- the grammar ----------------------------------------------------------------------------------------------

    def whole(self) -> Expression:
        root = self._expression()
        token = self._token
        if token.kind != "end":
            single = self._tokens[self._index + 1].kind == "end"
            kind = "extraneous" if single else "mismatched"
            raise self._fail(token.at, f"Syntax error: {kind} input '{token.text}' expecting <EOF>")
        return root

    def _expression(self) -> Expression:
        self._depth += 1
        if self._depth > DEPTH:
            raise RecursionError  # as Python would, so that `compile_expression` has one case for both
        node = self._either()
        if self._is("?"):
            at = self._take().at
            then = self._either()
            self._expect(":")
            node = CallExpression(at, "_?_:_", [node, then, self._expression()])
        self._depth -= 1
        return node

    def _either(self) -> Expression:
        terms, places = [self._both()], []
        while self._is("||"):
            places.append(self._take().at)
            terms.append(self._both())
        return _balanced("_||_", terms, places)

    def _both(self) -> Expression:
        terms, places = [self._relation()], []
        while self._is("&&"):
            places.append(self._take().at)
            terms.append(self._relation())
        return _balanced("_&&_", terms, places)

    def _relation(self) -> Expression:
        node = self._sum()
        while any(self._is(operator) for operator in _RELATIONS):
            token = self._take()
            function = "@in" if token.text == "in" else f"_{token.text}_"
            node = CallExpression(token.at, function, [node, self._sum()])
        return node

    def _sum(self) -> Expression:
        node = self._product()
        while self._is("+") or self._is("-"):
            token = self._take()
            node = CallExpression(token.at, f"_{token.text}_", [node, self._product()])
        return node

    def _product(self) -> Expression:
        node = self._unary()
        while self._is("*") or self._is("/") or self._is("%"):
            token = self._take()
            node = CallExpression(token.at, f"_{token.text}_", [node, self._unary()])
        return node

    def _unary(self) -> Expression:
        for sign in ("!", "-"):
            if not self._is(sign):
                continue
            signs = []
            while self._is(sign):
                signs.append(self._take())
            token = self._token
            if sign == "-" and token.kind == "literal" and type(token.value) in (int, float):
                # The last minus belongs to the number. Without it, the lowest int would overflow.
                signs.pop()
                self._index += 1
                if -token.value < INT_MIN and type(token.value) is int:
                    self._issues.add(token.at, "invalid int literal")
                node: Expression = self._member(Literal(token.at - 1, -token.value))
            else:
                node = self._member(self._primary())
            return CallExpression(signs[0].at, f"{sign}_", [node]) if len(signs) % 2 else node
        return self._member(self._primary())

    def _member(self, node: Expression) -> Expression:
        while True:
            if self._is("."):
                node = self._select(node)
            elif self._is("["):
                at = self._take().at
                optional = self._skip("?")
                index = self._expression()
                self._expect("]")
                node = CallExpression(at, "_[?_]" if optional else "_[_]", [node, index])
            else:
                return node

    def _select(self, operand: Expression) -> Expression:
        dot = self._take()
        optional = self._skip("?")
        token = self._take()
        if token.kind == "field":
            return Select(dot.at, operand, token.text[1:-1], optional=optional)
        if token.kind != "ident" or token.text in ("in", "true", "false", "null"):
            raise self._fail(token.at, f"Syntax error: mismatched input '{token.text}' expecting IDENTIFIER")
        if self._is("(") and not optional:
            opening = self._take()
            return self._called(opening.at, token.text, self._arguments(")"), operand)
        return Select(dot.at, operand, token.text, optional=optional)

    def _called(self, at: int, name: str, args: list[Expression], target: Expression | None) -> Expression:
        return expand(at, name, args, target, self._issues) or CallExpression(at, name, args, target)

    def _arguments(self, end: str) -> list[Expression]:
        args: list[Expression] = []
        while not self._is(end):
            args.append(self._expression())
            if not self._skip(","):
                break
        self._expect(end)
        return args

    def _primary(self) -> Expression:
        token = self._take()
        if token.kind == "literal":
            if type(token.value) is int and token.value > INT_MAX:
                self._issues.add(token.at, "invalid int literal")
            return Literal(token.at, token.value)
        if token.kind == "ident" and token.text != "in":
            return self._name(token, token.text)
        if token.kind == "op" and token.text == "(":
            node = self._expression()
            self._expect(")")
            return node
        if token.kind == "op" and token.text == "[":
            return self._list(token)
        if token.kind == "op" and token.text == "{":
            return self._map(token)
        if token.kind == "op" and token.text == ".":
            name = self._take()
            if name.kind == "ident":
                return self._name(name, f".{name.text}")
            token = name
        raise self._fail(token.at, f"Syntax error: mismatched input '{token.text}' expecting {_STARTS}")

    def _name(self, token: Token, name: str) -> Expression:
        if token.text in _CONSTANTS:
            return Literal(token.at, _CONSTANTS[token.text])
        if self._is("("):
            at = self._take().at
            return self._called(at, name, self._arguments(")"), None)
        if self._starts_struct():
            return self._struct(name)
        if token.text in RESERVED:
            self._issues.add(token.at, f"reserved identifier: {token.text}")
        return Ident(token.at, name)

    def _starts_struct(self) -> bool:
        """Return True if the name continues with dots and names to a brace."""
        index = self._index
        while self._tokens[index].text == "." and self._tokens[index + 1].kind == "ident":
            index += 2
        return self._tokens[index].kind == "op" and self._tokens[index].text == "{"

    def _struct(self, name: str) -> Expression:
        while self._skip("."):
            name += f".{self._take().text}"
        at = self._expect("{").at
        fields: list[tuple[str, Expression]] = []
        while not self._is("}"):
            field = self._take().text
            self._expect(":")
            fields.append((field, self._expression()))
            if not self._skip(","):
                break
        self._expect("}")
        return Struct(at, name, fields)

    def _list(self, token: Token) -> Expression:
        items: list[Expression] = []
        optional = []
        while not self._is("]"):
            if self._skip("?"):
                optional.append(len(items))
            items.append(self._expression())
            if not self._skip(","):
                break
        self._expect("]")
        return ListLiteral(token.at, items, optional)

    def _map(self, token: Token) -> Expression:
        entries: list[tuple[Expression, Expression, bool]] = []
        while not self._is("}"):
            optional = self._skip("?")
            key = self._expression()
            self._expect(":")
            entries.append((key, self._expression(), optional))
            if not self._skip(","):
                break
        self._expect("}")
        return MapLiteral(token.at, entries)


def _balanced(function: str, terms: list[Expression], places: list[int]) -> Expression:
    """Build a balanced tree from a chain of `&&` or `||`."""
    if len(terms) == 1:
        return terms[0]
    middle = (len(terms) + 1) // 2
    left = _balanced(function, terms[:middle], places[: middle - 1])
    right = _balanced(function, terms[middle:], places[middle:])
    return CallExpression(places[middle - 1], function, [left, right])
