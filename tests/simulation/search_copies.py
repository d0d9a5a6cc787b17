"""Every interleaving of what keeps copies: the workers of an item, of the authors that it refers to, and fan-outs.

One item refers to authors. A worker of the item's feed, one of each author's feed, and one that carries out fan-outs
are at it side by side, each followed by another one where it is killed. There may be a second one that carries out
fan-outs, and of the item and the authors a second worker that has been overtaken: it handles one state, read at any
time. What is left out is said in `search` and `copies`; beyond that, fan-outs are looked for only while one is on
record, as nothing comes of it otherwise. A search may begin where all first states have been dealt with (`settled`).

All have finished when both feeds have been dealt with and no fan-out is on record. Then entries, headers,
back-references and the record are compared with a fresh rebuild: at once, whoever was killed, but for overtaken
workers; else after an audit of the item and of the authors, in either order, each followed by the fan-outs that are
then on record. Such an audit does no harm where nobody was killed. Where one of two fan-outs was killed, the audit is
of the authors alone: the item has not changed, and nobody would look at it again.

Not everything at once can be searched: five workers have too many positions where item and author go through several
states. `tests/prove/interleavings.py` has what is searched. A fan-out has one page, of one item; that it goes on from
page to page is tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from projections.entries import State, document, wanted
from projections.identity import Place
from projections.plan import placement_from
from projections.references import HeaderState
from projections.store import Document
from tests.simulation.copies import HEADERS, RULES, CopyWorkers, use
from tests.simulation.search import Position, Search
from tests.simulation.states import NOW, REFS, STATE, TARGET, History, bare
from tests.simulation.tracks import DEAD, DONE, IDLE, Spot


class CopySearch(Search):
    """A search for a history of the item and one of each author. `overtaken`: of whom there is a second worker.
    `traced`: at every moment there is a back-reference for whatever an entry has a copy of. That is so for the workers
    of feeds; a fan-out may find the item moved on when it has written, and then sees to it."""

    def __init__(
        self,
        workers: CopyWorkers,
        histories: Sequence[History],
        *,
        overtaken: str = "",
        fan_outs: int = 1,
        settled: bool = False,
        kills: bool = True,
        traced: bool = False,
    ) -> None:
        ids = [identity.id for identity in workers.items]
        owners = [[n] for n in range(len(histories)) if histories[n].names]
        others = [[ids.index(id_)] for id_ in overtaken]
        pages: list[list[int]] = [*([] for _ in range(fan_outs)), *others, *owners]
        super().__init__(workers, histories, ["overtaken"] * (len(pages) - 1), kills=kills, pages=pages)
        self._copies = workers
        self._item = workers.items[0]
        self._alike = fan_outs == 2
        self._first_owner = fan_outs + len(others)
        self._traced = traced
        tracks = [DONE] * fan_outs + [IDLE] * len(others) + [DONE] * len(owners)
        first = tuple(min(0, last) for last in self._last) if settled else self._sources[0]
        source = self._number(self._sources, first)
        world = self._number(self._worlds, self._settled(first)) if settled else 0
        self._start = (source, world, source, 0, *tracks)

    def _settled(self, source: tuple[int, ...]) -> tuple[int, ...]:
        """What the spots hold when these states have been dealt with."""
        spots = self._worlds[0]
        for history, at in zip(self._histories, source, strict=True):
            if at >= 0:
                spots = self._undisturbed(self._workers.start([history.state(at)]), spots, source)
        return self._fanned_out(spots, source)

    def _fanned_out(self, spots: tuple[int, ...], source: tuple[int, ...]) -> tuple[int, ...]:
        """What the spots hold when the fan-outs on record have been carried out."""
        return self._undisturbed(self._copies.fan_out(), spots, source)

    # what can happen next

    def _killed(self, number: int) -> int:
        """An owner that has finished begins again only with a newer state, one that was killed with the same."""
        fans_out = not self._pages[number]
        return DONE if fans_out else IDLE if number >= self._first_owner else DEAD

    def _owing(self, number: int) -> int:
        """All but overtaken workers are followed by others who do the same again.

        Of two fan-outs one may end the job of the other. What that one wrote to a header of an older state, before it
        was killed, is found by an audit of the authors (1): their feed tells of the newer one. For an overtaken worker
        it takes one of the item, too (2).
        """
        if number >= self._first_owner:
            return 0
        return 2 if self._pages[number] else int(self._alike)

    def _set_out(self, position: Position, number: int) -> Iterator[Position]:
        source, world, given, killed, *tracks = position
        if not self._pages[number]:
            if self._due(world):
                tracks[number] = self._copies.fan_out()
                yield source, world, given, killed, *tracks
            return
        owns, track, [of] = number >= self._first_owner, tracks[number], self._pages[number]
        if track == IDLE or owns:
            for source_, _, following, _ in self._begins(number, source):
                at = self._sources[source_][of]
                if track == IDLE or at != self._sources[given][of]:
                    tracks[number] = following
                    now = tuple(at if n == of else had for n, had in enumerate(self._sources[given]))
                    yield source_, world, self._number(self._sources, now) if owns else given, killed, *tracks

    def _due(self, world: int) -> bool:
        """Whether there are fan-outs on record."""
        return any(self._worlds[world][n] for n in self._copies.jobs)

    # what is wrong

    def _is_over(self, position: Position) -> bool:
        source, world, given, _, *tracks = position
        return (
            max(tracks) <= DEAD
            and set(tracks[self._first_owner :]) == {DONE}
            and self._sources[source] == self._sources[given] == self._last
            and not self._due(world)
        )

    def _verdict(self, spots: tuple[int, ...], killed: int) -> str | None:
        item, *authors = [[history.present(history.last)] for history in self._histories if history.names]
        wrong = None if killed else self._wrong(spots)
        audits = [authors] if killed == 1 else [[*authors, item], [item, *authors]]
        for audit in audits:
            wrong = wrong or self._wrong(self._audited_by(audit, spots), " after audit")
        return wrong

    def _audited_by(self, audit: Sequence[Sequence[State]], spots: tuple[int, ...]) -> tuple[int, ...]:
        for states in audit:
            spots = self._undisturbed(self._workers.start(states, audit=True), spots, self._last)
            spots = self._fanned_out(spots, self._last)
        return spots

    def _is_torn(self, spots: tuple[int, ...]) -> str | None:
        """A fan-out finds every copy."""
        if not self._traced:
            return None
        found = self._documents(spots)
        entries = [doc for (container, _), doc in found.items() if container == TARGET]
        copied = {copy["id"] for doc in entries for copy in doc["authors"]}
        lost = [id_ for id_ in copied if (REFS, use(id_).back(self._item).plain) not in found]
        return f"there is a copy of {lost}, and no back-reference" if lost else None

    def _documents(self, spots: tuple[int, ...]) -> dict[Spot, Document]:
        found = zip(self._workers.spots, spots, strict=True)
        return {spot: self._workers.documents[n] or {} for spot, n in found if n}

    def _wrong(self, spots: tuple[int, ...], when: str = "") -> str | None:
        documents = self._documents(spots)
        found = {spot: bare(doc) for spot, doc in documents.items() if spot[0] in (TARGET, REFS)}
        headers, own = self._rebuilt()
        if found != headers | own:
            return f"there is {_told(found)}, in a fresh rebuild {_told(headers | own)}{when}"
        records = [doc for (container, _), doc in documents.items() if container == STATE and "entries" in doc]
        listed = {_spot(place) for record in records for place in placement_from({**record, "_etag": ""}).entries}
        return None if listed == set(own) else f"the record lists {listed}, not {set(own)}{when}"

    def _rebuilt(self) -> tuple[dict[Spot, Document], dict[Spot, Document]]:
        """The headers that there should be, and what the item should own."""
        item, *authors = [history.state(history.last) for history in self._histories if history.names]
        headers: dict[str, HeaderState | None] = {}
        kept = {}
        for author in authors:
            [entry] = wanted(HEADERS, author, NOW).entries
            headers[use(author.identity.id).text] = HeaderState(author.version, entry.content.get("copy"), "")
            kept[REFS, entry.place] = bare(document(entry, author, HEADERS.reserved, NOW))
        entries = wanted(RULES, item, NOW, headers).entries
        return kept, {_spot(e.place): bare(document(e, item, RULES.reserved, NOW)) for e in entries}


def _spot(place: Place) -> Spot:
    return (REFS if place.container == "refs" else TARGET), place.plain


def _told(found: Mapping[Spot, Document]) -> list[Document]:
    return sorted(found.values(), key=str)


def authored(item: str, a: str, b: str = "", *, clock: str = "apart") -> list[History]:
    """The histories of an item and of its authors; one of which nothing is said has not arrived yet."""
    authors = [History.of(n, clock, id_) if n else History((), clock, id_) for id_, n in (("a", a), ("b", b))]
    return [History.of(item, clock), *authors]
