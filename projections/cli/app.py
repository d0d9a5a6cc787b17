"""All commands under one name."""

from __future__ import annotations

import typer

from projections.cli import (
    auditing,
    containers,
    deployment,
    health,
    reading,
    replaying,
    running,
    trying,
    verifying,
    versions,
)
from projections.cli.deadletters import deadletters
from projections.cli.native import native
from projections.cli.session import FAILED, GOOD

app = typer.Typer(
    name="projections",
    help="Keeps read models and secondary indexes in step with an Azure Cosmos DB container.\n\n"
    "Settings: COSMOS (a connection string) or COSMOS__accountEndpoint (managed identity); with neither, the embedded "
    "emulator on this machine. COSMOS_DATABASE; PROJECTIONS_CATALOG (module:name; by default the shipped example).\n\n"
    "Exit codes: 0 good; 1 something wrong was found; 2 it could not be done; 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    trying.demo,
    trying.emulator,
    containers.init,
    containers.load,
    running.run,
    auditing.audit,
    replaying.replay,
    verifying.verify,
    reading.lookup,
    deployment.plan,
    versions.promote,
    versions.rollback,
    versions.drop,
    health.status,
    health.doctor,
):
    app.command()(command)
app.add_typer(deadletters)
app.add_typer(native)


def main() -> int:
    """Runs the command line on the process's arguments; returns the exit code."""
    try:
        app()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else FAILED
    return GOOD
