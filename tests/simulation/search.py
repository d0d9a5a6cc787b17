"""Every interleaving of two real writers at work on one item.

A run is a sequence of store calls by two workers, each free to be slow, while the source moves on. Worker 0 handles
one state, read at any time, and may be killed before any call. Worker 1 owns the item: it may start at any time, and
handles the last state after it exists. The search visits every reachable combination of what the store holds and where
the two workers are, and checks it against a fresh rebuild.

What a writer does next follows from the attempt it began its round with and the answers it got since: that is a
worker's position (`Track`). The writer itself runs only when a position is met for the first time, up to its next
call; all else is applying calls to copies of a memory store. Etags are numbered anew after every step, oldest first,
so that positions that differ in nothing else are one, and workers that keep each other from finishing come back to
where they were. Documents are never changed once they are in a world, so that copies may share them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Coroutine, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

from projections.deadletters import DeadLetters
from projections.declare import Index, SoftDelete, Source
from projections.entries import Rules, State, document, wanted
from projections.errors import ConflictError, ItemError
from projections.identity import Identity, Place
from projections.keys import Key
from projections.memory import MemoryStore, _Data
from projections.plan import Placement, placement_from
from projections.store import Container, Delete, Description, Document, Operation, WriteError
from projections.version import Version
from projections.writer import Attempt, Places, Writer

NOW = 1_700_000_000
SOURCE, TARGET, STATE, LETTERS = (Container("db", name) for name in ("source", "target", "state", "letters"))
ITEM = Identity(Key.of("s"), "i")
RULES = Rules(
    Index(
        name="p",
        source=Source(container="source", key="/s"),
        key="/k",
        deletes=SoftDelete("/deleted"),
        placement_buckets=1,
    )
)
CONTENTS: dict[str, dict[str, Any] | None] = {
    "xa": {"k": "x", "v": "a"},
    "xb": {"k": "x", "v": "b"},
    "ya": {"k": "y", "v": "a"},
    "soft": {"k": "x", "v": "a", "deleted": True},
    "bad": {"k": {}, "v": "a"},  # no key: parked
    "gone": None,
}
CLOCKS = {"apart": lambda n: NOW + n, "tied": lambda n: NOW, "backwards": lambda n: NOW - n}


@dataclass(frozen=True)
class History:
    """The states an item goes through: names of contents, and how the source's clock runs meanwhile."""

    names: tuple[str, ...]
    clock: str = "apart"

    @property
    def last(self) -> int:
        return len(self.names) - 1

    def item(self, number: int) -> Document | None:
        content = CONTENTS[self.names[number]]
        return content and {"id": "i", "s": "s", **content, "_etag": f"s{number}", "_ts": CLOCKS[self.clock](number)}

    def state(self, number: int) -> State:
        """A state as a worker gets it with the feed; of an item that is gone, the last one known."""
        item = self.item(number)
        if item is not None:
            fed = item | {"_lsn": number + 1}
            return State(ITEM, Version.of(fed, from_feed=True), fed)
        return State(ITEM, self.state(number - 1).version.gone() if number else Version(deleted=True), None)

    def __str__(self) -> str:
        return f"{'-'.join(self.names)} ({self.clock})"


# the store


Spot: TypeAlias = tuple[Container, Place]


class World(MemoryStore):
    """A memory store that can be copied and compared. An etag is the number of a write to its place."""

    def __init__(self) -> None:
        super().__init__(clock=lambda: NOW)
        self._shown: dict[Spot, str] = {}
        self.newest: dict[Spot, int] = {}  # the highest number in use
        self.source = -1  # the number of the source's present state

    @staticmethod
    def new() -> World:
        world = World()
        keys = {SOURCE: "/s", TARGET: "/k", STATE: "/pk", LETTERS: "/projection"}
        world._containers = {container: _Data(Description(container, (key,))) for container, key in keys.items()}
        return world

    def copy(self) -> World:
        twin = World()
        for container, data in self._containers.items():
            twin._containers[container] = replace(data, documents=dict(data.documents), log={})
        twin._shown, twin.newest, twin.source = dict(self._shown), dict(self.newest), self.source
        return twin

    def key(self) -> Any:
        return self.source, frozenset(self._shown.items())

    def move(self, history: History, number: int) -> None:
        """The source has this state of the item now."""
        self.source, item = number, history.item(number)
        place = Place("i", ITEM.key)
        self._containers[SOURCE].documents = {place: item} if item else {}
        self._shown.pop((SOURCE, place), None)
        if item:
            self._shown[SOURCE, place] = json.dumps(item)

    def documents(self, container: Container) -> dict[Place, Document]:
        return self._containers[container].documents

    def etags(self) -> list[tuple[Spot, str]]:
        return [(spot, self.documents(spot[0])[spot[1]]["_etag"]) for spot in self._shown if spot[0] != SOURCE]

    async def read(self, container: Container, places: Collection[Place]) -> dict[Place, Document]:
        documents = self.documents(container)
        return {place: documents[place] for place in places if place in documents}

    def show(self, container: Container, places: Collection[Place]) -> tuple[Any, ...]:
        """What reading gives, in a form that can be compared."""
        return tuple(self._shown.get((container, place)) for place in places)

    def rename(self, names: Names) -> None:
        for (container, place), etag in self.etags():
            self._show(container, place, names[(container, place), etag])

    def _show(self, container: Container, place: Place, etag: str) -> None:
        documents = self.documents(container)
        documents[place] = documents[place] | {"_etag": etag}
        self._shown[container, place] = json.dumps(documents[place], sort_keys=True)

    def _put(self, data: _Data, place: Place, document: Document, index: int) -> str:
        super()._put(data, place, document, index)
        spot = (data.description.container, place)
        self.newest[spot] = self.newest.get(spot, 0) + 1
        self._show(*spot, f"t{self.newest[spot]}")
        return f"t{self.newest[spot]}"

    def _apply(self, data: _Data, key: Key, operation: Operation, index: int) -> str | None:
        etag = super()._apply(data, key, operation, index)
        if isinstance(operation, Delete):
            del self._shown[data.description.container, Place(operation.id, key)]
        return etag


Names: TypeAlias = dict[tuple[Spot, str], str]


@dataclass(frozen=True)
class Call:
    """One call to the store."""

    name: str
    container: Container
    arguments: tuple[Any, ...]

    def on(self, world: World) -> Answer:
        try:
            value = at_once(getattr(world, self.name)(self.container, *self.arguments))
        except WriteError as error:
            refused = error.index, type(error.cause).__name__
            return Answer(refused, (), refused=refused)
        if self.name == "read":
            etags = [((self.container, place), document["_etag"]) for place, document in value.items()]
            return Answer(world.show(self.container, *self.arguments), () if self.container == SOURCE else etags, value)
        etags = [(spot, etag) for spot, etag in zip(self.spots(), value, strict=True) if etag]
        return Answer(tuple(value), etags, value)

    def spots(self) -> list[Spot]:
        """Of a write: what it writes to."""
        key, operations = self.arguments
        ids = [operation.id if isinstance(operation, Delete) else operation.document["id"] for operation in operations]
        return [(self.container, Place(id_, key)) for id_ in ids]

    def __str__(self) -> str:
        what = [place.key.text for place in self.arguments[0]] if self.name == "read" else [
            (type(o).__name__, {k: v for k, v in getattr(o, "document", {}).items() if k not in ("id", "pk", "source")})
            for o in self.arguments[1]
        ]  # fmt: skip
        return f"{self.name} {self.container.name}: {what}"


@dataclass(frozen=True, eq=False)
class Answer:
    """What a call gave, and what tells it from another answer to the same call."""

    shown: Any
    etags: Sequence[tuple[Spot, str]]  # those in it
    value: Any = None
    refused: tuple[int, str] | None = None

    def give(self) -> Any:
        if self.refused:
            raise WriteError(self.refused[0], ConflictError(self.refused[1]))
        return self.value

    def renamed(self, names: Names) -> Answer:
        """The same with other etags."""
        if all(names[pair] == pair[1] for pair in self.etags):
            return self
        etags = [(spot, names[spot, etag]) for spot, etag in self.etags]
        if isinstance(self.value, dict):
            named = {spot[1]: etag for spot, etag in etags}
            value: Any = {place: document | {"_etag": named[place]} for place, document in self.value.items()}
            return Answer(tuple(json.dumps(document, sort_keys=True) for document in value.values()), etags, value)
        left = iter(etags)
        value = [etag and next(left)[1] for etag in self.value]
        return Answer(tuple(value), etags, value)


def at_once(call: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        call.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("the memory store waited")


# the workers


class NextCall(Exception):
    """The writer wants something of the store that it has no answer to yet."""


class Script:
    """A store that gives known answers in order, and stops the writer at the next call."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = iter(answers)

    def _next(self, call: Call) -> Any:
        answer = next(self._answers, None)
        if answer is None:
            raise NextCall(call)
        return answer.give()

    async def read(self, container: Container, places: Any) -> dict[Place, Document]:
        return self._next(Call("read", container, (tuple(places),)))

    async def write(self, container: Container, key: Key, operations: Any) -> list[str | None]:
        return self._next(Call("write", container, (key, tuple(operations))))


@dataclass(frozen=True, eq=False)
class Track:
    """The position of a worker: how it began its round, and the answers it got since. One object each."""

    attempt: Attempt
    shown: Any  # what tells the attempt from others
    answers: tuple[Answer, ...]
    call: Call | None  # the next one; None: done

    @property
    def looks(self) -> bool:
        """Whether the next call looks at the source."""
        return self.call is not None and self.call.container == SOURCE

    def etags(self) -> list[tuple[Spot, str]]:
        return [pair for answer in self.answers for pair in answer.etags]


PASSING = {"want", "placement", "stored", "confirmed", "failed", "overtaken", "outcome"}
"""What an attempt has only for the present round, or only to tell afterwards."""


def begun(attempt: Attempt) -> tuple[Attempt, Any]:
    """An attempt as it begins a round, and what tells it from others."""
    fields_ = {field.name: getattr(attempt, field.name) for field in fields(attempt) if field.name not in PASSING}
    fields_["put"] = set(attempt.put)
    shown = {**fields_, "state": (attempt.state.version, json.dumps(attempt.state.item, sort_keys=True))}
    shown["put"], shown["error"] = frozenset(attempt.put), repr(attempt.error)
    return Attempt(**fields_), tuple(shown.items())


async def no_sleep(seconds: float) -> None:
    return None


class Workers:
    """Runs writers of one kind, and remembers what they do."""

    def __init__(self, rules: Rules = RULES, writer: type[Writer] = Writer) -> None:
        self.rules = rules
        self._writer = writer
        self._tracks: dict[Any, Track] = {}
        self._done = Track(Attempt(State(ITEM, Version(), None), 0.0), "done", (), None)
        self._runner = asyncio.Runner()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._runner.close()

    def start(self, state: State) -> Track:
        return self._begin(Attempt(state, 0.0))

    def after(self, track: Track, answers: tuple[Answer, ...]) -> Track:
        """Where a worker is that began a round as this one did and got these answers."""
        key = track.shown, tuple(answer.shown for answer in answers)
        if key not in self._tracks:
            self._tracks[key] = self._run(track.attempt, track.shown, answers)
        return self._tracks[key]

    def _begin(self, attempt: Attempt) -> Track:
        attempt, shown = begun(attempt)
        return self.after(Track(attempt, shown, (), None), ())

    def _run(self, attempt: Attempt, shown: Any, answers: tuple[Answer, ...]) -> Track:
        store: Any = Script(answers)
        writer = self._writer(
            store,
            self.rules,
            Places(SOURCE, TARGET, STATE),
            DeadLetters(store, LETTERS, self.rules.projection.full_name, clock=lambda: NOW),
            now=lambda: NOW,
            monotonic=lambda: 0.0,
            sleep=no_sleep,
        )
        running, _ = begun(attempt)
        try:
            self._runner.run(writer._round([running]))
        except NextCall as stopped:
            return Track(attempt, shown, answers, stopped.args[0])
        return self._done if running.finished else self._begin(running)


# the search


@dataclass(frozen=True)
class Position:
    """Where a whole run is."""

    world: World
    tracks: tuple[Track | None, Track | None]  # None: not started
    given: int = -1  # the number of the state that worker 1 was given last

    def key(self) -> Any:
        return self.world.key(), self.tracks, self.given


@dataclass(frozen=True)
class Found:
    """What a search came to: how many positions it visited, and the first run that went wrong, if any."""

    positions: int
    wrong: str | None = None
    steps: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.wrong} after", *self.steps])


def search(workers: Workers, history: History) -> Found:
    """Visit every position that can be reached."""
    start = Position(World.new(), (None, None))
    came: dict[Any, tuple[Any, Any]] = {start.key(): (None, None)}
    open_ = [start]
    while open_:
        position = open_.pop()
        wrong = check(workers, history, position)
        if wrong:
            return Found(len(came), f"{history}: {wrong}", tuple(way(came, position.key())))
        for step, following in steps(workers, history, position):
            key = following.key()
            if key not in came:
                came[key] = (position.key(), step)
                open_.append(following)
    return Found(len(came))


def way(came: dict[Any, tuple[Any, Any]], key: Any) -> list[str]:
    found = []
    while came[key][0] is not None:
        key, (number, *step) = came[key]
        found.append(f"{number}: {' '.join(map(str, step))}")
    return found[::-1]


def steps(workers: Workers, history: History, position: Position) -> Iterator[tuple[Any, Position]]:
    """Everything that can happen next. The source moves on only when a worker is about to look at it: nobody can tell
    whether it did so earlier."""
    for number, track in enumerate(position.tracks):
        at = position.world.source
        may_start = track is None or (number == 1 and track.call is None and position.given < history.last)
        if may_start:
            for source in range(max(at, position.given + 1 if number else 0), history.last + 1):
                world = moved(position.world, history, source)
                given = source if number else position.given
                after = workers.start(history.state(source))
                yield (number, "gets state", source), reached(workers, changed(position, number, after), world, given)
        elif track is not None and track.call is not None:
            for source in range(at, history.last + 1 if track.looks else at + 1):
                world = moved(position.world, history, source)
                if track.call.name == "write":
                    world = world.copy()
                answer = track.call.on(world)
                after = workers.after(track, (*track.answers, answer))
                tracks = changed(position, number, after)
                yield (number, track.call, answer.shown), reached(workers, tracks, world, position.given)


def moved(world: World, history: History, source: int) -> World:
    if source != world.source:
        world = world.copy()
        world.move(history, source)
    return world


def changed(position: Position, number: int, track: Track) -> tuple[Track | None, Track | None]:
    return (track, position.tracks[1]) if number == 0 else (position.tracks[0], track)


def reached(workers: Workers, tracks: tuple[Track | None, Track | None], world: World, given: int) -> Position:
    """A position, with its etags numbered anew."""
    holders = [world, *(track for track in tracks if track)]
    used: dict[Spot, set[str]] = {}
    for spot, etag in (pair for holder in holders for pair in holder.etags()):
        used.setdefault(spot, set()).add(etag)
    names = {
        (spot, etag): f"t{number}"
        for spot, etags in used.items()
        for number, etag in enumerate(sorted(etags, key=lambda etag: int(etag[1:])), 1)
    }
    newest = {spot: len(etags) for spot, etags in used.items()}
    if newest != world.newest:
        world = world.copy()
        world.newest = newest
    if any(etag != name for (_, etag), name in names.items()):
        world = world.copy()
        world.rename(names)
        zero, one = (
            workers.after(track, tuple(answer.renamed(names) for answer in track.answers))
            if track and track.call
            else track
            for track in tracks
        )
        tracks = zero, one
    return Position(world, tracks, given)


def check(workers: Workers, history: History, position: Position) -> str | None:
    """What is wrong where the owner has finished, or None. Worker 0 may have finished too, or have been killed."""
    zero, one = position.tracks
    if one is None or one.call is not None or position.given != history.last:
        return None
    fresh, letters = rebuilt(workers.rules, history.state(history.last))
    target, placement = position.world.documents(TARGET), placement_of(position.world)
    listed = set(placement.entries) if placement else set()
    if zero is None or zero.call is None:
        present = {place: bare(doc) for place, doc in target.items()}
        if present != fresh:
            return f"the target holds {present}, a fresh rebuild {fresh}"
        if listed != set(fresh):
            return f"the record lists {listed}, the target holds {set(fresh)}"
        if len(position.world.documents(LETTERS)) != letters:
            return f"there are {len(position.world.documents(LETTERS))} dead letters, not {letters}"
        if (placement.parked if placement else False) is not bool(letters):
            return "the record and the dead letters do not agree"
    former = {place for place, _ in placement.former} if placement else set()
    hidden = set(target) - listed - former - set(fresh)
    return f"worker 0 was killed and audit would not look at {hidden}" if hidden else None


def rebuilt(rules: Rules, state: State) -> tuple[dict[Place, Document], int]:
    """The entries and the number of dead letters that the item should have."""
    try:
        entries = wanted(rules, state, NOW).entries
    except ItemError:
        return {}, 1
    return {entry.place: bare(document(entry, state, rules.reserved, NOW)) for entry in entries}, 0


def bare(doc: Document) -> Document:
    """A document without its marks: what readers come for."""
    return {name: value for name, value in doc.items() if not name.startswith("_")}


def placement_of(world: World) -> Placement | None:
    found = list(world.documents(STATE).values())
    return placement_from(found[0]) if found else None
