"""Every interleaving of real writers at work on one item or two.

A run is a sequence of store calls by several workers, each free to be slow, while the source moves on. One of them is
the owner: it may start at any time, handles the last state after it exists, and is followed by another one where it is
killed, as redelivery does. The others handle one state each, read at any time: a worker that has been overtaken, a
replay, an audit. Any of them may be killed at any call. The search visits every reachable combination of what the store
holds and where the workers are. Where all have finished it is checked against a fresh rebuild: at once if nobody was
killed, else after an audit, which does no harm where nobody was.

What is left out cannot be told from what is in:

- The source moves on only when a worker is about to look at it: nobody can tell whether it did so earlier.
- A worker is killed only right after a write (or never starts): reads leave no trace, so a worker that is killed after
  further reads has left behind the same.
- Of two workers that do the same each may be called the first one.
- Of several mirrored histories there is one (`states.histories`), of positions that behave alike one (`tracks`).
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from struct import Struct
from typing import Any, TypeAlias

from projections.aggregate import Aggregate
from projections.plan import placement_from
from tests.simulation.states import LETTERS, SOURCE, STATE, TARGET, History, bare, rebuilt, summed
from tests.simulation.tracks import DEAD, DONE, IDLE, Looked, Track, Workers
from tests.totals import torn

Position: TypeAlias = tuple[int, ...]
"""Numbers: of the source's states, of what the spots hold, of the states that the owner was given last, whether anybody
was killed who may have left something (1), of the workers' tracks (the owner's is the last)."""
Move: TypeAlias = tuple[int, int, int, frozenset[int] | None]
"""What one worker's next call leads to: the source's states, what the spots hold, its track; the spots it wrote to."""


@dataclass(frozen=True)
class Found:
    """What a search came to: how many positions it visited, and the first run that went wrong, if any."""

    positions: int
    seconds: float = 0.0
    complete: bool = True
    wrong: str | None = None
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.wrong} after", *self.steps])


class Search:
    """A search for one history of each item. `others` names the workers beside the owner; an `audit` reads the states
    itself and looks wider. `pages`: which items each worker handles, the owner last. `readers`: the item always has an
    entry, once it has one; for histories in which every state wants one."""

    def __init__(
        self,
        workers: Workers,
        histories: Sequence[History],
        others: Sequence[str] = ("overtaken",),
        *,
        kills: bool = True,
        readers: bool = False,
        pages: Sequence[Sequence[int]] = (),
    ) -> None:
        assert [history.identity for history in histories] == workers.items
        self._workers = workers
        self._histories = histories
        self._others = others
        self._alike = len(others) == 2 and "audit" not in others and not pages
        self._kills = kills
        self._readers = readers
        self._start: Position = (0, 0, 0, 0, *(IDLE for _ in others), IDLE)
        self._pages = pages or [range(len(histories))] * (len(others) + 1)
        self._last = tuple(history.last for history in histories)
        self._sources: list[tuple[int, ...]] = [(-1,) * len(histories)]  # states of the source, as met
        self._worlds: list[tuple[int, ...]] = [(0,) * len(workers.spots)]  # what the spots hold, as met
        self._entry_counts = [0]  # of each of these worlds
        self._numbers: dict[Any, int] = {(False, self._sources[0]): 0, (True, self._worlds[0]): 0}
        self._starts: dict[tuple[int, int], list[Move]] = {}
        self._moves: dict[tuple[int, int, int], list[tuple[int, Move]]] = {}
        self._outdated: dict[tuple[int, frozenset[int]], int] = {}
        self._verdicts: dict[Any, str | None] = {}
        self._torn: dict[int, str | None] = {}

    def run(self, at_most: int | None = None, seconds: float | None = None) -> Found:
        """Visit every position that can be reached, unless there are too many."""
        began = time.perf_counter()
        start = self._start
        pack = Struct(f"{len(start)}I").pack  # as text of bytes a position needs less memory
        seen, open_ = {pack(*start)}, [start]
        while open_:
            position = open_.pop()
            wrong = self._check(position)
            if wrong:
                names = ", ".join(map(str, self._histories))
                way = self._way(position)
                return Found(len(seen), time.perf_counter() - began, wrong=f"{names}: {wrong}", steps=way)
            for following in self._steps(position):
                packed = pack(*following)
                if packed not in seen:
                    seen.add(packed)
                    open_.append(following)
                if self._readers and self._entries(position) and not self._entries(following):
                    way = (*self._way(position), self._tell(position, following))
                    return Found(len(seen), time.perf_counter() - began, wrong="readers see no entry", steps=way)
            if (at_most and len(seen) > at_most) or (seconds and time.perf_counter() - began > seconds):
                return Found(len(seen), time.perf_counter() - began, complete=False)
        return Found(len(seen), time.perf_counter() - began)

    def _sorted(self, position: Position) -> Position:
        """The same with its workers in order: two that do the same may trade places."""
        if position[4] > position[5]:
            return (*position[:4], position[5], position[4], *position[6:])
        return position

    def _way(self, goal: Position) -> tuple[str, ...]:
        """A shortest run to a position."""
        start = self._start
        came: dict[Position, Position] = {start: start}
        layer = [start]
        while goal not in came:
            reached = []
            for position in layer:
                for following in self._steps(position):
                    if following not in came:
                        came[following] = position
                        reached.append(following)
            layer = reached
        way = []
        while goal != start:
            way.append(self._tell(came[goal], goal))
            goal = came[goal]
        return tuple(way[::-1])

    def _tell(self, before: Position, after: Position) -> str:
        """What happened between two positions."""
        source = f", the source has {self._sources[after[0]]}" if after[0] != before[0] else ""
        for number, track in enumerate(before[4:]):
            if track <= DEAD and after[4 + number] != track:
                return f"{number}: gets state {self._sources[after[0]]}"
            for which, move in self._moves.get((track, *before[:2]), ()):
                killed = after[4 + number] == self._killed(number) != move[2]
                if move[:2] == after[:2] and (killed or move[2] == after[4 + number]):
                    call = self._workers.tracks[track].calls[which]
                    refused = ", refused" if call.name == "write" and move[3] is None else ""
                    return f"{number}: {call}{refused}{source}{', is killed' if killed else ''}"
        return "?"

    # what can happen next

    def _steps(self, position: Position) -> list[Position]:
        """Everything that can happen next."""
        found: list[Position] = []
        for number, track in enumerate(position[4:]):
            found += self._go_on(position, number) if track > DEAD else self._set_out(position, number)
        return list(map(self._sorted, found)) if self._alike else found

    def _go_on(self, position: Position, number: int) -> Iterator[Position]:
        """What one worker's next call comes to; the worker may be killed after it."""
        source, world, given, killed, *tracks = position
        moves = self._moves.get((tracks[number], source, world)) or self._calls(tracks[number], source, world)
        for _, (source_, world_, following, written) in moves:
            after = self._others_after(tracks, written) if written else tracks[:]
            after[number] = following
            yield source_, world_, given, killed, *after
            if written and self._kills and following != DONE:
                after[number] = self._killed(number)
                yield source_, world_, given, max(killed, self._owing(number)), *after

    def _killed(self, number: int) -> int:
        """The track of a worker that was killed: the owner is followed by another one."""
        return IDLE if number == len(self._others) else DEAD

    def _owing(self, number: int) -> int:
        """Whether a worker that is killed may leave what only an audit finds (1)."""
        return 1

    def _set_out(self, position: Position, number: int) -> Iterator[Position]:
        """A worker begins, with the states that the source has by then."""
        source, world, given, killed, *tracks = position
        owns, track = number == len(self._others), tracks[number]
        if track == IDLE or (track == DONE and owns):
            for source_, _, following, _ in self._begins(number, source):
                if track == IDLE or source_ != given:
                    after = tracks[:]
                    after[number] = following
                    yield source_, world, source_ if owns else given, killed, *after

    def _others_after(self, tracks: list[int], written: frozenset[int]) -> list[int]:
        """Where workers are when somebody else wrote to some spots."""
        after = []
        for track in tracks:
            if track > DEAD:
                key = track, written
                if key not in self._outdated:
                    self._outdated[key] = self._workers.outdated(track, written)
                track = self._outdated[key]
            after.append(track)
        return after

    def _begins(self, number: int, source: int) -> list[Move]:
        """How a worker may start: with the states that the source has, now or later."""
        if (number, source) not in self._starts:
            audit = number < len(self._others) and self._others[number] == "audit"
            choices = self._choices(source, self._pages[number])
            self._starts[number, source] = moves = []
            for now in itertools.product(*choices):
                page = [(self._histories[n], now[n]) for n in self._pages[number]]
                states = [history.present(at) if audit else history.state(at) for history, at in page]
                moves.append((self._number(self._sources, now), 0, self._workers.start(states, audit=audit), None))
        return self._starts[number, source]

    def _choices(self, source: int, items: Collection[int]) -> list[Sequence[int]]:
        """What the states of all items may be when these are looked at."""
        at = self._sources[source]
        return [range(max(0, n), last + 1) if i in items else (n,) for i, n, last in zip(count(), at, self._last)]

    def _calls(self, number: int, source: int, world: int) -> list[tuple[int, Move]]:
        """What the pending calls of a worker may come to: which call, and what is then."""
        key = number, source, world
        if key not in self._moves:
            track = self._workers.tracks[number]
            self._moves[key] = [
                (which, move)
                for which, call in enumerate(track.calls)
                for move in (self._looks if call.container == SOURCE else self._acts)(track, which, source, world)
            ]
        return self._moves[key]

    def _looks(self, track: Track, which: int, source: int, world: int) -> Iterator[Move]:
        items = track.spots[which]
        for now in itertools.product(*self._choices(source, items)):
            following = self._workers.after(
                track, which, Looked(tuple(self._histories[n].looks(now[n]) for n in items))
            )
            yield self._number(self._sources, now), world, following, None

    def _acts(self, track: Track, which: int, source: int, world: int) -> Iterator[Move]:
        held, at = list(self._worlds[world]), track.spots[which]
        following, left = self._workers.carry_out(track, which, tuple(held[n] for n in at))
        if left is None:
            yield source, world, following, None
            return
        for n, document in zip(at, left, strict=True):
            held[n] = document
        yield source, self._number(self._worlds, tuple(held)), following, frozenset(at)

    def _number(self, known: list[tuple[int, ...]], what: tuple[int, ...]) -> int:
        key = known is self._worlds, what
        if key not in self._numbers:
            self._numbers[key] = len(known)
            known.append(what)
            if known is self._worlds:
                spots = self._workers.spots
                self._entry_counts.append(sum(n > 0 and spot[0] == TARGET for n, spot in zip(what, spots, strict=True)))
        return self._numbers[key]

    # what is wrong

    def _check(self, position: Position) -> str | None:
        """What is wrong where all have finished, or None."""
        world, killed = position[1], position[3]
        if world not in self._torn:
            self._torn[world] = self._is_torn(self._worlds[world])
        if self._torn[world]:
            return self._torn[world]
        if not self._is_over(position):
            return None
        if (world, killed) not in self._verdicts:
            self._verdicts[world, killed] = self._verdict(self._worlds[world], killed)
        return self._verdicts[world, killed]

    def _is_over(self, position: Position) -> bool:
        """All have finished, and the owner had the last states."""
        _, _, given, _, *tracks = position
        return tracks[-1] == DONE and self._sources[given] == self._last and max(tracks) <= DEAD

    def _verdict(self, spots: tuple[int, ...], killed: int) -> str | None:
        wrong = None if killed else self._wrong(spots)
        return wrong or self._wrong(self._audited(spots), " after audit")

    def _is_torn(self, spots: tuple[int, ...]) -> str | None:
        """Totals are what contributions come to, whatever anybody is about to do."""
        projection = self._workers.rules.projection
        if not isinstance(projection, Aggregate):
            return None
        held = zip(self._workers.spots, spots, strict=True)
        return torn(
            projection, {place: self._workers.documents[n] or {} for (c, place), n in held if n and c == TARGET}
        )

    def _entries(self, position: Position) -> int:
        """How many entries there are."""
        return self._entry_counts[position[1]]

    def _audited(self, spots: tuple[int, ...]) -> tuple[int, ...]:
        """What the spots hold after an audit that nobody disturbs."""
        states = [history.present(history.last) for history in self._histories]
        return self._undisturbed(self._workers.start(states, audit=True), spots, self._last)

    def _undisturbed(self, track: int, spots: tuple[int, ...], source: tuple[int, ...]) -> tuple[int, ...]:
        """What the spots hold when a worker has gone all its way."""
        held = list(spots)
        while track > DEAD:
            here = self._workers.tracks[track]
            at = here.spots[0]
            if here.calls[0].container == SOURCE:
                states = tuple(self._histories[n].looks(source[n]) for n in at)
                track = self._workers.after(here, 0, Looked(states))
                continue
            track, left = self._workers.carry_out(here, 0, tuple(held[n] for n in at))
            for n, document in zip(at, left or (), strict=False):
                held[n] = document
        return tuple(held)

    def _wrong(self, spots: tuple[int, ...], when: str = "") -> str | None:
        found = {spot: self._workers.documents[n] for spot, n in zip(self._workers.spots, spots, strict=True) if n}
        fresh, parked = {}, set()
        for history in self._histories:
            own, bad = rebuilt(self._workers.rules, history.state(history.last))
            fresh |= own
            parked |= {history.identity.entry_id} if bad else set()
        target = {place: bare(doc) for (container, place), doc in found.items() if doc and container == TARGET}
        records = [placement_from({**doc, "_etag": ""}) for (c, _), doc in found.items() if doc and c == STATE]
        letters = {place.id for container, place in found if container == LETTERS}
        listed = {place for record in records for place in record.entries}
        places = set(fresh)
        fresh |= summed(self._workers.rules, [history.state(history.last) for history in self._histories])
        if target != fresh:
            return f"the target holds {target}, a fresh rebuild {fresh}{when}"
        if listed != places:
            return f"the records list {listed}, the target holds {places}{when}"
        if letters != parked or {record.identity.entry_id for record in records if record.parked} != parked:
            return f"there are dead letters of {letters}, not of {parked}, or the records do not agree{when}"
        return None


def search(workers: Workers, *histories: History, others: Sequence[str] = ("overtaken",), **options: Any) -> Found:
    """Visit every position that can be reached."""
    return Search(workers, histories, others, **options).run()
