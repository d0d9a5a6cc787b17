"""What a part of the proof came to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Part:
    """One line of the summary."""

    what: str
    runs: int = 0
    measured: str = ""
    divergences: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)  # searches that were cut off: not all, and said so
    seconds: float = 0.0
