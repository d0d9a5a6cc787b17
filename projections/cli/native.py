"""`gsi`: could the account's own index do this?"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from projections import gsi
from projections.cli.console import emit, out
from projections.cli.session import FOUND_WRONG, GOOD, AsJson, complete
from projections.declare import Index, Projection
from projections.gsi.tradeoffs import GAINS, SAME_KEYS, losses
from projections.native import description
from projections.provision import Layout
from projections.settings import Settings

native = typer.Typer(
    name="gsi",
    help="Azure's native global secondary indexes: whether one could do what a projection does.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@native.command()
def explain(name: Annotated[str, typer.Argument(help="The projection.")], as_json: AsJson = False) -> None:
    """Say whether a native global secondary index could do what a projection does.

    If so: its definition, its key, and what it would gain and lose, each point with its source. If not: the features
    that stand against it, and what would become of each. Needs the catalog only, no account.

    Exit codes: 0 a native index could do it; 1 none could; 2 there is no such projection.
    """
    complete(_explain(name, as_json))


async def _explain(name: str, as_json: bool) -> int:
    settings = Settings.read()
    layout = Layout(settings.load_catalog(), settings.database)
    found = explained(layout, layout.catalog[name])
    if as_json:
        emit(found)
    else:
        out().print(_page(found), soft_wrap=True)
    return GOOD if found["expressible"] else FOUND_WRONG


def explained(layout: Layout, projection: Projection) -> dict[str, Any]:
    """For programs."""
    obstacles = gsi.obstacles(projection, layout.catalog.database or layout.database)
    base: dict[str, Any] = {"projection": projection.label, "expressible": not obstacles}
    if obstacles or not isinstance(projection, Index):
        return base | {"obstacles": [one.to_json() for one in obstacles]}
    wanted = description(layout, projection)
    assert wanted.native is not None
    return base | {
        "definition": wanted.native.definition,
        "key": list(wanted.key_paths),
        "source": str(layout.source(projection)),
        "autoscale": wanted.throughput.autoscale,
        "gains": [point.to_json() for point in GAINS],
        "losses": [point.to_json() for point in losses(projection)],
        "same_keys": SAME_KEYS,
    }


def _page(found: dict[str, Any]) -> str:
    if not found["expressible"]:
        lines = [f"{found['projection']} cannot be a native index:"]
        for one in found["obstacles"]:
            lines += [f"  {one['feature']}: {one['reason']}", f"    without: {one['without']}"]
        return "\n".join(lines)
    return "\n".join([
        f"{found['projection']} could be a native index of {found['source']}:",
        f"  definition  {found['definition']}",
        f"  key         {', '.join(found['key'])}",
        f"  throughput  autoscale, {found['autoscale']:,} RU/s at most",
        "gains", *_points(found["gains"]),
        "losses, or otherwise", *_points(found["losses"]),
        "the same here", f"  {found['same_keys']}",
        "made with `projections init --native`",
    ])  # fmt: skip


def _points(points: list[dict[str, str]]) -> list[str]:
    return [f"  - {one['text']} [{one['source']}]" for one in points]
