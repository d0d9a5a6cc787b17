"""Real writers side by side, every interleaving: the target ends up as a fresh rebuild would have it."""

from __future__ import annotations

from typing import Any

import pytest

from projections.writer import Writer
from tests.simulation import broken
from tests.simulation.search import Found, Search, search
from tests.simulation.states import CLOCKS, EXPLODED, History, histories
from tests.simulation.tracks import Workers

QUICK = [*histories(1), *(h for h in histories(2) if not {"ya", "yb"} & set(h.names))]
SAMPLE = [History.of(names) for names in ("xa-ya", "gone-xa-gone", "soft-gone-xa")]
PARKED = [History.of(names) for names in ("bad", "soft-bad", "bad-soft", "bad-gone")]


def converges(found: Found) -> None:
    assert found.wrong is None, str(found)
    assert found.complete


@pytest.mark.parametrize("history", [*QUICK, *SAMPLE, *PARKED], ids=str)
def test_an_overtaken_worker_beside_the_owner(history):
    converges(search(Workers(), history))


@pytest.mark.parametrize("clock", ["tied", "backwards"])
@pytest.mark.parametrize("names", ["xa-xb", "xa-gone"])
def test_other_clocks(names, clock):
    converges(search(Workers(), History.of(names, clock)))


def test_an_audit_beside_the_owner():
    converges(search(Workers(), History.of("xa-gone"), others=("audit",)))


def test_readers_see_an_entry_that_moves_away_and_back_all_the_time():
    converges(search(Workers(), History.of("xa-ya-xa"), readers=True, kills=False))


@pytest.mark.parametrize("names", ["[xy]", "[x]-[]", "[x]-[xy]", "[xy]-[xy]", "[]-[xy]"])
def test_elements_that_come_and_go(names):
    converges(search(Workers(EXPLODED), History.of(names)))


def test_a_replay_besides():
    converges(search(Workers(), History.of("xa"), others=("overtaken", "replay")))


def test_two_items_that_share_their_batches():
    """The records of both are in one logical partition, and so are their entries."""
    one, other = History.of("xa"), History.of("xa", id_="j")
    converges(search(Workers(ids="ij"), one, other))


def undisturbed(writer: type[Writer] = Writer) -> int:
    """Two items in one page, only one of them touched by another worker: how often the other one starts again."""
    workers = Workers(writer=writer, ids="ij")
    histories_ = [History.of("xa"), History.of("xa", id_="j")]
    converges(Search(workers, histories_, pages=((0,), (0, 1)), kills=False).run())
    return sum(
        any(attempt.identity.id == "j" and attempt.put for attempt in track.attempts) for track in workers.tracks
    )


def test_an_item_is_not_disturbed_by_what_befalls_another_one():
    assert undisturbed() == 0


# the search can fail


BROKEN: list[tuple[type[Writer], str, str, dict[str, Any]]] = [
    (broken.Unchecked, "xa-ya", "apart", {}),
    (broken.Forgetful, "xa-ya", "apart", {"kills": False}),
    (broken.Hasty, "xa-ya", "apart", {}),
    (broken.Credulous, "xa-xb", "backwards", {}),
    (broken.Narrow, "xa-ya", "apart", {}),
]


@pytest.mark.parametrize(("writer", "names", "clock", "options"), BROKEN, ids=str)
def test_without_one_part_of_the_protocol_it_goes_wrong(writer, names, clock, options):
    found = search(Workers(writer=writer), History.of(names, clock), **options)
    assert found.wrong
    assert "fresh rebuild" in found.wrong
    assert found.steps


def test_without_the_guard_on_removal_readers_miss_an_entry():
    found = search(Workers(writer=broken.Unguarded), History.of("xa-ya-xb"), readers=True, kills=False)
    assert found.wrong == "readers see no entry"


def test_without_writing_again_what_another_writer_is_about_to_remove_readers_miss_an_entry():
    found = search(Workers(writer=broken.Trusting), History.of("xa-ya-xa"), readers=True, kills=False)
    assert found.wrong == "readers see no entry"


def test_a_write_that_fails_for_another_items_sake_is_noticed():
    assert undisturbed(broken.Careless) > 0


# what the search rests on


def test_positions_that_were_made_one_behave_alike():
    workers = Workers()
    workers.merged = {}
    converges(search(workers, History.of("xa-gone")))
    assert workers.check_merging() > len(workers.tracks)


def test_without_making_positions_one_it_comes_to_the_same():
    merged, whole = (search(Workers(merging=merging), History.of("xa-gone")) for merging in (True, False))
    converges(whole)
    assert whole.positions > merged.positions


def test_mirrored_histories_have_as_many_positions():
    one, other = (search(Workers(), History.of(names)) for names in ("xa-xb", "yb-ya"))
    assert one.positions == other.positions


def test_the_clocks_differ_where_it_matters():
    assert {name: [clock(n) for n in (0, 1)] for name, clock in CLOCKS.items()} == {
        "apart": [1_700_000_000, 1_700_000_001],
        "tied": [1_700_000_000, 1_700_000_000],
        "backwards": [1_700_000_000, 1_699_999_999],
    }
