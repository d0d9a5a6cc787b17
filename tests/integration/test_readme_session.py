"""The first session of the README, as written, on an emulator process."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.processes import ROOT, EmulatorProcess, environment


def session() -> str:
    """What the reader types in the second terminal."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    block = readme[readme.index("A first session") :]
    [script] = re.findall(r"activate +# terminal 2\n(.*?)```", block, re.DOTALL)[:1]
    return script


def test_the_first_session_works_as_written(tmp_path: Path) -> None:
    emulator = EmulatorProcess(tmp_path / "data")
    try:
        path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
        done = subprocess.run(
            ["bash", "-euc", session()],
            cwd=tmp_path, env=environment(emulator.connection_string, PATH=path), capture_output=True, text=True,
            timeout=100, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert '"orderId": "A-1"' in done.stdout
    finally:
        emulator.kill()
