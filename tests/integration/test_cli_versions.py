"""plan, promote, rollback and drop at a terminal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.test_cli import Terminal, account, terminal

__all__ = ["account", "terminal"]


@pytest.fixture
def deploy(terminal: Terminal, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Deploy a catalog: have its containers made, and run it until it has caught up."""
    orders = [{"id": str(n), "customerId": "c", "orderId": f"A-{n}", "status": "open", "total": n} for n in range(8)]
    (tmp_path / "orders.jsonl").write_text("".join(json.dumps(order) + "\n" for order in orders))

    def choose(catalog: str, *, run: bool = True) -> Terminal:
        monkeypatch.setenv("PROJECTIONS_CATALOG", f"tests.integration.versions_catalog:{catalog}")
        if run:
            terminal("init")
            terminal("load", "orders", tmp_path / "orders.jsonl")
            terminal("run", "--until-caught-up")
        return terminal

    return choose


def steps(terminal: Terminal, code: int) -> dict[str, Any]:
    return {f"{one['projection']}@{one['version']}": one for one in terminal.lines("plan", code=code)}


def test_the_whole_way(deploy: Any) -> None:
    terminal = deploy("before")
    assert steps(terminal, 0)["by-number@1"]["state"] == "unchanged"

    deploy("both", run=False)
    new = steps(terminal, 1)["by-number@2"]
    assert (new["state"], new["create"][0].endswith("/by-number-v2"), new["estimate"]["items"]) == ("new", True, 8)
    assert any("readers stay at version 1" in line for line in new["does"])
    assert "by-number@2" in terminal("plan", code=1).stdout

    deploy("both")
    assert [one["version"] for one in terminal.lines("status")] == [1, 2]
    assert steps(terminal, 0)["by-number@2"]["state"] == "unchanged"
    assert "customerId" in terminal("lookup", "by-number", "A-1").stdout
    assert "customerId" not in terminal("lookup", "by-number@2", "A-1").stdout

    refused = terminal("promote", "by-number", "--version", "2", code=2)
    assert "not verified" in refused.stderr
    assert "--force" in refused.stderr
    assert "not verified" in terminal("promote", "by-number", "--version", "2", "--dry-run", code=2).stderr
    arguments = ("promote", "by-number", "--version", "2", "--force", "--who", "ann", "--why", "a better key")
    [told] = terminal.lines(*arguments)
    assert (told["version"], told["switched"], told["history"][0]["why"]) == (2, True, "a better key")
    assert "already" in terminal(*arguments).stderr
    assert "customerId" not in terminal("lookup", "by-number", "A-1").stdout

    assert "version 1" in terminal("rollback", "by-number", "--why", "too slow").stderr
    assert "customerId" in terminal("lookup", "by-number", "A-1").stdout
    terminal("rollback", "by-number", code=2)
    terminal(*arguments)

    assert "the catalog declares" in terminal("drop", "by-number", "--version", "1", code=2).stderr
    deploy("after", run=False)
    gone = steps(terminal, 1)["by-number@1"]
    assert (gone["state"], "drop by-number --version 1" in gone["does"][0]) == ("gone", True)
    going = terminal.lines("drop", "by-number", "--version", "1", "--force", "--dry-run")
    assert {one["what"]: one["documents"] for one in going}["target"] == 8
    assert "--yes" in terminal("drop", "by-number", "--version", "1", "--force", code=2).stderr
    assert "dropped" in terminal("drop", "by-number", "--version", "1", "--force", "--yes").stderr
    assert "nothing is known" in terminal("drop", "by-number", "--version", "1", "--yes", code=2).stderr
    assert list(steps(terminal, 0)) == ["by-number@2"]
    assert len(terminal.lines("status")) == 1
    assert '"total": 1' in terminal("lookup", "by-number", "A-1").stdout


def test_a_change_that_needs_a_version_is_refused(deploy: Any) -> None:
    terminal = deploy("before")
    deploy("rekeyed", run=False)
    step = steps(terminal, 1)["by-number@1"]
    assert (step["state"], step["needs"]) == ("changed", "version")
    assert step["changes"] == [{"field": "placement_buckets", "old": 16, "new": 4, "need": "version"}]
    refused = terminal("run", "--until-caught-up", code=2)
    assert "placement_buckets: 16 -> 4" in refused.stderr
    assert "version=2" in refused.stderr
    assert "placement_buckets" in terminal("doctor", code=1).stdout


def test_a_change_that_needs_a_replay_is_due(deploy: Any) -> None:
    terminal = deploy("before")
    deploy("narrowed", run=False)
    step = steps(terminal, 1)["by-number@1"]
    assert (step["state"], step["needs"], step["estimate"]["items"]) == ("changed", "replay", 8)
    deploy("narrowed")
    step = steps(terminal, 1)["by-number@1"]
    assert step["state"] == "due"
    assert any("projections replay by-number@1" in line for line in step["does"])
    assert terminal.lines("status")[0]["replayDue"] == ["where"]
    assert "replay due: where" in terminal("status").stdout
    terminal("replay", "by-number", "--dry-run")
    assert steps(terminal, 1)["by-number@1"]["state"] == "due"
    terminal("replay", "by-number")
    assert steps(terminal, 0)["by-number@1"]["state"] == "unchanged"


def test_code_is_for_people_to_judge(deploy: Any) -> None:
    terminal = deploy("judged")
    deploy("judged_again", run=False)
    assert steps(terminal, 1)["by-number@1"]["needs"] == "judgement"
    assert "due" in steps(deploy("judged_again"), 1)["by-number@1"]["state"]
    assert "cheap" in terminal("plan", "--accept", "by-number").stderr
    assert steps(terminal, 0)["by-number@1"]["state"] == "unchanged"
