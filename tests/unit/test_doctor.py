"""What the doctor finds, one broken thing at a time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from projections.cli.health import status_table
from projections.declare import Catalog, Index, Source, Target, Throughput
from projections.doctor import (
    Finding,
    app_folders,
    examine,
    examine_app,
    examine_catalog,
    examine_containers,
    examine_work,
)
from projections.errors import AlarmError
from projections.feed import Checkpoint, Checkpoints, Span, Versions
from projections.keys import Key
from projections.memory import MemoryStore
from projections.provision import Layout, initialise, own, sources, target_problems
from projections.settings import Settings
from projections.status import status
from projections.store import Description, FeedRange, Native, Upsert
from projections.worker import Worker

SOURCE = Source(container="orders", key="/shop")


def layout(**fields: Any) -> Layout:
    projection = Index(**{"name": "by-status", "source": SOURCE, "key": "/status", **fields})
    return Layout(Catalog(projections=(projection,)), "db")


async def findings(where: Layout, **changed: Description | None) -> list[Finding]:
    """Of an account that has everything as it should be, but for the containers given by name."""
    store = MemoryStore()
    for wanted in [*sources(where), *own(where)]:
        found = changed.get(wanted.container.name.replace("-", "_"), wanted)
        if found is not None:
            await store.create_container(found)
    return [finding async for finding in examine_containers(store, where)]


def wrong(found: list[Finding]) -> list[tuple[str, str]]:
    return [(finding.severity, finding.subject) for finding in found if finding.severity != "ok"]


def containers(where: Layout) -> dict[str, Description]:
    return {wanted.container.name: wanted for wanted in [*sources(where), *own(where)]}


async def test_a_good_set_up_is_all_ok() -> None:
    found = await findings(layout())
    assert {finding.severity for finding in found} == {"ok"}
    assert len(found) == 5


async def test_every_missing_container_is_an_error() -> None:
    found = [finding async for finding in examine_containers(MemoryStore(), layout())]
    assert [severity for severity, _ in wrong(found)] == ["error"] * 5
    assert all("projections init" in str(finding.remedy) for finding in found)


@pytest.mark.parametrize(
    ("name", "change", "severity", "reason"),
    [
        ("orders", {"key_paths": ("/id",)}, "error", "keyed /id, declared /shop"),
        ("by-status", {"key_paths": ("/state",)}, "error", "/state"),
        ("by-status", {"default_ttl": None}, "error", "outlive"),
        ("by-status", {"default_ttl": 60}, "error", "expires entries after 60 s"),
        ("by-status", {"unique_keys": (("/email",),)}, "warning", "unique key /email"),
        ("projections-state", {"default_ttl": None}, "warning", "stay for ever"),
        ("projections-state", {"default_ttl": 60}, "error", "after 60 s"),
        ("projections-state", {"key_paths": ("/id",)}, "error", "/pk is needed"),
        ("projections-deadletters", {"default_ttl": 60}, "error", "expires"),
        ("projections-leases", {"key_paths": ("/pk",)}, "error", "/id is needed"),
    ],
)
async def test_one_thing_wrong(name: str, change: dict[str, Any], severity: str, reason: str) -> None:
    where = layout()
    found = await findings(where, **{name.replace("-", "_"): replace(containers(where)[name], **change)})
    [finding] = [f for f in found if f.severity != "ok" and "not as declared" not in f.reason]
    assert finding.severity == severity
    assert name in finding.subject
    assert reason in finding.reason
    assert finding.remedy


POLICY = {"indexingMode": "consistent", "excludedPaths": [{"path": "/notes/*"}]}


@pytest.mark.parametrize(
    ("name", "change", "setting"),
    [
        ("by-status", {"default_ttl": None}, "default TTL: declared on, no default (-1), found off"),
        ("by-status", {"unique_keys": (("/email", "/shop"),)}, "unique keys: declared none, found /email, /shop"),
        ("by-status", {"indexing": {"indexingMode": "none"}}, "indexing: declared {"),
        ("by-status", {"indexing": None}, "found the service's default"),
        ("by-status", {"key_version": 1}, "key version: declared 2, found 1"),
        ("by-status", {"key_kind": "MultiHash"}, "key kind: declared Hash, found MultiHash"),
        ("by-status", {"throughput": Throughput(manual=400)}, "throughput: declared autoscale, 4000 RU/s at most"),
        ("projections-state", {"indexing": None}, "found the service's default"),
        ("projections-deadletters", {"indexing": {"indexingMode": "none"}}, "indexing"),
        ("projections-leases", {"key_version": 1}, "key version"),
    ],
)
async def test_what_is_not_as_declared_is_told_and_left(name: str, change: dict[str, Any], setting: str) -> None:
    target = Target(throughput=Throughput(autoscale=4000), indexing=POLICY)
    where = layout(target=target, ttl="ignore")
    found = await findings(where, **{name.replace("-", "_"): replace(containers(where)[name], **change)})
    [finding] = [finding for finding in found if finding.severity != "ok"]
    assert (finding.severity, finding.reason.partition(";")[0]) == ("warning", "not as declared")
    assert name in finding.subject
    assert setting in finding.reason
    assert finding.remedy
    assert "Target(" not in finding.remedy or name == "by-status"


async def test_what_the_account_does_not_tell_is_not_said_to_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(*_: Any) -> None:
        return None

    monkeypatch.setattr(MemoryStore, "throughput", silent)
    found = await findings(layout(target=Target(throughput=Throughput(manual=400))))
    assert wrong(found) == []
    assert any("throughput not compared" in finding.reason for finding in found)


def test_a_native_index_is_no_target() -> None:
    where = layout()
    found = replace(containers(where)["by-status"], native=Native("orders", "SELECT * FROM c"))
    [problem] = target_problems(found, where.catalog["by-status"], containers(where)["orders"])
    assert "native index" in problem.message
    assert "take the projection out of the catalog" in str(problem.hint)


async def test_expiry_may_be_off_where_it_is_not_mirrored() -> None:
    assert wrong(await findings(layout(ttl="ignore", target=Target(default_ttl=None)))) == []


async def test_a_unique_key_that_holds_the_sources_key_is_fine() -> None:
    assert wrong(await findings(layout(target=Target(unique_keys=(("/email", "/shop"),))))) == []


async def ready(**fields: Any) -> tuple[MemoryStore, Layout]:
    store, where = MemoryStore(), layout(**fields)
    await initialise(store, where)
    return store, where


async def work(store: MemoryStore, where: Layout) -> list[Finding]:
    return [finding async for finding in examine_work(store, where)]


async def test_a_projection_that_may_start() -> None:
    assert [(f.severity, f.reason) for f in await work(*await ready())] == [("ok", "may start")]


async def test_missing_containers_are_found_once() -> None:
    assert await work(MemoryStore(), layout()) == []


@pytest.mark.parametrize("of", ["by-status@1", "by-status@1 audit"])
async def test_positions_that_leave_out_part_of_the_feed(of: str) -> None:
    store, where = await ready()
    await Checkpoints(store, where.state, of).begin([Checkpoint(FeedRange("", "80"))])
    [finding] = await work(store, where)
    assert (finding.severity, finding.subject) == ("error", "projection by-status")
    assert "no checkpoint covers the feed from 80" in finding.reason


async def test_an_alarm_and_dead_letters() -> None:
    store, where = await ready(alarm_after=2)
    source = where.source(where.catalog["by-status"])
    await store.write(source, Key.of("s"), [Upsert({"id": str(n), "shop": "s", "status": {}}) for n in range(3)])
    with pytest.raises(AlarmError):
        await Worker(store, where, list(where.catalog)).run(until_caught_up=True)
    alarm, letters = await work(store, where)
    assert (alarm.severity, letters.severity) == ("error", "warning")
    assert "3 items in a row" in alarm.reason
    assert "3 parked, the oldest 0.0 days ago" in letters.reason
    assert "deadletters list by-status" in str(letters.remedy)
    assert alarm.remedy


VERSIONS = Source(container="orders", key="/shop", mode="AllVersionsAndDeletes")


async def test_a_source_in_all_versions_mode() -> None:
    store, where = await ready(source=VERSIONS)
    assert [(f.severity, f.reason) for f in await work(store, where)] == [("ok", "may start")]
    [source, *_] = [finding async for finding in examine_containers(store, where)]
    assert source.reason == "keyed /shop, read in mode AllVersionsAndDeletes"


async def test_a_source_that_keeps_no_versions() -> None:
    store, where = MemoryStore(), layout(source=VERSIONS)
    await initialise(store, where, emulated=False)
    [finding] = await work(store, where)
    assert finding.severity == "error"
    assert "will not start: db/orders keeps no versions" in finding.reason
    assert "continuous backup" in str(finding.remedy)


@pytest.mark.parametrize("of", ["by-status@1", "by-status@1 audit"])
async def test_deletes_that_may_have_been_missed(of: str) -> None:
    store, where = await ready(source=VERSIONS)
    checkpoints = Checkpoints(store, where.state, of)
    lapsed = Checkpoint(
        FeedRange("", "FF"), versions=Versions(None, 2_000_000_000, (Span(1_700_000_000, 1_700_003_600),))
    )
    await checkpoints.begin([lapsed])
    await checkpoints.save(lapsed)
    _, finding = await work(store, where)
    assert finding.severity == "warning"
    assert "missed from 2023-11-14 22:13:20Z to 2023-11-14 23:13:20Z" in finding.reason
    assert finding.remedy
    found = await status(store, where, where.catalog["by-status"])
    [row] = [str(cell) for cell in status_table([found]).columns[-1].cells]
    assert "deletes may have been missed from 2023-11-14" in row


async def test_a_declaration_that_is_not_what_is_deployed() -> None:
    store, where = await ready()
    await Worker(store, where, list(where.catalog)).run(until_caught_up=True)
    [refused] = await work(store, layout(placement_buckets=4))
    assert (refused.severity, "placement_buckets: 16 -> 4" in refused.reason) == ("error", True)
    assert "version=2" in str(refused.remedy)

    changed = layout(include=("total",))
    assert [finding.severity for finding in await work(store, changed)] == ["ok"]  # nobody has started it yet
    await Worker(store, changed, list(changed.catalog)).run(until_caught_up=True)
    [due] = await work(store, changed)
    assert (due.severity, "include" in due.reason) == ("warning", True)
    assert "projections replay by-status@1" in str(due.remedy)


def test_the_app_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.read({"PROJECTIONS_CATALOG": "json:nothing"})
    monkeypatch.chdir(tmp_path)
    assert list(app_folders(settings)) == []
    (tmp_path / "host.json").write_text((Path(__file__).parents[2] / "host.json").read_text())
    assert list(app_folders(settings)) == [tmp_path.resolve()]
    assert [f.severity for f in examine_app(tmp_path, layout(), {})] == ["ok"]
    (tmp_path / "host.json").write_text('{"version": "2.0"}')
    found = list(examine_app(tmp_path, layout(), {}))
    assert {f.severity for f in found} == {"error"}
    assert any("extensionBundle" in f.reason for f in found)
    assert all(f.remedy for f in found)


def test_the_catalog_alone() -> None:
    assert [f.severity for f in examine_catalog(layout().catalog, "x:y")] == ["ok"]
    assert [f.severity for f in examine_catalog(layout(strict=False).catalog, "x:y")] == ["ok", "warning"]
    assert [f.severity for f in examine_catalog(Catalog(projections=()), "x:y")] == ["warning"]
    assert [f.severity for f in examine_catalog(layout(include=("_source",)).catalog, "x:y")] == ["ok", "error"]


@pytest.mark.parametrize(
    ("environment", "subject", "last"),
    [
        ({"COSMOS": "nonsense"}, "settings", "settings"),
        ({"PROJECTIONS_CATALOG": "no.such:thing"}, "catalog", "catalog"),
        ({"COSMOS": "AccountEndpoint=http://127.0.0.1:9/;AccountKey=YQ==;"}, "account", "account"),
    ],
)
async def test_the_first_thing_that_is_broken_ends_the_examination(
    environment: dict[str, str], subject: str, last: str
) -> None:
    found = [finding async for finding in examine(environment)]
    assert wrong(found) == [("error", subject)]
    assert found[-1].subject == last
    assert found[-1].remedy
