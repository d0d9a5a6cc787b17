"""Every command against the emulator: what it prints, where, and how it exits."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from typer.testing import CliRunner, Result

from projections.cli.app import app
from projections.cli.reading import parse_key
from projections.cosmos import connect
from projections.example import catalog
from projections.example.data import orders
from projections.keys import Key
from projections.provision import Layout
from projections.settings import Settings
from projections.store import Container, Description, Store, Upsert
from tests.converged import assert_converged, documents
from tests.processes import EmulatorProcess

T = TypeVar("T")
_databases = itertools.count(1)


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorProcess]:
    process = EmulatorProcess(tmp_path_factory.mktemp("account"))
    yield process
    process.kill()


@dataclass
class Terminal:
    """Somebody at a terminal, with a database of their own."""

    account: EmulatorProcess
    settings: Settings

    def __call__(self, *arguments: str | Path, code: int = 0) -> Result:
        """Run a command that ends with this exit code."""
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
        assert "Traceback" not in result.stderr
        return result

    def lines(self, *arguments: str | Path, code: int = 0) -> list[Any]:
        """The JSON lines of a command with --json."""
        return [json.loads(line) for line in self(*arguments, "--json", code=code).stdout.splitlines()]

    def with_store(self, act: Any) -> Any:
        """Do something to the account directly."""

        async def call() -> Any:
            async with connect(self.settings) as store:
                return await act(store, Layout(catalog, self.settings.database))

        return finished(call())


def finished(call: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(call)


@pytest.fixture
def terminal(account: EmulatorProcess, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    environment = {"COSMOS": account.connection_string, "COSMOS_DATABASE": f"cli{next(_databases)}"}
    for name in ("COSMOS__accountEndpoint", "PROJECTIONS_CATALOG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    return Terminal(account, Settings.read(environment))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "orders.jsonl"
    path.write_text("".join(f"{json.dumps(order)}\n" for order in orders(40)))
    return path


@pytest.fixture
def shop(terminal: Terminal, file: Path) -> Terminal:
    """A terminal whose database holds forty orders, projected."""
    terminal("init")
    terminal("load", "orders", file)
    terminal("run", "--until-caught-up")
    return terminal


# the way through


def test_init_creates_once(terminal: Terminal) -> None:
    database = terminal.settings.database
    names = ("orders", "orders-by-id", "orders-by-status", "big-open-orders", "projections-state",
             "projections-deadletters", "projections-leases")  # fmt: skip
    assert terminal.lines("init") == [{"container": f"{database}/{name}", "created": True} for name in names]
    assert {line["created"] for line in terminal.lines("init")} == {False}
    assert "exists" in terminal("init").stdout


def test_on_an_account_init_creates_no_source_unless_told_to(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Settings, "emulator", False)
    database = terminal.settings.database

    async def almost(store: Store, layout: Layout) -> None:
        await store.create_container(Description(Container(database, "order"), ("/customerId",)))

    terminal.with_store(almost)
    refused = terminal("init", code=2)
    assert f"error: there is no source {database}/orders\n" in refused.stderr
    assert f"hint: is it {database}/order?; correct Source(" in refused.stderr
    assert terminal.with_store(lambda store, _: store.containers(database)) == ["order"]
    created = {line["container"] for line in terminal.lines("init", "--with-sources") if line["created"]}
    assert f"{database}/orders" in created
    assert {line["created"] for line in terminal.lines("init")} == {False}
    assert "would reset sources" in terminal("init", "--template", "az", "--with-sources", code=2).stderr


def test_load_says_how_much(terminal: Terminal, file: Path) -> None:
    terminal("init")
    database = terminal.settings.database
    assert terminal.lines("load", "orders", file) == [{"container": f"{database}/orders", "lines": 40, "items": 40}]
    again = terminal("load", "orders", file)
    assert again.stdout == ""
    assert "loaded 40 items" in again.stderr


def test_load_into_another_database(terminal: Terminal, file: Path) -> None:
    terminal("init")
    elsewhere = f"{terminal.settings.database}-none"
    assert (
        f"no container {elsewhere}/orders" in terminal("load", "orders", file, "--database", elsewhere, code=2).stderr
    )


def test_run_projects_everything_and_tells_the_outcomes(terminal: Terminal, file: Path) -> None:
    terminal("init")
    terminal("load", "orders", file)
    by_name = {line["projection"]: line for line in terminal.lines("run", "--until-caught-up")}
    assert by_name["orders-by-id"]["outcomes"] == {"written": 40}
    assert sum(by_name["big-open-orders"]["outcomes"].values()) == 40
    assert by_name["big-open-orders"]["reasons"] == {
        "skipped: where": by_name["big-open-orders"]["outcomes"]["skipped"]
    }
    assert all(line["caughtUp"] for line in by_name.values())
    terminal.with_store(assert_converged)
    assert all(line["outcomes"] == {} for line in terminal.lines("run", "--until-caught-up"))


def test_run_of_named_projections_leaves_the_others(terminal: Terminal, file: Path) -> None:
    terminal("init")
    terminal("load", "orders", file)
    text = terminal("run", "orders-by-status", "--until-caught-up").stdout
    assert "orders-by-status" in text
    assert "orders-by-id" not in text
    health = {line["projection"]: line["health"] for line in terminal.lines("status", code=1)}
    assert health == {"orders-by-id": "not started", "orders-by-status": "ok", "big-open-orders": "not started"}


def test_orders_with_no_status_are_all_found_by_id(terminal: Terminal, tmp_path: Path) -> None:
    path = tmp_path / "plain.jsonl"
    path.write_text('{"id": "1", "customerId": "00001", "orderId": "00001-001", "amount": 1.5}\n')
    terminal("init")
    terminal("load", "orders", path)
    by_name = {line["projection"]: line for line in terminal.lines("run", "--until-caught-up")}
    assert by_name["orders-by-id"]["outcomes"] == {"written": 1}
    assert by_name["orders-by-status"]["reasons"] == {"skipped: missing key": 1}
    [answer] = terminal.lines("lookup", "orders-by-id", "00001-001")
    assert answer["entries"][0]["amount"] == 1.5


def test_status(shop: Terminal) -> None:
    by_name = {line["projection"]: line for line in shop.lines("status")}
    assert by_name["orders-by-id"] == {
        "projection": "orders-by-id", "version": 1, "target": f"{shop.settings.database}/orders-by-id", "health": "ok",
        "missing": [], "entries": 40, "ranges": 1, "gap": "0", "lagSeconds": 0.0, "deadLetters": 0,
        "oldestDeadLetterSeconds": None, "deferred": 0, "oldestDeferredSeconds": None, "fanOuts": None,
        "alarm": None, "audit": None, "handingOver": 0, "missedDeletes": [], "verify": None, "replayDue": [],
        "outcomes": {"written": 40}, "reasons": {},
    }  # fmt: skip
    assert "orders-by-status" in shop("status").stdout


def test_status_of_a_projection_that_is_behind(shop: Terminal) -> None:
    async def change(store: Store, layout: Layout) -> None:
        item = next(iter(orders(1))) | {"status": "paid"}
        await store.write(layout.source(catalog["orders-by-id"]), Key.of(item["customerId"]), [Upsert(item)])

    shop.with_store(change)
    assert {(line["health"], line["gap"]) for line in shop.lines("status")} == {("behind", ">=1")}
    shop("status", "--max-lag", "1000")
    shop("status", "--max-lag", "-1", code=1)


def test_status_before_init(terminal: Terminal) -> None:
    assert {line["health"] for line in terminal.lines("status", code=1)} == {"missing"}


def test_doctor(terminal: Terminal) -> None:
    before = terminal.lines("doctor", code=1)
    assert {"severity", "subject", "reason", "remedy"} == set(before[0])
    assert any(finding["severity"] == "error" for finding in before)
    terminal("init")
    assert {finding["severity"] for finding in terminal.lines("doctor")} == {"ok"}
    assert "keyed /orderId" in terminal("doctor").stdout


# lookup


def test_lookup_shows_documents_and_their_cost(shop: Terminal) -> None:
    result = shop("lookup", "orders-by-id", "o000007")
    [entry] = [json.loads(line) for line in result.stdout.splitlines()]
    assert entry["orderId"] == "o000007"
    assert "1 entry; " in result.stderr
    assert "RU" in result.stderr


def test_lookup_for_programs(shop: Terminal) -> None:
    [answer] = shop.lines("lookup", "orders-by-id", "o000007", "--source", "--fresh")
    assert {"projection", "key", "entries", "items", "dropped", "requestUnits", "calls"} == set(answer)
    assert (answer["projection"], answer["key"], answer["dropped"]) == ("orders-by-id", ["o000007"], 0)
    assert answer["requestUnits"] > 0
    assert answer["calls"] > 0
    [entry], [item] = answer["entries"], answer["items"]
    assert entry["_source"]["id"] == item["id"]
    assert item["orderId"] == "o000007"


def test_lookup_of_a_prefix(shop: Terminal) -> None:
    [answer] = shop.lines("lookup", "big-open-orders", "north")
    assert answer["entries"]
    assert {entry["region"] for entry in answer["entries"]} == {"north"}
    one = answer["entries"][0]
    [narrow] = shop.lines("lookup", "big-open-orders", "north", one["customerId"])
    assert one["id"] in [entry["id"] for entry in narrow["entries"]]
    assert len(narrow["entries"]) <= len(answer["entries"])


def test_lookup_of_nothing_is_no_failure(shop: Terminal) -> None:
    assert shop.lines("lookup", "orders-by-id", "none")[0]["entries"] == []
    assert "--text" in shop("lookup", "orders-by-id", "7").stderr


@pytest.mark.parametrize(
    ("typed", "value"),
    [("7", 7), ("7.5", 7.5), ("true", True), ("null", None), ('"7"', "7"), ("00001-001", "00001-001"), ("007", "007"),
     ("NaN", "NaN"), ("[1]", "[1]"), ("{}", "{}"), ("open", "open")],
)  # fmt: skip
def test_keys_as_typed(typed: str, value: Any) -> None:
    parsed = parse_key(typed)
    assert parsed == value
    assert type(parsed) is type(value)


def test_keys_as_text(shop: Terminal) -> None:
    assert shop.lines("lookup", "orders-by-id", "7")[0]["key"] == [7]
    assert shop.lines("lookup", "orders-by-id", "--text", "7")[0]["key"] == ["7"]


# what goes wrong


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        (("run", "nobody"), "no projection 'nobody'", "orders-by-id"),
        (("lookup", "nobody", "1"), "no projection 'nobody'", "orders-by-id"),
        (("lookup", "orders-by-id", "1"), "no container", "projections init"),
        (("lookup", "orders-by-id", "1", "2"), "projection orders-by-id: 2 values for a key of 1", "/orderId"),
        (("run", "--until-caught-up"), "no container", "projections init"),
        (("load", "nothing", "{file}"), "no container", "projections init"),
        (("load", "orders", "/no/such/file"), "no container", "projections init"),
    ],
)
def test_an_error_says_what_and_what_next(
    terminal: Terminal, file: Path, arguments: tuple[str, ...], message: str, hint: str
) -> None:
    result = terminal(*(argument.format(file=file) for argument in arguments), code=2)
    assert result.stdout == ""
    [error] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    [advice] = [line for line in result.stderr.splitlines() if line.startswith("hint: ")]
    assert message in error
    assert hint in advice


@pytest.mark.parametrize(
    ("command", "name", "value", "message"),
    [
        ("status", "COSMOS", "nonsense", "not a connection string"),
        ("run", "COSMOS", "AccountEndpoint={url};AccountKey=d3Jvbmc=;", "refused the credentials (401)"),
        ("status", "COSMOS", "AccountEndpoint=http://127.0.0.1:9/;AccountKey=d3Jvbmc=;", "cannot reach http://127.0"),
        ("init", "PROJECTIONS_CATALOG", "no.such.module:catalog", "cannot import no.such.module"),
        ("run", "PROJECTIONS_CATALOG", "json:loads", "not a Catalog"),
    ],
)
def test_bad_settings(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, command: str, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value.format(url=terminal.account.url))
    result = terminal(command, code=2)
    assert result.stdout == ""
    assert message in result.stderr
    assert "hint: " in result.stderr


def test_a_catalog_that_is_wrong_says_where(
    terminal: Terminal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong_catalog.py").write_text(
        "from projections.declare import Catalog, Index, Source\n"
        "catalog = Catalog(projections=(Index(name='x', source=Source(container='o', key='/k'), key='y'),))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PROJECTIONS_CATALOG", "wrong_catalog:catalog")
    result = terminal("run", code=2)
    assert "error: projection x: key" in result.stderr
    assert [f["severity"] for f in terminal.lines("doctor", code=1)] == ["ok", "error"]


def test_a_broken_line_leaves_the_container_as_it_was(shop: Terminal, tmp_path: Path) -> None:
    async def count(store: Store, layout: Layout) -> int:
        return len(await documents(store, layout.source(catalog["orders-by-id"])))

    path = tmp_path / "broken.jsonl"
    path.write_text('{"id": "new", "customerId": "c"}\n{"id": "a/b", "customerId": "c"}\n')
    result = shop("load", "orders", path, code=2)
    assert "error: line 2: the id 'a/b'" in result.stderr
    assert shop.with_store(count) == 40


def test_usage_errors_and_help(terminal: Terminal) -> None:
    terminal("lookup", code=2)
    terminal("nonsense", code=2)
    for command in ("demo", "emulator", "init", "load", "run", "audit", "lookup", "status", "doctor",
                    "deadletters list", "deadletters show", "deadletters retry", "deadletters drop"):  # fmt: skip
        text = " ".join(terminal(*command.split(), "--help").stdout.split())
        assert "Exit codes:" in text
        assert "--json" in text
