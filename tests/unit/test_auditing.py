"""Two audits at once on the same checkpoints: one goes on, the other says so, and nothing is lost."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import typer

from projections.cli.auditing import _audit, _audited
from projections.cli.session import Session, complete
from projections.declare import Catalog
from projections.feed import LostRangeError
from projections.keys import Key
from projections.memory import MemoryStore
from projections.provision import Layout, initialise
from projections.settings import Settings
from projections.store import Container, Upsert
from tests.converged import assert_converged
from tests.support import index

LAYOUT = Layout(Catalog(projections=(index(),)), "shop")
[PROJECTION] = LAYOUT.catalog.projections
BEHIND = -10.0  # everything is old enough


class Collision:
    """Two orders. While the audit of the first is at work on it, another one goes over both."""

    def __init__(self) -> None:
        self.store = MemoryStore(before=self._before)
        self.session = Session(Settings.read({}), LAYOUT, self.store)
        self.another = 0

    async def open(self) -> Collision:
        await initialise(self.store, LAYOUT)
        await self._put("1")
        self.another = 1
        return self

    async def _put(self, id_: str) -> None:
        order = {"id": id_, "shop": "s", "status": "open"}
        await self.store.write(LAYOUT.source(PROJECTION), Key.of("s"), [Upsert(order)])

    async def _before(self, name: str, container: Container) -> None:
        if self.another and (name, container) == ("write", LAYOUT.target(PROJECTION)):
            self.another -= 1
            await self._put("2")
            assert (await _audited(self.session, PROJECTION, BEHIND, lambda: False)).report.caught_up


async def test_the_one_that_lost_its_range_says_what_to_do() -> None:
    collision = await Collision().open()
    with pytest.raises(LostRangeError) as caught:
        await _audited(collision.session, PROJECTION, BEHIND, lambda: False)
    assert str(caught.value) == "projection by-status: another audit is at work on it"
    assert caught.value.hint == (
        "a running worker audits by itself: leave it to that one, or run the worker with --no-audit"
    )
    await assert_converged(collision.store, LAYOUT)


def test_at_a_terminal_it_is_an_error_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    @asynccontextmanager
    async def opened() -> AsyncIterator[Session]:
        yield (await Collision().open()).session

    monkeypatch.setattr("projections.cli.auditing.opened", opened)
    with pytest.raises(typer.Exit) as left:
        complete(_audit((), watch=False, behind=BEHIND, as_json=False))
    assert left.value.exit_code == 2
    told = capsys.readouterr().err
    assert "error: projection by-status: another audit is at work on it" in told
    assert "hint: a running worker audits by itself" in told
