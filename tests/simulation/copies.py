"""Where the workers of an Embed are: real writers of items and headers, and real fan-outs, run up to their next calls.

One item refers to authors. A fan-out has writers work for it: where it applies a header or an item, a real one goes
through its rounds, and the fan-out goes on (`Run.then`) when that one has finished. What else makes positions one:

- A fan-out that looks again for what is on record rests on nothing: what it has dealt with is no longer there.
- On its way it rests on what it found on record, and on which call comes next.
- It looks once at what it is about to apply. In truth it looks a few times before it believes that an item is gone:
  what it goes by is the last look.
- Nothing here is ever parked, so that looks for dead letters need no answer.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from projections.declare import Source
from projections.embed import Embed, Reference
from projections.embedding import EmbedWriter, HeaderWriter
from projections.entries import Rules, State
from projections.fanout import FanOut, Jobs
from projections.identity import Identity, Place
from projections.keys import Key
from projections.outcomes import Result
from projections.references import Use
from projections.states import fresh
from projections.store import Container, Document
from projections.writer import Attempt, Places
from tests.simulation.states import LETTERS, NOW, REFS, SOURCE, STATE, TARGET, History
from tests.simulation.tracks import (
    DONE,
    PRESENT,
    Answer,
    Call,
    Looked,
    Loop,
    Round,
    Run,
    Running,
    Script,
    Spot,
    Workers,
)

AUTHORS: Final = "ab"
_SOURCE: Final = Source(container="source", key="/s")
EMBED: Final = Embed(
    name="p",
    source=_SOURCE,
    key="/k",
    exclude=("/by",),
    placement_buckets=1,
    references={"authors": Reference(source=_SOURCE, id="/by/*", key=("/s",), fields=("n",))},
)
"""Items and authors are in one source: each worker knows only its own."""
[HEADER] = EMBED.parts
RULES, HEADERS = Rules(EMBED), Rules(HEADER)
FAN_OUT: Final = "fan-out"
APPLIED: Final = Answer((), ())


@dataclass(frozen=True)
class Parts:
    """What the workers are made of."""

    items: type[EmbedWriter] = EmbedWriter
    headers: type[HeaderWriter] = HeaderWriter
    jobs: type[Jobs] = Jobs
    fan_outs: type[FanOut] = FanOut


WHOLE: Final = Parts()


def use(id_: str) -> Use:
    """The reference to an author."""
    return Use(HEADER.reference, History((), id=id_).identity)


class Unlettered(Script):
    """Nothing is parked: a look for dead letters needs no answer."""

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        return {} if container == LETTERS else await super().read(container, places)


class Fanning(Running):
    """Real fan-outs at work."""

    def __init__(self, loop: Loop, parts: Parts) -> None:
        super().__init__(loop, Unlettered(loop))
        self.begun = 0
        self.states: list[State] = []  # to be applied next
        store: Any = self.script
        jobs = parts.jobs(store, STATE, HEADER, lambda: NOW)
        fan_out = parts.fan_outs(store, REFS, HEADER, jobs, RULES.reserved, self._headers, self._items)
        self._begin(fan_out.run())

    async def _headers(self, notices: Sequence[State]) -> list[Result]:
        self.begun += 1
        return await self._items(notices)

    async def _items(self, notices: Sequence[State]) -> list[Result]:
        identities = tuple(notice.identity for notice in notices)
        store: Any = self.script
        self.states = await fresh(store, SOURCE, identities)
        results: list[Result] = await self.script.ask(Call("apply", SOURCE, identities))
        return results


class CopyWorkers(Workers):
    """Runs the writers of an Embed, and its fan-outs."""

    def __init__(self, parts: Parts = WHOLE, *, merging: bool = True) -> None:
        self._parts = parts
        super().__init__(RULES, parts.items, f"i{AUTHORS}", merging=merging)
        self._thens: dict[tuple[int, frozenset[int]], int] = {}
        self.jobs = frozenset(self.numbers[self._job(identity)] for identity in self.items[1:])

    def _all_spots(self) -> Iterator[Spot]:
        item, *authors = self.items
        yield from ((TARGET, Place(item.entry_id, Key.of(key))) for key in "xy")
        yield self._record(item)
        for author in authors:
            yield REFS, use(author.id).header.plain
            yield REFS, use(author.id).back(item).plain
            yield self._job(author)

    def _job(self, author: Identity) -> Spot:
        return STATE, Place(author.entry_id, Key.of(f"{HEADER.full_name}|fanout"))

    # writers

    def _round(self, attempts: Sequence[Attempt]) -> Round:
        """Each round is of the item, or of one author."""
        script = Unlettered(self._loop)
        if attempts[0].identity == self.items[0]:
            places = Places(SOURCE, TARGET, STATE, REFS)
            return Round(self._loop, script, self._parts.items, RULES, attempts, places)
        return Round(self._loop, script, self._header_writer, HEADERS, attempts, Places(SOURCE, REFS, STATE))

    def _header_writer(self, store: Any, *args: Any, **options: Any) -> HeaderWriter:
        writer = self._parts.headers(store, *args, **options)
        writer.jobs = self._parts.jobs(store, STATE, HEADER, lambda: NOW)
        return writer

    # fan-outs

    def fan_out(self) -> int:
        """Where one is that begins to carry out fan-outs."""
        return self._at(Run([], FAN_OUT))

    def _go(self, run: Run) -> int:
        if run.shown != FAN_OUT:
            return super()._go(run)
        here, states = self._fan_out(run)
        item = self.items[0]  # the headers of authors are renewed by a write of the fan-out's own
        attempts = [Attempt(state, 0.0, renew=state.identity == item) for state in states]
        return self._begin(attempts, here) if states else here

    def _fan_out(self, run: Run) -> tuple[int, list[State]]:
        """Where a fan-out is, and what it has a writer apply there."""
        going = Fanning(self._loop, self._parts)
        for which, answer in run.answers:
            going.give(which, self._value(going.script.pending[which][0], answer))
        if going.task.done():
            going.task.result()
            return run.then, []
        [(call, _)] = going.script.pending
        going.leave()
        if run.answers and call.name == "query" and call.container == STATE:
            return self.fan_out(), []
        here = self._meet(run, (FAN_OUT, run.answers[:1], going.begun, repr(call)), [call])
        return here, going.states if call.name == "apply" else []

    def _then(self, then: int, written: frozenset[int]) -> int:
        if then == DONE:
            return then
        key = then, written
        if key not in self._thens:
            self._thens[key], _ = self._fan_out(self._later(self.tracks[then].run, written))
        return self._thens[key]

    def _finished(self, then: int) -> int:
        """A writer that worked for a fan-out has finished: the fan-out goes on."""
        return then if then == DONE else self.after(self.tracks[then], 0, APPLIED)

    def check_merging(self) -> int:
        merged = self.merged or {}
        number = super().check_merging()
        for (then, written), following in list(self._thens.items()):
            for run in merged.get(then, ()):
                assert self._fan_out(self._later(run, written))[0] == following
        return number

    # calls

    def _spots(self, call: Call) -> tuple[int, ...]:
        return () if call.name == "apply" else super()._spots(call)

    def _value(self, call: Call, answer: Answer | Looked) -> Any:
        return [] if call.name == "apply" else super()._value(call, answer)

    def _found(self, call: Call, rows: list[Any]) -> Answer:
        """Of a back-reference only whose it is matters."""
        key, *_ = call.arguments
        if call.container == STATE:
            spots = tuple(self.numbers[STATE, Place(row["id"], key)] for row in rows)
            return Answer(spots, (PRESENT,) * len(rows), rows=json.dumps(rows))
        marks = [{name: row["_source"][name] for name in ("id", "key")} for row in rows]
        return Answer((), (), rows=json.dumps([{"_source": mark} for mark in marks]))
