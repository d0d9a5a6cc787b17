"""Text to syntax tree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import Path as FilePath
from typing import Any, cast

from lark import Lark, Token, Transformer
from lark.exceptions import UnexpectedCharacters, UnexpectedEOF, UnexpectedInput, UnexpectedToken
from lark.lark import PostLex

from .errors import QueryError
from .precedence import arrange, single
from .syntax import (
    ArrayOf,
    Call,
    Collection,
    Group,
    Item,
    Literal,
    Name,
    Node,
    ObjectOf,
    Parameter,
    Path,
    Select,
    Sort,
    Source,
    Subquery,
)
from .values import UNDEFINED, number

MAX_LENGTH = 512 * 1024  # the service's own limit on the text of a query
MAX_DEPTH = 100

# words that the service does not take as a bare name, not even after a dot: c.value is an error there
RESERVED = frozenset(
    """AND ARRAY AS ASC BETWEEN BY DESC DISTINCT EXISTS FALSE FROM GROUP IN JOIN LIKE NOT NULL OR ORDER SELECT TOP TRUE
    UDF UNDEFINED VALUE WHERE""".split()  # noqa: SIM905 - a column of words reads worse
)
_OPENING, _CLOSING = frozenset(["LPAR", "LSQB", "LBRACE"]), frozenset(["RPAR", "RSQB", "RBRACE"])
_CONSTANTS = {"true": True, "false": False, "null": None, "undefined": UNDEFINED}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "/": "/", "\\": "\\", '"': '"', "'": "'"}


def parse(text: str) -> Select:
    """The tree of a query, or of a bare `FROM … WHERE …` condition."""
    if len(text) > MAX_LENGTH:
        raise QueryError(f"The query text is longer than {MAX_LENGTH} characters.")
    try:
        return cast(Select, _parser().parse(text))
    except UnexpectedInput as error:
        raise QueryError(_where(error, text)) from None
    except RecursionError:
        raise QueryError("The query is nested too deeply.") from None


@cache
def _parser() -> Lark:
    grammar = FilePath(__file__).with_name("cosmos.lark").read_text(encoding="utf-8")
    return Lark(
        grammar,
        parser="lalr",
        lexer="contextual",
        transformer=_Builder(),
        postlex=_DepthLimit(),
        maybe_placeholders=True,
    )


def _where(error: UnexpectedInput, text: str) -> str:
    if isinstance(error, UnexpectedEOF) or (isinstance(error, UnexpectedToken) and error.token.type == "$END"):
        return "Syntax error, unexpected end of query."
    near = str(error.token) if isinstance(error, UnexpectedToken) else text[error.pos_in_stream or 0 :][:1]
    kind = "invalid character" if isinstance(error, UnexpectedCharacters) else "incorrect syntax near"
    return f"Syntax error, {kind} '{near}' at line {error.line}, column {error.column}."


class _DepthLimit(PostLex):
    """Refuses brackets nested so deeply that compiling or running the query could exhaust the stack."""

    always_accept = ()

    def process(self, stream: Iterator[Token]) -> Iterator[Token]:
        depth = 0
        for token in stream:
            if token.type in _OPENING:
                depth += 1
                if depth > MAX_DEPTH:
                    raise QueryError(f"The query is nested deeper than {MAX_DEPTH} levels.")
            elif token.type in _CLOSING:
                depth -= 1
            yield token


def _unquote(token: str) -> str:
    if "\\" not in token:
        return token[1:-1]
    text = _ESCAPE.sub(_unescape, token[1:-1])
    # an astral character arrives as two \u escapes, a surrogate pair
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape(match: re.Match[str]) -> str:
    code = match[1]
    if len(code) == 5:
        return chr(int(code[1:], 16))
    if code not in _ESCAPES:
        raise QueryError(f"Syntax error, invalid escape '\\{code}' in a string.")
    return _ESCAPES[code]


def _name(token: str) -> str:
    if token.upper() in RESERVED:
        raise QueryError(
            f"Syntax error, incorrect syntax near '{token}': a reserved word, write [\"{token}\"] for a property."
        )
    return str(token)


@lru_cache(maxsize=1000)
def _dotted(text: str) -> Path:
    first, *keys = text.split(".")
    return Path(Name(_name(first)), tuple(Literal(_name(key)) for key in keys))


def _number(text: str) -> int | float:
    value = number(float(text))
    if value is UNDEFINED:
        raise QueryError(f"Syntax error, the number {text[:20]}… is out of range.")
    return int(text) if text.isdigit() else value


class _Builder(Transformer[Token, Any]):
    """Builds nodes while the parser reduces; each method is a rule or alias of the grammar."""

    def query(self, parts: list[Any]) -> Select:
        distinct, top, selection, sources, where, group_by, order_by, page = parts
        offset, limit = page or (None, None)
        return Select(
            **selection,
            distinct=distinct is not None,
            top=top,
            sources=sources or (),
            where=where,
            group_by=group_by or (),
            order_by=order_by or (),
            offset=offset,
            limit=limit,
        )

    def condition(self, parts: list[Any]) -> Select:
        return Select(value=Literal(True), sources=parts[0], where=parts[1])

    def top(self, parts: list[Any]) -> Any:
        return parts[0]

    def star(self, _parts: list[Any]) -> dict[str, Any]:
        return {"star": True}

    def value(self, parts: list[Any]) -> dict[str, Any]:
        return {"value": parts[0]}

    def items(self, parts: list[Any]) -> dict[str, Any]:
        return {"items": tuple(parts)}

    def item(self, parts: list[Any]) -> Item:
        return Item(parts[0], _name(parts[1]) if parts[1] is not None else None)

    def from_(self, parts: list[Any]) -> tuple[Source, ...]:
        return tuple(parts)

    def iterated(self, parts: list[Any]) -> Source:
        return Source(parts[2], _name(parts[0]), each=True)

    def whole(self, parts: list[Any]) -> Source:
        return Source(parts[0], _name(parts[1]) if parts[1] is not None else None, each=False)

    def collection(self, parts: list[Any]) -> Collection:
        first, *keys = parts[0].split(".")
        return Collection(_name(first), (*(Literal(_name(key)) for key in keys), *parts[1:]))

    def derived(self, parts: list[Any]) -> Select:
        return cast(Select, parts[0])

    def where(self, parts: list[Any]) -> Node:
        return cast(Node, parts[0])

    def group_by(self, parts: list[Any]) -> tuple[Node, ...]:
        return tuple(parts)

    order_by = group_by
    arguments = group_by
    page = group_by

    def sort(self, parts: list[Any]) -> Sort:
        return Sort(parts[0], descending=parts[1] is not None and parts[1].upper() == "DESC")

    def expression(self, parts: list[Any]) -> Node:
        return arrange(parts)

    def path(self, parts: list[Any]) -> Path:
        return Path(single(parts[0]), tuple(parts[1:]))

    def dotted(self, parts: list[Any]) -> Path:
        return _dotted(str(parts[0]))

    def dotted_path(self, parts: list[Any]) -> Path:
        start = _dotted(str(parts[0]))
        return Path(start.base, (*start.steps, *parts[1:]))

    def property(self, parts: list[Any]) -> Literal:
        return Literal(_name(parts[0]))

    def index(self, parts: list[Any]) -> Node:
        return cast(Node, parts[0])

    def name(self, parts: list[Any]) -> Name:
        return Name(_name(parts[0]))

    def parameter(self, parts: list[Any]) -> Parameter:
        return Parameter(str(parts[0]))

    def number(self, parts: list[Any]) -> Literal:
        return Literal(_number(parts[0]))

    def string(self, parts: list[Any]) -> Literal:
        return Literal(_unquote(parts[0]))

    def constant(self, parts: list[Any]) -> Literal:
        return Literal(_CONSTANTS[parts[0].lower()])

    def filter_placeholder(self, _parts: list[Any]) -> Literal:
        return Literal(True)

    def call(self, parts: list[Any]) -> Call:
        return Call(parts[0].upper(), parts[1] or ())

    def udf(self, parts: list[Any]) -> Node:
        raise QueryError(f"Only built-in functions are supported, not {parts[0]}.")

    def exists(self, parts: list[Any]) -> Subquery:
        return Subquery("EXISTS", parts[0])

    def array_of(self, parts: list[Any]) -> Subquery:
        return Subquery("ARRAY", parts[0])

    def subquery(self, parts: list[Any]) -> Subquery:
        return Subquery("VALUE", parts[0])

    def group(self, parts: list[Any]) -> Group:
        return Group(parts[0])

    def array(self, parts: list[Any]) -> ArrayOf:
        return ArrayOf(parts[0] or ())

    def object(self, parts: list[Any]) -> ObjectOf:
        return ObjectOf(tuple(part for part in parts if part is not None))

    def pair(self, parts: list[Any]) -> tuple[str, Node]:
        key = parts[0]
        return (_unquote(key) if key.type == "STRING" else str(key), parts[2])
