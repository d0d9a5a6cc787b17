"""The language of definitions: text to paths, and back.

It is that of learn.microsoft.com/azure/cosmos-db/global-secondary-indexes, as of January 2026 (facts.md 30):
`SELECT *`, or properties of any level, which come out under their last name; and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, cast

from projections.declare import STORES_OWN
from projections.errors import CatalogError
from projections.keys import parse_path

if TYPE_CHECKING:
    from lark import Lark, Token, Tree
    from lark.exceptions import UnexpectedInput

RESERVED: Final = (
    "AND", "ARRAY", "AS", "ASC", "BETWEEN", "BY", "DESC", "DISTINCT", "EXISTS", "FALSE", "FROM", "GROUP", "IN", "JOIN",
    "LIKE", "NOT", "NULL", "OR", "ORDER", "SELECT", "TOP", "TRUE", "UDF", "UNDEFINED", "VALUE", "WHERE",
)  # fmt: skip
"""Words that the query language does not take for a bare name."""

GRAMMAR: Final = r"""
start: SELECT (STAR | property ("," property)*) FROM NAME
property: NAME step+
step: "." NAME | "[" STRING "]"

STAR: "*"
NAME: /[a-z_][a-z0-9_]*/i
STRING: /"(?:[^"\\]|\\.)*"/
CALL: "("
NUMBER: /\d+/
OTHER: /[^\s\w.,\[\]"*(]+/
%ignore /\s+/
"""

PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

REFUSED: Final[Mapping[str, str]] = {
    "ARRAY": "it has no functions and no subqueries",
    "AS": "it renames nothing (AS)",
    "CALL": "it has no functions and no subqueries",
    "DISTINCT": "it has no DISTINCT",
    "EXISTS": "it has no EXISTS",
    "GROUP": "it has no GROUP BY; totals per group are an aggregate",
    "IN": "it does not take arrays apart (IN)",
    "JOIN": "it does not take arrays apart (JOIN)",
    "LIMIT": "it has no OFFSET LIMIT",
    "NUMBER": "it has no constants and no elements of arrays",
    "OFFSET": "it has no OFFSET LIMIT",
    "ORDER": "it has no ORDER BY",
    "OTHER": "it has no expressions",
    "STRING": "it has no constants",
    "TOP": "it has no TOP",
    "UDF": "it has no functions and no subqueries",
    "VALUE": "it has no SELECT VALUE",
    "WHERE": "it has no WHERE; `where` of an Index leaves items out",
}
"""What the service refuses in a definition, by the word or kind of token that it begins with."""


HINT: Final = "write SELECT c.name, c.other.name FROM c, or SELECT * FROM c"


def render(paths: Sequence[str] | None) -> str:
    """The definition that selects these paths; everything when None."""
    return f"SELECT {'*' if paths is None else ', '.join(map(_property, paths))} FROM c"


def _property(path: str) -> str:
    return "c" + "".join(
        f".{name}" if PLAIN.fullmatch(name) and name.upper() not in RESERVED else f"[{json.dumps(name)}]"
        for name in parse_path(path)
    )


def clash(paths: Sequence[str]) -> str | None:
    """Why not all of these paths can come out under their last names."""
    seen: dict[str, str] = {}
    for names in map(parse_path, paths):
        path = "/" + "/".join(names)
        if len(names) > 1 and names[-1] in ("id", "_id"):
            return f"{path} would come out as {names[-1]}, which a native index gives itself"
        if names[-1] in seen:
            return f"{seen[names[-1]]} and {path} would both come out as {names[-1]}"
        seen[names[-1]] = path
    return None


def parse(definition: str) -> tuple[str, ...] | None:
    """The paths that a definition selects; None for `*`.

    Raises:
        CatalogError: the service would refuse it.
    """
    from lark.exceptions import UnexpectedInput

    try:
        tree = _parser().parse(definition)
    except UnexpectedInput as error:
        raise refusal(_problem(error, definition), HINT) from None
    properties = [_steps(part) for part in tree.find_data("property")]
    alias = str(tree.children[-1])
    for first, *names in properties:
        if first != alias:
            raise refusal(f"{first}.{'.'.join(names)} is of {first}, but FROM names {alias}", f"write {alias}.…")
    paths = tuple(_path(names) for _, *names in properties)
    problem = clash(paths)
    if problem:
        raise refusal(problem, "select one of them, or leave it out")
    return paths or None


@cache
def _parser() -> Lark:
    from lark import Lark  # slow to import, and only needed by catalogs with definitions
    from lark.lark import PostLex

    class Words(PostLex):
        """Keeps the tokens that no rule has, so that an error can say which one it was."""

        always_accept = (*RESERVED, "CALL", "NUMBER", "OTHER")

        def process(self, stream: Iterator[Token]) -> Iterator[Token]:
            return stream

    words = "\n".join(f'{word}: "{word}"i' for word in RESERVED)
    return Lark(GRAMMAR + words, parser="lalr", lexer="basic", postlex=Words())


def _problem(error: UnexpectedInput, text: str) -> str:
    token = getattr(error, "token", None)
    if token is None:
        return f"incorrect syntax at column {error.column}"
    if token.type == "$END":
        return "it ends too early"
    before = text[: token.start_pos].rstrip()
    if not before:
        return "it begins with SELECT"
    if token.type in RESERVED and before.endswith("."):
        return f'{token} is a reserved word; write ["{token}"] for the property'
    known = REFUSED.get(token.upper() if token.type == "NAME" else token.type)
    if known is None and token.type in ("NAME", "DOT", "LSQB"):
        known = "it renames nothing" if token.type == "NAME" else "FROM names the items, not a part of them"
    return f"{known or f'incorrect syntax near {token}'} (column {token.column})"


def _steps(part: Tree[Token]) -> list[str]:
    first, *steps = part.children
    tokens = [cast("Tree[Token]", step).children[-1] for step in steps]
    names = [json.loads(str(t)) if cast("Token", t).type == "STRING" else str(t) for t in tokens]
    return [str(first), *names]


def _path(names: list[str]) -> str:
    path = "/" + "/".join(names)
    if any(not name or "/" in name for name in names) or list(parse_path(path)) != names:
        raise refusal(f"the property {'.'.join(names)} cannot be written as a path", "give it another name")
    if STORES_OWN.fullmatch(names[0]):
        raise refusal(f"{names[0]} is the store's own: an entry has its own", "leave it out")
    return path


def refusal(problem: str, hint: str, projection: str | None = None) -> CatalogError:
    """What the service would refuse."""
    return CatalogError(f"no definition of a native index: {problem}", projection=projection, hint=hint)
