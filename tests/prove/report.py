"""What a part of the proof came to."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Part:
    """One line of the summary."""

    what: str
    runs: int = 0
    measured: str = ""
    divergences: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)  # searches that were cut off: not all, and said so
    seconds: float = 0.0


class Steps:
    """A part of the proof that is made of steps: what each took, and what was found wrong."""

    def __init__(self, part: Part, advance: Any, number: int) -> None:
        self._part = part
        self._advance = advance
        self._number = number  # of steps, for whoever watches
        self._said: list[str] = []

    @contextmanager
    def timed(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        seconds = time.monotonic() - began
        self._part.seconds += seconds
        self.tell(f"{what} {seconds:,.0f} s")
        self._advance(self._number, self._said[-1])

    def tell(self, what: str) -> None:
        """Have something in the summary."""
        self._said.append(what)
        self._part.measured = "; ".join(self._said)

    def expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self._part.divergences.append(otherwise)

    def equal(self, what: str, found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> None:
        """Compare all that there is with all that there should be."""
        self._part.runs += len(expected)
        self._part.divergences += [f"{what}: {text}" for text in differences(found, expected)]


def differences(found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> list[str]:
    """Where two mappings differ: how many of each kind, and some of them."""
    missing = [key for key in expected if key not in found]
    extra = [key for key in found if key not in expected]
    other = [(key, found[key], expected[key]) for key in expected if key in found and found[key] != expected[key]]
    kinds = {"missing": missing, "too many": extra, "other": other}
    return [f"{len(some):,} {kind}, such as {some[:2]}" for kind, some in kinds.items() if some]
