"""Where a worker is: real writers, run up to their next calls to the store and remembered.

What a writer does next follows from the attempts it began its round with and the answers it got since. The writer runs
only when a position is met for the first time; all else is looking up. Calls that a writer has under way at once (a
bulk read of several places, batches of several partitions) are answered one by one, in every order.

Three things make positions that differ in nothing else one:

- An etag is only ever compared with the present one, so what a worker holds of a place is present ("+") or not ("-").
- A new round rests on its attempts alone (`begun`).
- Within a round, what was read before the decision rests in the decision, and what was decided has had its use when
  the round comes to its end (`Stage`). What the rest of each stage uses is listed in `resting`; a test checks that
  positions which were made one for this behave as one.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Collection, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from enum import IntEnum
from typing import Any, Final, NamedTuple, TypeAlias

from projections.aggregate import Aggregate
from projections.deadletters import DeadLetters
from projections.entries import Rules, State
from projections.errors import ConflictError
from projections.identity import Identity, Place
from projections.keys import Key
from projections.memory import MemoryStore, _Data
from projections.store import Container, Delete, Description, Document, WriteError
from projections.totaling import AggregateWriter
from projections.writer import Attempt, Places, Writer
from tests.simulation.states import (
    KEYS,
    LETTERS,
    NOW,
    REFS,
    RULES,
    SOURCE,
    STATE,
    TARGET,
    History,
    canonical,
    made,
    places,
)

IDLE, DONE, DEAD = 0, 1, 2
"""Tracks of a worker that has not started, has finished, was killed."""

Spot: TypeAlias = tuple[Container, Place]
PRESENT, OUTDATED = "+", "-"


@dataclass(frozen=True)
class Call:
    """One call to the store."""

    name: str
    container: Container
    arguments: tuple[Any, ...]

    def spots(self) -> list[Spot]:
        """What it reads, or writes to."""
        if self.name == "query":
            return []
        if self.name == "read":
            return [(self.container, place) for place in self.arguments[0]]
        key, operations = self.arguments
        ids = [operation.id if isinstance(operation, Delete) else operation.document["id"] for operation in operations]
        return [(self.container, Place(id_, key)) for id_ in ids]

    def __str__(self) -> str:
        if self.name == "query":
            return f"query {self.container.name}: {self.arguments[0]} {self.arguments[1]}"
        what = [(place.id[0], place.key.text) for place in self.arguments[0]] if self.name == "read" else [
            (type(o).__name__, {k: v for k, v in getattr(o, "document", {}).items() if k not in ("id", "pk", "source")})
            for o in self.arguments[1]
        ]  # fmt: skip
        return f"{self.name} {self.container.name}: {what}"


@dataclass(frozen=True)
class Answer:
    """What a call gave: of a read the numbers of documents, of a write the etags or the refusal."""

    spots: tuple[int, ...]  # those of which the worker knows the etag
    etags: tuple[str | None, ...]
    documents: tuple[int, ...] = ()
    refused: int | None = None
    rows: str = "[]"  # of a query

    def outdated(self, spots: Collection[int]) -> Answer:
        """The same after somebody wrote there."""
        if not any(spot in spots and etag == PRESENT for spot, etag in zip(self.spots, self.etags, strict=True)):
            return self
        etags = tuple(
            OUTDATED if spot in spots and etag else etag for spot, etag in zip(self.spots, self.etags, strict=True)
        )
        return replace(self, etags=etags)


@dataclass(frozen=True)
class Looked:
    """What the source had of items: of each the name of its content, the number of its state, and the clock."""

    states: tuple[tuple[str, int, str], ...]

    def outdated(self, spots: Collection[int]) -> Looked:
        return self


Given: TypeAlias = tuple[int, Answer | Looked]
"""Which of the pending calls was answered, and how."""


class Loop(asyncio.AbstractEventLoop):
    """Just enough of an event loop to run tasks until they all wait."""

    def __init__(self) -> None:
        self._ready: deque[Any] = deque()

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        self._ready.append((callback, args, context))

    def create_future(self) -> Any:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, **options: Any) -> Any:
        return asyncio.Task(coro, loop=self)

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise AssertionError(context)

    def settle(self) -> None:
        asyncio.events._set_running_loop(self)
        try:
            while self._ready:
                callback, args, context = self._ready.popleft()
                context.run(callback, *args) if context else callback(*args)
        finally:
            asyncio.events._set_running_loop(None)


class Script:
    """A store of which every call waits for somebody to answer it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.pending: list[tuple[Call, asyncio.Future[Any]]] = []

    def ask(self, call: Call) -> asyncio.Future[Any]:
        future = self._loop.create_future()
        self.pending.append((call, future))
        return future

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        """A bulk read is no snapshot: each place is read at a time of its own. The source's items have one time each,
        too, but each is its own item's business."""
        asked = sorted(places, key=str)
        if container in (TARGET, REFS):
            calls = [self.ask(Call("read", container, ((place,),))) for place in asked]
        else:
            calls = [self.ask(Call("read", container, (tuple(asked),)))]
        found: dict[Place, Document] = {}
        for call in calls:
            found |= await call
        return found

    async def write(self, container: Container, key: Key, operations: Any) -> list[str | None]:
        result: list[str | None] = await self.ask(Call("write", container, (key, tuple(operations))))
        return result

    async def query(
        self, container: Container, text: str, parameters: Mapping[str, Any], key: Key
    ) -> AsyncIterator[list[Any]]:
        yield await self.ask(Call("query", container, (key, text, dict(parameters))))


class Stage(IntEnum):
    """How far a round is."""

    READING = 0
    WRITING = 1  # from the decision on
    ENDING = 2  # nothing is left but to look at the source again


class Run(NamedTuple):
    """How a worker came to where it is: the beginning of its round, and the answers it got since."""

    attempts: list[Attempt]
    shown: Any  # what tells these attempts from others
    answers: tuple[Given, ...] = ()
    then: int = DONE  # the track that follows when all attempts are finished

    @property
    def key(self) -> tuple[Any, ...]:
        return self[1:]


class Track:
    """The position of a worker. One object each; `number` tells it from others."""

    __slots__ = ("calls", "number", "run", "spots")

    def __init__(self, run: Run, calls: list[Call]) -> None:
        self.run = run
        self.calls = calls
        self.number = -1
        self.spots: list[tuple[int, ...]] = []  # of each call

    @property
    def attempts(self) -> list[Attempt]:
        return self.run.attempts


PASSING = {"want", "headers", "placement", "stored", "confirmed", "failed", "overtaken", "outcome"}
"""What an attempt has only for the present round, or only to tell afterwards."""
KEPT = [field.name for field in fields(Attempt) if field.name not in PASSING]


def begun(attempt: Attempt) -> Attempt:
    """An attempt as it begins a round."""
    kept = {name: getattr(attempt, name) for name in KEPT}
    return Attempt(**kept | {"put": set(attempt.put)})


def resting(attempt: Attempt) -> tuple[Any, ...]:
    """What tells an attempt from others at the beginning of a round."""
    kept = {name: getattr(attempt, name) for name in KEPT}
    item = attempt.state.item
    kept["state"] = (attempt.identity, attempt.state.version, item and json.dumps(item, sort_keys=True))
    kept["put"], kept["error"] = frozenset(attempt.put), repr(attempt.error)
    return tuple(kept.values())


PLACES: Final = Places(SOURCE, TARGET, STATE)


class Running:
    """Real code at work on a scripted store."""

    def __init__(self, loop: Loop, script: Script) -> None:
        self._loop = loop
        self.script = script
        self.answered = 0

    def _begin(self, work: Coroutine[Any, Any, Any]) -> None:
        self.task = self._loop.create_task(work)
        self._loop.settle()

    def give(self, which: int, value: Any) -> None:
        """Answer one of the pending calls."""
        _, future = self.script.pending.pop(which)
        self.answered += 1
        if isinstance(value, Exception):
            future.set_exception(value)
        else:
            future.set_result(value)
        self._loop.settle()

    def leave(self) -> None:
        self.task.cancel()
        self._loop.settle()
        with contextlib.suppress(asyncio.CancelledError):
            self.task.result()


class Round(Running):
    """A real writer at its work of one round."""

    def __init__(
        self, loop: Loop, script: Script, writer: Any, rules: Rules, attempts: Sequence[Attempt],
        places: Places = PLACES,
    ) -> None:  # fmt: skip
        super().__init__(loop, script)
        self.attempts = [begun(attempt) for attempt in attempts]
        store: Any = script
        self.writer = writer(
            store,
            rules,
            places,
            DeadLetters(store, LETTERS, rules.projection.full_name, clock=lambda: NOW),
            now=lambda: NOW,
            monotonic=lambda: 0.0,
            sleep=_no_sleep,
        )
        self.stage, self.since = Stage.READING, 0
        self._decided: list[tuple[Attempt, Any]] = []
        self._watch()
        self._begin(self.writer._round(self.attempts))

    def _watch(self) -> None:
        """Note which stage the round is in."""
        writer: Any = self.writer
        decide, again, finish = writer._decide, writer._start_again, writer._finish

        async def decided(attempts: list[Attempt]) -> Any:
            self._decided = await decide(attempts)
            self._reaches(Stage.WRITING)
            return self._decided

        async def starting_again(attempts: list[Attempt]) -> None:
            if self.stage is not Stage.READING:
                self._reaches(Stage.ENDING)
            await again(attempts)

        async def finishing(attempts: list[Attempt]) -> None:
            if all(a in attempts or a.failed or a.finished for a, _ in self._decided):
                self._reaches(Stage.ENDING)  # else: those that need no write, before the others write
            await finish(attempts)

        writer._decide, writer._start_again, writer._finish = decided, starting_again, finishing

    def _reaches(self, stage: Stage) -> None:
        if stage > self.stage:
            self.stage, self.since = stage, self.answered

    def resting(self) -> tuple[Any, ...]:
        """What the rest of the round rests on, beside the answers since the stage began."""
        decisions = {id(attempt): decision for attempt, decision in self._decided}
        seen = []
        for attempt in self.attempts:
            own = [*resting(attempt), attempt.failed, id(attempt) in decisions, _copied(attempt)]
            if self.stage is Stage.WRITING:
                record = attempt.placement
                own.append(record and (record.etag, record.parked, record.version.etag))
                own += [frozenset(attempt.stored), repr(decisions.get(id(attempt))), self._taken_back(attempt)]
            seen.append(tuple(own))
        return self.stage, tuple(seen)

    def _taken_back(self, attempt: Attempt) -> frozenset[str]:
        """Of an Aggregate what is stored matters beyond its hash: it is taken out of totals."""
        totals = isinstance(self.writer, AggregateWriter)
        return frozenset(canonical(dict(stored.document)) for stored in attempt.stored.values() if totals)


def _copied(attempt: Attempt) -> str:
    """What the look at the headers compares with."""
    return repr([(text, header and header.copy) for text, header in attempt.headers.items()])


async def _no_sleep(seconds: float) -> None:
    return None


NOWHERE: Final[frozenset[int]] = frozenset()


class Workers:
    """Runs writers of one kind on some items, and remembers what they do."""

    def __init__(
        self, rules: Rules = RULES, writer: type[Writer] | None = None, ids: str = "i", *, merging: bool = True
    ) -> None:
        self.rules = rules
        self._writer = writer or (AggregateWriter if isinstance(rules.projection, Aggregate) else Writer)
        self._merging = merging
        self._loop = Loop()
        self.items = [History((), id=id_).identity for id_ in ids]
        self.numbers: dict[Spot, int] = {}
        for spot in self._all_spots():
            self.numbers.setdefault(spot, len(self.numbers))  # items share totals
        self.spots = list(self.numbers)
        self.documents: list[Document | None] = [None]
        self._document_numbers: dict[str, int] = {}
        self.tracks: list[Track] = [Track(Run([], None), []) for _ in (IDLE, DONE, DEAD)]
        self._tracks: dict[Any, int] = {}
        self._positions: dict[Any, int] = {}
        self._outdated: dict[Any, int] = {}
        self.merged: dict[int, list[Run]] | None = None  # what was made one, where somebody wants to know
        self._steps: dict[Any, int] = {}

    def _all_spots(self) -> Iterator[Spot]:
        """Whatever workers may write to."""
        for identity in self.items:
            for place in places(self.rules, identity):
                yield TARGET, place
            yield self._record(identity)
            yield LETTERS, Place(identity.entry_id, Key.of(self.rules.projection.full_name))

    def _record(self, identity: Identity) -> Spot:
        return STATE, Place(identity.entry_id, Key.of(f"{self.rules.projection.full_name}|0"))

    # documents

    def document_number(self, document: Document | None) -> int:
        if document is None:
            return 0
        text = canonical(document)
        if text not in self._document_numbers:
            self._document_numbers[text] = len(self.documents)
            self.documents.append({name: value for name, value in document.items() if name not in ("_etag", "_ts")})
        return self._document_numbers[text]

    # tracks

    def start(self, states: Sequence[State], *, audit: bool = False) -> int:
        return self._begin([Attempt(state, 0.0, audit=audit) for state in states])

    def _begin(self, attempts: Sequence[Attempt], then: int = DONE) -> int:
        attempts = [begun(attempt) for attempt in attempts]
        return self._at(Run(attempts, tuple(map(resting, attempts)), then=then))

    def after(self, track: Track, which: int, answer: Answer | Looked, written: frozenset[int] = NOWHERE) -> int:
        """Where a worker is that was here, wrote to some spots and got this answer."""
        key = track.number, which, answer, written
        if key not in self._steps:
            self._steps[key] = self._at(self._answered(track.run, which, answer, written))
        return self._steps[key]

    def outdated(self, number: int, written: frozenset[int]) -> int:
        """Where a worker is that was here when somebody else wrote to some spots."""
        key = number, written
        if key not in self._outdated:
            self._outdated[key] = self._at(self._later(self.tracks[number].run, written))
        return self._outdated[key]

    def _answered(self, run: Run, which: int, answer: Answer | Looked, written: frozenset[int]) -> Run:
        run = self._later(run, written)
        return run._replace(answers=(*run.answers, (which, answer)))

    def _later(self, run: Run, written: frozenset[int]) -> Run:
        """The same when some spots have been written to."""
        if not written:
            return run
        answers = tuple((which, given.outdated(written)) for which, given in run.answers)
        return run._replace(answers=answers, then=self._then(run.then, written))

    def _then(self, then: int, written: frozenset[int]) -> int:
        """What follows when all attempts are finished, where some spots have been written to meanwhile."""
        return then

    def check_merging(self) -> int:
        """See that positions that were made one are followed by the same, whatever happens; how many there are."""
        assert self.merged is not None
        merged, self.merged = self.merged, None
        for (number, which, answer, written), following in list(self._steps.items()):
            for run in merged.get(number, ()):
                assert self._at(self._answered(run, which, answer, written)) == following
        for (number, written), following in list(self._outdated.items()):
            for run in merged.get(number, ()):
                assert self._at(self._later(run, written)) == following
        return sum(len(members) for members in merged.values())

    def _at(self, run: Run) -> int:
        if run.key not in self._tracks:
            self._tracks[run.key] = self._go(run)
        return self._tracks[run.key]

    def _round(self, attempts: Sequence[Attempt]) -> Round:
        return Round(self._loop, Script(self._loop), self._writer, self.rules, attempts)

    def _go(self, run: Run) -> int:
        """Have the worker at it, up to its next calls."""
        running = self._round(run.attempts)
        for which, answer in run.answers:
            running.give(which, self._value(running.script.pending[which][0], answer))
        if running.task.done():
            running.task.result()
            left = [attempt for attempt in running.attempts if not attempt.finished]
            return self._begin(left, run.then) if left else self._finished(run.then)
        calls = [call for call, _ in running.script.pending]
        assert calls, "the writer waits for nothing"
        since = running.since if self._merging and running.stage is not Stage.READING else 0
        rests = running.resting() if since else run.shown
        running.leave()
        return self._meet(run, (rests, run.answers[since:], run.then), calls)

    def _finished(self, then: int) -> int:
        """Where a worker is when all attempts are finished."""
        return then

    def _meet(self, run: Run, position: Any, calls: list[Call]) -> int:
        """The number of a position: a new one, unless it was met before."""
        if position not in self._positions:
            track = Track(run, calls)
            track.number = self._positions[position] = len(self.tracks)
            track.spots = [self._spots(call) for call in calls]
            self.tracks.append(track)
        number = self._positions[position]
        assert self.tracks[number].calls == calls, "positions that differ were taken for one"
        if self.merged is not None:
            self.merged.setdefault(number, []).append(run)
        return number

    def _spots(self, call: Call) -> tuple[int, ...]:
        """The numbers of a call's spots; of the source, those of items."""
        if call.name == "query":
            key, *_ = call.arguments
            return tuple(
                n for (container, place), n in self.numbers.items() if (container, place.key) == (call.container, key)
            )
        if call.container == SOURCE:
            ids = [identity.id for identity in self.items]
            return tuple(ids.index(place.id) for _, place in call.spots())
        return tuple(self.numbers[spot] for spot in call.spots())

    def _value(self, call: Call, answer: Answer | Looked) -> Any:
        """An answer as the writer gets it."""
        if isinstance(answer, Looked):
            shown = zip(call.arguments[0], answer.states, strict=True)
            items = {place: made(place.id, *state) for place, state in shown}
            return {place: item for place, item in items.items() if item}
        if answer.refused is not None:
            return WriteError(answer.refused, ConflictError("refused"))
        if call.name == "write":
            return list(answer.etags)
        if call.name == "query":
            etags = {self.spots[n][1].id: etag for n, etag in zip(answer.spots, answer.etags, strict=True)}
            return [row | {"_etag": etags[row["id"]]} if "_etag" in row else row for row in json.loads(answer.rows)]
        return {
            place: {**(self.documents[number] or {}), "_etag": etag, "_ts": NOW}
            for place, number, etag in zip(call.arguments[0], answer.documents, answer.etags, strict=True)
            if number
        }

    # calls

    def _found(self, call: Call, rows: list[Any]) -> Answer:
        """What the rows of a query say."""
        return Answer((), (), rows=json.dumps(rows))

    def carry_out(self, track: Track, which: int, documents: tuple[int, ...]) -> tuple[int, tuple[int, ...] | None]:
        """Carry a call out where its spots hold these documents: where the worker is then, what the spots hold then.

        None: nothing was written.
        """
        call, spots = track.calls[which], track.spots[which]
        if call.name == "query":
            key, text, parameters = call.arguments
            held = [(self.spots[n][1], self.documents[number]) for n, number in zip(spots, documents, strict=True)]
            store = _store(call.container, *zip(*held, strict=True))
            rows = at_once(anext(store.query(call.container, text, parameters, key)))
            return self.after(track, which, self._found(call, rows)), None
        if call.name == "read":
            answer = Answer(spots, tuple(PRESENT if number else None for number in documents), documents)
            return self.after(track, which, answer), None
        store = _store(call.container, [spot for _, spot in call.spots()], [self.documents[n] for n in documents])
        key, operations = call.arguments
        try:
            etags = at_once(store.write(call.container, key, [_unguarded(o) for o in operations]))
        except WriteError as error:
            return self.after(track, which, Answer((), (), refused=error.index)), None
        answer = Answer(spots, tuple(etag and PRESENT for etag in etags))
        held = store._containers[call.container].documents
        left = tuple(self.document_number(held.get(place)) for _, place in call.spots())
        return self.after(track, which, answer, frozenset(spots)), left


def _store(container: Container, places: Sequence[Place], documents: Sequence[Document | None]) -> MemoryStore:
    """A memory store that holds this and nothing else."""
    store = MemoryStore(clock=lambda: NOW)
    held = {p: {**d, "_etag": PRESENT, "_ts": NOW} for p, d in zip(places, documents, strict=True) if d}
    store._containers[container] = _Data(Description(container, (KEYS[container],)), held)
    return store


ANY = "any"
"""In a broken writer's Delete: whatever is there."""


def _unguarded(operation: Any) -> Any:
    return Delete(operation.id, PRESENT) if isinstance(operation, Delete) and operation.etag == ANY else operation


def at_once(call: Any) -> Any:
    """The result of what is awaited and waits for nothing."""
    try:
        call.__await__().send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the memory store waited")
