"""What leads to what: a projection that feeds itself, directly or through others, would never come to rest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from projections.declare import Source


@dataclass(frozen=True)
class Flow:
    """That a change in a source leads to one in a target: in which properties at the top; None: in any."""

    source: Source
    names: frozenset[str] | None = None
    into: str | None = None

    def between(self, source: str, target: str) -> Leg:
        """With the containers' full names."""
        return Leg((source, self.names), (target, self.into))


@dataclass(frozen=True)
class Leg:
    """A flow from properties of one container into a property of another one."""

    start: tuple[str, frozenset[str] | None]
    end: tuple[str, str | None]

    def follows(self, other: Leg) -> bool:
        """Whether what the other one changes, changes something by way of this one."""
        (container, names), (changed, name) = self.start, other.end
        return container == changed and (names is None or name is None or name in names)


def loops(legs: Iterable[Leg], every: Sequence[Leg]) -> bool:
    """Whether one of the legs leads, by way of any others, to itself."""
    for leg in legs:
        reached, open_ = set[Leg](), [leg]
        while open_:
            last = open_.pop()
            onward = {one for one in every if one.follows(last)} - reached
            reached |= onward
            open_ += onward
        if leg in reached:
            return True
    return False
