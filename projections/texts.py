"""Several values as one text, from which they can be read back: what a computed key is made of."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from projections.errors import AskError, CatalogError, ItemError
from projections.keys import MAX_EXACT, UNDEFINED, KeyValue, Undefined

ESCAPE: Final = "~"
TOKENS: Final = {"u": UNDEFINED, "n": None, "t": True, "f": False}
"""What stands behind the escape for values that are no text and no number."""
NUMBER: Final = "d"


def separator(text: str) -> str:
    """A separator, if it is one.

    Raises:
        CatalogError: it is not.
    """
    if len(text) == 1 and " " < text < "\x7f" and not text.isalnum() and text != ESCAPE:
        return text
    raise CatalogError(f"{text!r} is no separator", hint="give one punctuation mark of ASCII, but not ~")


def joined(values: Sequence[KeyValue], between: str) -> str:
    """The values as one text, a separator between them.

    Text stands as it is, with `~` written as `~~` and the separator as `~s`. A number is `~d` and its digits, as
    ECMAScript writes it, with the same escapes; true is `~t`, false `~f`, null `~n`, a missing value `~u`.

    Raises:
        ItemError: a number that others would take for another one.
    """
    # stored; change with a version
    return between.join(_encoded(value, between) for value in values)


def _encoded(value: KeyValue, between: str) -> str:
    if isinstance(value, str):
        return _escaped(value, between)
    for token, meant in TOKENS.items():
        if value is meant:
            return ESCAPE + token
    assert isinstance(value, int | float)
    return ESCAPE + NUMBER + _escaped(number(value), between)


def _escaped(text: str, between: str) -> str:
    return text.replace(ESCAPE, ESCAPE * 2).replace(between, f"{ESCAPE}s")


def parted(text: str, between: str) -> tuple[KeyValue, ...]:
    """The values that were joined.

    Raises:
        AskError: no values give this text.
    """
    values = tuple(_decoded(part, between) for part in text.split(between))
    if joined(values, between) != text:
        raise AskError(f"{text!r} is no text of a key", hint=f"it is values with {between} between them, escaped")
    return values


def _decoded(part: str, between: str) -> KeyValue:
    head, kind, rest = part[:1], part[1:2], part[2:]
    if head == ESCAPE and kind in TOKENS and not rest:
        return TOKENS[kind]
    text = re.sub("~(.)", lambda found: between if found[1] == "s" else found[1], part, flags=re.DOTALL)
    if head == ESCAPE and kind == NUMBER:
        return _number_from(text[1:])
    return text


def _number_from(text: str) -> KeyValue:
    try:
        value = float(text)
    except ValueError:
        return text  # nothing gives this text, which the caller finds out
    if not math.isfinite(value):
        return text
    return int(value) if value.is_integer() and abs(value) <= MAX_EXACT else value


def number(value: float) -> str:
    """A number as ECMAScript's Number::toString writes it: 7, 0.5, 1e+21, 1e-7; negative zero is 0.

    Raises:
        ItemError: it is none that JSON has.
    """
    # stored; change with a version
    try:
        exact = float(value)
    except OverflowError:
        exact = math.inf
    if not math.isfinite(exact):
        raise ItemError("a number that JSON does not have", hint="use text")
    if exact == 0:
        return "0"
    sign = "-" if exact < 0 else ""
    # both languages write the fewest digits that give the number back; they differ in where they put the point
    mantissa, _, exponent = f"{abs(exact)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    return sign + _placed(digits.rstrip("0"), point)


def _placed(digits: str, point: int) -> str:
    """The digits with the decimal point behind so many of them (ECMA-262, Number::toString)."""
    if len(digits) <= point <= 21:
        return digits.ljust(point, "0")
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"0.{digits.rjust(len(digits) - point, '0')}"
    mantissa = digits[0] + (f".{digits[1:]}" if len(digits) > 1 else "")
    return f"{mantissa}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def utf8(text: str) -> bytes:
    """The text in UTF-8, where a lone surrogate is U+FFFD, as in JavaScript's TextEncoder and .NET's Encoding.UTF8."""
    # stored; change with a version
    return re.sub("[\ud800-\udfff]", "\ufffd", text).encode()


def as_text(value: Any) -> str:
    """A value that is part of a text already; what is no text gets its token."""
    return value if isinstance(value, str) else joined([value], "_")


def is_missing(value: Any) -> bool:
    """Whether there is no value."""
    return value is None or isinstance(value, Undefined)
