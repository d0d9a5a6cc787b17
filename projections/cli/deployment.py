"""`plan`: what a catalog asks for beside what is deployed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from projections.cli.console import emit, out, say, table
from projections.cli.session import FOUND_WRONG, GOOD, AsJson, Session, complete, opened
from projections.definitions import Definitions
from projections.deployment import TO_DO, Cost, Deployment, Step


def plan(
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="NAME", help="Nothing has to be done about what has changed of this one."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare the catalog with what is deployed: what is new, changed or gone, what that takes and what it costs.

    Changes are shown field by field. Some need a new version, and are refused at the start without one; some need a
    replay; some hold from the next start on. Of functions and models only the source text is compared, and what a
    change of it means is yours to judge: --accept says that entries do not change, or need not. Costs are estimates,
    for items and entries of about 1 KB; items are counted with a query.

    Exit codes: 0 nothing to do; 1 something is to be done; 2 nobody can tell.
    """
    complete(_plan(accept or [], as_json))


async def _plan(accepted: Sequence[str], as_json: bool) -> int:
    async with opened() as session:
        for name in accepted:
            await _accept(session, name)
        steps = await Deployment(session.store, session.layout).steps()
    if as_json:
        for step in steps:
            emit(step.to_json())
    else:
        out().print(table(("projection", "", "changes", "takes", "items", "RU, about"), map(_row, steps)))
    return FOUND_WRONG if any(step.stage in TO_DO for step in steps) else GOOD


async def _accept(session: Session, name: str) -> None:
    """Put a declaration on record as it is now, with nothing due.

    Raises:
        UnsafeError: it needs a new version.
    """
    definitions = Definitions(session.store, session.layout)
    for projection in session.layout.catalog.versions(name):
        for change in await definitions.accept(projection):
            say(f"accepted for {projection.label}: {change}")


def _row(step: Step) -> tuple[object, ...]:
    return (
        step.label,
        step.stage.value,
        "\n".join(f"{change} ({change.need.value})" for change in step.changes) or None,
        "\n".join([*(f"create {container}" for container in step.create), *step.does]) or None,
        step.cost.items if step.cost else None,
        _units(step.cost),
    )


def _units(cost: Cost | None) -> str | None:
    if cost is None:
        return None
    return f"{cost.most:,.0f}" if cost.least == cost.most else f"{cost.least:,.0f} to {cost.most:,.0f}"
