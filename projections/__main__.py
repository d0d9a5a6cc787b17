"""``python -m projections`` and the installed ``projections``: the command line."""

from __future__ import annotations

import sys

EXTRAS = {"typer": "cli", "rich": "cli", "lark": "emulator", "cryptography": "emulator"}
"""What a deployed app does without, and the extra that brings it."""


def main() -> int:
    """Runs the command line; returns the exit code."""
    try:
        from projections.cli.app import main as run
    except ModuleNotFoundError as error:
        extra = EXTRAS.get(error.name or "")
        if extra is None:
            raise
        print(f"error: {error.name} is not installed", file=sys.stderr)  # noqa: T201
        print(f'hint: pip install "cosmos-projections[{extra}]"', file=sys.stderr)  # noqa: T201
        return 2
    return run()


if __name__ == "__main__":
    sys.exit(main())
