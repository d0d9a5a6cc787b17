"""What names, parameters and aggregates mean at one place of a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import QueryError

Env = tuple[Any, ...]
"""The values of the declared names at one row, by slot."""

Compiled = Callable[[Env], Any]
"""An expression ready to run."""


@dataclass(frozen=True)
class Aggregate:
    """One aggregate call of a query: its function and the compiled argument."""

    function: str
    argument: Compiled


@dataclass(frozen=True)
class Scope:
    """Slots of the declared names and values of the parameters."""

    slots: Mapping[str, int] = field(default_factory=dict)
    width: int = 0  # how many slots an Env has here; a name declared twice hides a slot but does not free it
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def slot(self, name: str) -> int:
        """The slot of a declared name."""
        if name not in self.slots:
            raise QueryError(f"Identifier '{name}' could not be resolved.")
        return self.slots[name]

    def parameter(self, name: str) -> Any:
        """The value bound to `@name`."""
        if name not in self.parameters:
            raise QueryError(f"The query uses the parameter '{name}', which was not given a value.")
        return self.parameters[name]

    def declare(self, name: str | None) -> Scope:
        """This scope with one more slot, named or not."""
        slots = self.slots if name is None else {**self.slots, name: self.width}
        return Scope(slots, self.width + 1, self.parameters)


@dataclass(frozen=True)
class GroupScope(Scope):
    """The scope after grouping: each Env is a group's first row and, in one more slot, the aggregates' results."""

    rows: Scope = field(default_factory=Scope)  # the scope of the rows that are grouped
    aggregates: list[Aggregate] = field(default_factory=list)  # filled while the select list is compiled

    @classmethod
    def over(cls, rows: Scope) -> GroupScope:
        """The scope of the groups of these rows."""
        return cls(rows.slots, rows.width + 1, rows.parameters, rows)
