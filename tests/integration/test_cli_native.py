"""`gsi explain`, and `init` with --native and --template."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from projections.cli import containers
from projections.cli.app import app
from projections.cli.session import Session
from projections.errors import IdentityError
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import Container, Description, Native
from tests.processes import EmulatorProcess

CATALOG = "tests.integration.native_catalog:catalog"


@pytest.fixture(scope="module")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmulatorProcess]:
    process = EmulatorProcess(tmp_path_factory.mktemp("account"))
    yield process
    process.kill()


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    monkeypatch.delenv("COSMOS__accountEndpoint", raising=False)
    monkeypatch.setenv("PROJECTIONS_CATALOG", CATALOG)
    monkeypatch.setenv("COSMOS_DATABASE", f"native{tmp_path.name[-1]}")
    return Settings.read()


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == code, (result.stdout, result.stderr, result.exception)
    return result.stdout, result.stderr


def lines(*arguments: str, code: int = 0) -> list[Any]:
    return [json.loads(line) for line in run(*arguments, "--json", code=code)[0].splitlines()]


# gsi explain


def test_what_a_native_index_could_do_is_explained(settings: Settings) -> None:
    [found] = lines("gsi", "explain", "by-city")
    assert (found["expressible"], found["definition"], found["key"]) == (
        True,
        "SELECT c.id, c.ship.city FROM c",
        ["/city"],
    )
    assert found["autoscale"] == 1000
    for point in (*found["gains"], *found["losses"]):
        assert point["text"]
        assert point["source"].startswith("https://")
    text, _ = run("gsi", "explain", "by-city")
    for said in ("SELECT c.id, c.ship.city FROM c", "/city", "gains", "losses", "continuous backup", "init --native"):
        assert said in text
    assert "would be gone" not in text  # it keeps what a native index keeps
    assert "items without the key are entries under null" in run("gsi", "explain", "by-no")[0]


def test_what_none_could_do_is_explained(settings: Settings) -> None:
    [found] = lines("gsi", "explain", "big", code=1)
    assert found["expressible"] is False
    assert [one["feature"] for one in found["obstacles"]] == ["where"]
    text, _ = run("gsi", "explain", "big", code=1)
    assert "where: a native index holds every item" in text
    assert "without: items that `where` leaves out would have entries" in text


def test_a_projection_that_is_not_there(settings: Settings) -> None:
    assert "there is no projection 'nobody'" in run("gsi", "explain", "nobody", code=2)[1]


# init --native


class Azure(MemoryStore):
    """A store on an account that has native indexes."""

    async def create_container(self, wanted: Description) -> bool:
        if await self.describe(wanted.container):
            return False
        if wanted.native is None:
            return await super().create_container(wanted)
        assert await self.describe(Container(wanted.container.database, wanted.native.source))
        self.native[wanted.container] = wanted
        return True

    async def describe(self, container: Container) -> Description | None:
        return self.native.get(container) or await super().describe(container)

    @property
    def native(self) -> dict[Container, Description]:
        return self.__dict__.setdefault("_native", {})


class Managed(MemoryStore):
    """A store for a managed identity."""

    allowed = False

    async def create_container(self, wanted: Description) -> bool:
        if await self.describe(wanted.container):
            return False
        if not self.allowed:
            raise IdentityError
        return await super().create_container(wanted)


def on(store: MemoryStore, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Layout:
    layout = Layout(settings.load_catalog(), settings.database)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Session]:
        yield Session(settings, layout, store)

    monkeypatch.setattr(containers, "opened", opened)
    return layout


def test_native_indexes_are_made_where_they_can_be(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Azure()
    layout = on(store, settings, monkeypatch)
    database = settings.database
    found = {line["container"]: line for line in lines("init", "--native")}
    assert found[f"{database}/by-city"] == {"container": f"{database}/by-city", "created": True, "native": "created"}
    assert found[f"{database}/big"]["created"]
    assert "where" in found[f"{database}/big"]["not_native"]
    assert len(found) == 7  # the source and the worker's own containers, too
    by_city, by_no = (store.native[layout.target(layout.catalog[name])] for name in ("by-city", "by-no"))
    assert (by_city.key_paths, by_city.native) == (("/city",), Native("orders", "SELECT c.id, c.ship.city FROM c"))
    assert (by_city.throughput.autoscale, by_no.throughput.autoscale) == (1000, 4000)
    assert (by_no.key_paths, by_no.native) == (("/no",), Native("orders", "SELECT * FROM c"))
    again = {line["container"]: line for line in lines("init", "--native")}
    assert again[f"{database}/by-city"]["native"] == "exists"
    assert not any(line["created"] for line in again.values())
    assert "no native index: where" in run("init", "--native")[0]


def test_what_is_there_already_is_left_and_said(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Azure()
    layout = on(store, settings, monkeypatch)
    run("init")
    other = layout.target(layout.catalog["by-no"])
    store.native[other] = Description(other, ("/no",), native=Native("orders", "SELECT c.no FROM c"))
    found = {line["container"]: line for line in lines("init", "--native", code=1)}
    assert found[f"{settings.database}/by-city"]["native"] == "is a container like any other"
    assert found[f"{settings.database}/by-no"]["native"] == "is a native index of another definition"


def test_the_emulator_refuses_and_makes_no_plain_container(
    account: EmulatorProcess, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COSMOS", account.connection_string)
    _, said = run("init", "--native", code=2)
    assert f"error: the account refuses {settings.database}/by-city as a native index" in said
    assert "because: " in said
    assert "not supported by this emulator" in said
    assert "hint: an account needs continuous backup" in said
    found = {line["container"]: line["created"] for line in lines("init")}
    assert found[f"{settings.database}/by-city"] is True  # it was not there
    assert found[f"{settings.database}/orders"] is False


# managed identity, and templates


def test_a_managed_identity_is_told_what_has_to_exist(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Managed()
    on(store, settings, monkeypatch)
    _, said = run("init", code=2)
    for container in ("orders keyed /customerId", "by-city keyed /ship/city", "by-no keyed /no",
                      "projections-state keyed /pk", "projections-deadletters keyed /projection",
                      "projections-leases keyed /id"):  # fmt: skip
        assert f"{settings.database}/{container}" in said
    assert "init --template bicep" in said


async def test_an_identity_that_finds_everything_has_nothing_to_create(settings: Settings) -> None:
    store = Managed()
    layout = Layout(settings.load_catalog(), settings.database)
    store.allowed = True
    await initialise(store, layout)
    store.allowed = False
    assert not any(created for _, created in await initialise(store, layout))


def test_a_template_needs_no_account(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COSMOS", "AccountEndpoint=http://127.0.0.1:9/;AccountKey=YQ==;")
    text, _ = run("init", "--template", "bicep")
    for name in ("by-city", "by-no", "big", "projections-state", "projections-deadletters", "projections-leases"):
        assert f"  name: '{name}'" in text
    assert "materializedViewDefinition" not in text
    script, _ = run("init", "--template", "az")
    assert script.startswith("#!/bin/sh\n")
    assert "by-city" in script
    [packed] = lines("init", "--template", "az")
    assert packed["template"] == script
    native, _ = run("init", "--template", "bicep", "--native")
    assert native.count("materializedViewDefinition") == 2
    assert "definition: 'SELECT c.id, c.ship.city FROM c'" in native
    run("init", "--template", "terraform", code=2)
