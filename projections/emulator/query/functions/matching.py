"""LIKE and RegexMatch, both on Python's `re`, neither allowed to run away."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ..errors import QueryError

MAX_PATTERN = 1000
MAX_WORK = 2 * 10**8  # steps of a backtracking match, at worst
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE}
_QUANTIFIER = re.compile(r"[*+]|\{\d*,\d*\}")
_CLASS = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


@lru_cache(maxsize=1000)
def like_matcher(pattern: str, escape: Any) -> Callable[[str], Any]:
    """The test of a LIKE pattern: `%` any text, `_` one character, `[a-c]` and `[^a-c]` a set.

    The text between two `%` is sought in an atomic group: found once at its first place, never tried again further on.
    """
    if escape is not None and (not isinstance(escape, str) or len(escape) != 1):
        raise QueryError("ESCAPE needs a string of one character.")
    first, *rest = _like_parts(pattern, escape)
    middle = "".join(f"(?>.*?{part})" for part in rest[:-1])
    try:
        return re.compile(f"{first}{middle}.*{rest[-1]}" if rest else first, re.DOTALL).fullmatch
    except re.error as error:
        raise QueryError(f"LIKE: the pattern is not valid ({error}).") from None


def _like_parts(pattern: str, escape: str | None) -> list[str]:
    """The regular expressions of the texts between the `%`."""
    parts, at = [""], 0
    while at < len(pattern):
        char = pattern[at]
        group = _CLASS.match(pattern, at) if char == "[" else None
        if char == escape and at + 1 < len(pattern):
            at += 1
            parts[-1] += re.escape(pattern[at])
        elif char == "%":
            if parts[-1] or len(parts) == 1:  # %% is %
                parts.append("")
        elif char == "_":
            parts[-1] += "."
        elif group is not None:
            parts[-1] += _character_set(group[0])
            at = group.end() - 1
        else:
            parts[-1] += re.escape(char)
        at += 1
    return parts


def _character_set(text: str) -> str:
    """`[a-c]` with everything escaped that only means something to `re`."""
    negated = text.startswith("[^")
    body = re.sub(r"([\\\[\]^&~|])", r"\\\1", text[2 if negated else 1 : -1])
    return f"[{'^' if negated else ''}{body}]" if body else re.escape(text)


def regex_match(text: str, pattern: str, modifiers: str = "") -> bool:
    """`RegexMatch(text, pattern, modifiers)`: whether the pattern occurs in the text."""
    compiled, loops = _regex(pattern, modifiers)
    # in the worst case every way to place the start and the ends of the repetitions in the text is tried
    free = loops + (not pattern.startswith("^") or "m" in modifiers)
    if loops and math.comb(len(text) + free, free) > MAX_WORK:
        raise QueryError(f"RegexMatch: {loops} repetitions are too costly for a text of {len(text)} characters.")
    return compiled.search(text) is not None


@lru_cache(maxsize=1000)
def _regex(pattern: str, modifiers: str) -> tuple[re.Pattern[str], int]:
    """The compiled pattern and how many open repetitions can work on the same text."""
    if len(pattern) > MAX_PATTERN:
        raise QueryError(f"RegexMatch: a pattern may have {MAX_PATTERN} characters, not {len(pattern)}.")
    flags = 0
    for letter in modifiers:
        if letter not in _FLAGS:
            raise QueryError(f"RegexMatch: unknown modifier '{letter}'.")
        flags |= _FLAGS[letter]
    try:
        return re.compile(pattern, flags), _loops(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise QueryError(f"RegexMatch: the pattern is not valid ({error}).") from None


def _loops(pattern: str) -> int:
    """Counts the repetitions; one that contains another, or a choice, can take exponential time and is refused."""
    bare = _CLASS.sub("c", re.sub(r"\\.", "e", pattern, flags=re.DOTALL))
    loops, open_groups = 0, [False]
    for at, char in enumerate(bare):
        if char == "(":
            open_groups.append(False)
        elif char == "|" or _QUANTIFIER.match(bare, at):
            open_groups[-1] = True
            loops += char != "|"
        elif char == ")" and len(open_groups) > 1:
            risky = open_groups.pop()
            if risky and _QUANTIFIER.match(bare, at + 1):
                raise QueryError("RegexMatch: a repetition of a group that repeats or chooses is not supported.")
            open_groups[-1] = open_groups[-1] or risky
    return loops
