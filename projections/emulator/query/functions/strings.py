"""Text functions."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..values import UNDEFINED, number
from .matching import regex_match
from .registry import register

MAX_REPLICATED = 10_000  # the service's limit on the length of REPLICATE's result


def _folding(test: Callable[[str, str], bool]) -> Callable[..., bool]:
    """A test of two texts with the optional argument that ignores case."""

    def run(left: str, right: str, ignore_case: bool = False) -> bool:
        return test(left.lower(), right.lower()) if ignore_case else test(left, right)

    return run


def _index_of(text: str, part: str, start: float = 0) -> int:
    return text.find(part, max(int(start), 0))


def _right(text: str, count: float) -> str:
    return text[max(len(text) - int(count), 0) :] if count > 0 else ""


def _substring(text: str, start: float, length: float) -> str:
    begin = max(int(start), 0)
    return text[begin : begin + max(int(length), 0)]


def _replicate(text: str, times: float) -> Any:
    if times < 0 or len(text) * times > MAX_REPLICATED:
        return UNDEFINED
    return text * int(times)


def _replace(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _join(parts: list[Any], separator: str) -> Any:
    return separator.join(parts) if all(isinstance(part, str) for part in parts) else UNDEFINED


def _split(text: str, separator: str) -> list[str]:
    return text.split(separator) if separator else [text]


def to_text(value: Any) -> Any:
    """`ToString`: strings as they are, everything else as JSON."""
    if value is UNDEFINED or isinstance(value, str):
        return value
    return json.dumps(number(value) if isinstance(value, float) else value, ensure_ascii=False, separators=(",", ":"))


def _parsed(*kinds: type) -> Callable[[str], Any]:
    """A conversion from text: the JSON value of the text if it is of that type."""

    def run(text: str) -> Any:
        try:
            value = json.loads(text, parse_constant=_refuse)
        except (ValueError, RecursionError):
            return UNDEFINED
        if type(value) not in kinds:
            return UNDEFINED
        return number(value) if isinstance(value, float) else value

    return run


def _refuse(constant: str) -> Any:
    raise ValueError(constant)


register("CONCAT", "ss*", lambda *parts: "".join(parts))
register("CONTAINS", "ss|b", _folding(lambda text, part: part in text))
register("STARTSWITH", "ss|b", _folding(str.startswith))
register("ENDSWITH", "ss|b", _folding(str.endswith))
register("STRINGEQUALS", "ss|b", _folding(str.__eq__))
register("INDEX_OF", "ss|n", _index_of)
register("LEFT", "sn", lambda text, count: text[: max(int(count), 0)])
register("RIGHT", "sn", _right)
register("LENGTH", "s", len)
register("LOWER", "s", str.lower)
register("UPPER", "s", str.upper)
register("LTRIM", "s|s", str.lstrip)
register("RTRIM", "s|s", str.rstrip)
register("TRIM", "s|s", str.strip)
register("REPLACE", "sss", _replace)
register("REPLICATE", "sn", _replicate)
register("REVERSE", "s", lambda text: text[::-1])
register("SUBSTRING", "snn", _substring)
register("STRINGJOIN", "as", _join)
register("STRINGSPLIT", "ss", _split)
register("TOSTRING", "x", to_text)
register("STRINGTONUMBER", "s", _parsed(int, float))
register("STRINGTOBOOLEAN", "s", _parsed(bool))
register("STRINGTONULL", "s", _parsed(type(None)))
register("STRINGTOARRAY", "s", _parsed(list))
register("STRINGTOOBJECT", "s", _parsed(dict))
register("REGEXMATCH", "ss|s", regex_match)
