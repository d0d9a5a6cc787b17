"""Spans of time as people type them."""

from __future__ import annotations

import re
from typing import Final

import typer

UNITS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}


def seconds(text: str) -> float:
    """ "90s" -> 90, "1h30m" -> 5400; a bare number is seconds.

    Raises:
        typer.BadParameter: it is no span of time.
    """
    if re.fullmatch(r"\d+(\.\d+)?", text, re.ASCII):
        return float(text)
    if not re.fullmatch(r"(\d+[smhdw])+", text, re.ASCII):
        raise typer.BadParameter(f"{text!r} is no span of time; write 45s, 30m, 12h, 7d, 2w or 1h30m")
    return float(sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([smhdw])", text)))


def ago(age: float) -> str:
    """An age in its two largest units: 93784 -> "1d 2h"."""
    left = int(age)
    parts: list[str] = []
    for unit in ("d", "h", "m", "s"):
        number, left = divmod(left, UNITS[unit])
        if number or parts or unit == "s":
            parts.append(f"{number}{unit}")
    return " ".join(parts[:2])
