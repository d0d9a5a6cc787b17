"""Puts a flat row of operands and operators in order of precedence.

From tight to loose: unary; `* / %`; `+ -`; `< > <= >=`; `= !=`; `&`; `^`; `|`; `||`; IN, LIKE and BETWEEN; NOT; AND;
OR; `??`; `? :`. The levels of the binary operators are those of Microsoft's own grammar, where `||` is looser than `=`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .errors import QueryError
from .syntax import Between, Chain, Coalesce, Compare, Conditional, Group, In, Like, Literal, Logical, Node, Unary
from .values import is_number

_LEVELS = {
    operator: level
    for level, row in enumerate(
        [["||"], ["|"], ["^"], ["&"], ["=", "!=", "<>"], ["<", ">", "<=", ">="], ["+", "-"], ["*", "/", "%"]]
    )
    for operator in row
}
_COMPARISONS = frozenset(["=", "!=", "<>", "<", ">", "<=", ">="])


def arrange(row: Sequence[Any]) -> Node:
    """The tree of a row: nodes are operands, everything else is the text of an operator (None: an absent NOT)."""
    if len(row) == 1:
        return single(row[0])
    parts = [part if isinstance(part, Node) else str(part).upper() for part in row if part is not None]
    reader = _Row(parts)
    tree = reader.conditional()
    if reader.peek() is not None:
        raise QueryError(f"Syntax error near '{reader.peek()}'.")
    return tree


def single(node: Node) -> Node:
    """The expression in a pair of parentheses."""
    if isinstance(node, Group):
        if len(node.items) > 1:
            raise QueryError("A list in parentheses may only follow IN.")
        return node.items[0]
    return node


class _Row:
    """A recursive descent over one row; its depth follows the operators, brackets were reduced before."""

    def __init__(self, parts: list[Any]) -> None:
        self._parts = parts
        self._at = 0

    def peek(self, ahead: int = 0) -> str | None:
        """The operator that comes next, None at an operand or the end."""
        at = self._at + ahead
        part = self._parts[at] if at < len(self._parts) else None
        return part if isinstance(part, str) else None

    def take(self, operator: str) -> bool:
        """Steps over the operator if it comes next."""
        found = self.peek() == operator
        self._at += found
        return found

    def expect(self, operator: str) -> None:
        """Steps over the operator, which must come next."""
        if not self.take(operator):
            raise QueryError(f"Syntax error: '{operator}' expected.")

    def conditional(self) -> Node:
        condition = self.coalesce()
        if not self.take("?"):
            return condition
        then = self.conditional()
        self.expect(":")
        return Conditional(condition, then, self.conditional())

    def coalesce(self) -> Node:
        terms = self._terms("??", self.any_of)
        return terms[0] if len(terms) == 1 else Coalesce(tuple(terms))

    def any_of(self) -> Node:
        return _flat("OR", self._terms("OR", self.all_of))

    def all_of(self) -> Node:
        return _flat("AND", self._terms("AND", self.negation))

    def _terms(self, operator: str, read: Callable[[], Node]) -> list[Node]:
        terms = [read()]
        while self.take(operator):
            terms.append(read())
        return terms

    def negation(self) -> Node:
        count = 0
        while self.take("NOT"):
            count += 1
        node = self.predicate()
        # NOT NOT NOT x is NOT x; of an even number two stay, because NOT NOT 1 is undefined and not 1
        for _ in range(count if count < 3 else 2 - count % 2):
            node = Unary("NOT", node)
        return node

    def predicate(self) -> Node:
        node = self.binary(0)
        while True:
            negated = self.peek() == "NOT" and self.peek(1) in ("IN", "LIKE", "BETWEEN")
            self._at += negated
            if self.take("IN"):
                node = In(node, self.items())
            elif self.take("LIKE"):
                pattern = self.binary(0)
                node = Like(node, pattern, self.binary(0) if self.take("ESCAPE") else None)
            elif self.take("BETWEEN"):
                low = self.binary(0)
                self.expect("AND")
                node = Between(node, low, self.binary(0))
            else:
                return node
            node = Unary("NOT", node) if negated else node

    def items(self) -> tuple[Node, ...]:
        """The list after IN."""
        part = self._parts[self._at]
        if not isinstance(part, Group):
            raise QueryError("IN needs a list in parentheses.")
        self._at += 1
        return part.items

    def binary(self, loosest: int) -> Node:
        """An operand and the binary operators after it that bind at least as tightly as asked."""
        left = self.unary()
        while (level := _LEVELS.get(self.peek() or "", -1)) >= loosest:
            rest: list[tuple[str, Node]] = []
            while (operator := self.peek()) is not None and _LEVELS.get(operator) == level:
                self._at += 1
                rest.append((operator, self.binary(level + 1)))
            left = _joined(left, rest)
        return left

    def unary(self) -> Node:
        signs: list[str] = []
        while (sign := self.peek()) is not None:
            if sign not in ("+", "-", "~", "NOT"):
                raise QueryError(f"Syntax error near '{sign}'.")
            signs.append(sign)
            self._at += 1
        if self._at >= len(self._parts):
            raise QueryError("Syntax error at the end of an expression.")
        node = single(self._parts[self._at])
        self._at += 1
        for sign in reversed(signs):
            node = _signed(sign, node)
        return node


def _joined(left: Node, rest: list[tuple[str, Node]]) -> Node:
    if rest[0][0] not in _COMPARISONS:
        return Chain(left, tuple(rest))
    for operator, right in rest:
        left = Compare("!=" if operator == "<>" else operator, left, right)
    return left


def _signed(sign: str, node: Node) -> Node:
    if isinstance(node, Literal) and is_number(node.value) and sign in "+-":
        return Literal(-node.value if sign == "-" else node.value)
    return Unary(sign, node)


def _flat(operator: str, terms: list[Node]) -> Node:
    """One node for a chain, also where parentheses cut it: a OR (b OR c)."""
    if len(terms) == 1:
        return terms[0]
    flat: list[Node] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, Logical) and term.operator == operator else [term])
    return Logical(operator, tuple(flat))
