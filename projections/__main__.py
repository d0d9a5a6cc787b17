"""``python -m projections`` and the installed ``projections``: the command line."""

from __future__ import annotations

import sys

EXTRAS = {"typer": "cli", "rich": "cli", "lark": "emulator", "cryptography": "emulator"}
"""What a deployed app does without, and the extra that brings it."""


def main() -> int:
    """Runs the command line; returns the exit code."""
    try:
        from projections.cli.app import main as run

        return run()
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        extra = EXTRAS.get(package)
        if extra is None:
            raise
        print(f"error: {package} is not installed", file=sys.stderr)  # noqa: T201
        print(f'hint: pip install "cosmos-projections[{extra}]"', file=sys.stderr)  # noqa: T201
        return 2


if __name__ == "__main__":
    sys.exit(main())
