"""Commands as processes: signals, pipes, the emulator, the demo, and an app without the extras."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from projections.example.data import orders
from tests.processes import ROOT, EmulatorProcess, environment, run, start


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorProcess]:
    process = EmulatorProcess(tmp_path_factory.mktemp("account"))
    yield process
    process.kill()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "orders.jsonl"
    path.write_text("".join(f"{json.dumps(order)}\n" for order in orders(300)))
    return path


def line_of(process: subprocess.Popen[str], seconds: float = 60) -> str:
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], seconds)
    assert ready, "nothing was printed"
    return process.stdout.readline()


def entries(connection: str, database: str, name: str = "orders-by-id") -> int:
    # a projection that has not started yet makes `status` exit with 1
    process = start(["status", "--json"], connection, COSMOS_DATABASE=database)
    out, _ = process.communicate(timeout=60)
    return {one["projection"]: one["entries"] for one in map(json.loads, out.splitlines())}[name] or 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_signal_ends_the_worker_in_good_order_and_the_next_one_goes_on(
    account: EmulatorProcess, file: Path, number: signal.Signals, code: int
) -> None:
    connection, database = account.connection_string, f"signals{code}"
    run(["init"], connection, COSMOS_DATABASE=database)
    run(["load", "orders", str(file)], connection, COSMOS_DATABASE=database)
    worker = start(["run", "orders-by-id", "--json"], connection, COSMOS_DATABASE=database)
    deadline = time.monotonic() + 60
    while not entries(connection, database):
        assert time.monotonic() < deadline
    worker.send_signal(number)
    out, err = worker.communicate(timeout=60)
    assert worker.returncode == code, err
    assert "Traceback" not in err
    assert any(json.loads(line)["action"] == "stopping" for line in err.splitlines())
    done = json.loads(out)["outcomes"]
    rest = json.loads(run(["run", "orders-by-id", "--until-caught-up", "--json"], connection, COSMOS_DATABASE=database))
    # every page was finished and its position stored, so that nothing is done twice
    assert done["written"] + rest["outcomes"].get("written", 0) == 300
    assert set(done) | set(rest["outcomes"]) == {"written"}
    assert entries(connection, database) == 300


def test_the_emulator_says_when_it_is_ready_and_stops_when_told() -> None:
    process = start(["emulator", "--port", "0", "--json"], "")
    ready = json.loads(line_of(process))
    assert ready["connectionString"].startswith(f"AccountEndpoint={ready['url']};")
    run(["init"], ready["connectionString"])
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, "")


def test_an_emulator_on_a_port_that_is_taken(account: EmulatorProcess) -> None:
    process = start(["emulator", "--port", str(account.port)], "")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert "error: cannot start" in err
    assert "hint: try --port 0" in err
    assert "Traceback" not in err


def test_a_reader_that_has_seen_enough_is_no_error(account: EmulatorProcess, file: Path) -> None:
    connection = account.connection_string
    run(["init"], connection, COSMOS_DATABASE="pipes")
    run(["load", "orders", str(file)], connection, COSMOS_DATABASE="pipes")
    run(["run", "orders-by-status", "--until-caught-up"], connection, COSMOS_DATABASE="pipes")
    process = start(["lookup", "orders-by-status", "open"], connection, COSMOS_DATABASE="pipes")
    assert process.stdout
    process.stdout.close()
    assert process.stderr
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(timeout=60) == 0, err
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_a_host_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        started = time.monotonic()
        process = start(["status"], f"AccountEndpoint={url};AccountKey=YQ==;")
        _, err = process.communicate(timeout=100)
    assert process.returncode == 2
    assert f"cannot reach {url}" in err
    assert time.monotonic() - started < 60  # the SDK alone would try for minutes


@pytest.mark.parametrize(
    ("command", "missing", "extra"),
    [("status", "typer", "cli"), ("status", "rich", "cli"), ("demo", "lark", "emulator")],
)
def test_without_the_extras_one_line_says_what_to_install(
    tmp_path: Path, command: str, missing: str, extra: str
) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import sys\nsys.modules['{missing}'] = None\n")
    ran = subprocess.run(
        [sys.executable, "-m", "projections", command],
        cwd=ROOT, env=environment("") | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stderr.splitlines() == [
        f"error: {missing} is not installed", f'hint: pip install "cosmos-projections[{extra}]"',
    ]  # fmt: skip


def test_the_installed_script_is_the_same() -> None:
    script = Path(sys.executable).with_name("projections")
    ran = subprocess.run([script, "--help"], capture_output=True, text=True, check=True, env=dict(os.environ))
    assert "Exit codes" in ran.stdout
