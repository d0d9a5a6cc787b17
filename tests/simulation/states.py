"""What the searched items go through: their histories, and what a fresh rebuild makes of a state."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from projections.aggregate import Aggregate
from projections.declare import Index, SoftDelete, Source
from projections.entries import Rules, State, document, wanted
from projections.errors import ItemError
from projections.identity import Identity, Place
from projections.keys import Key
from projections.measures import Count, Distinct, Max, Measure, Sum, digest
from projections.store import Container, Document
from projections.totals import TOTAL_ID, value_id
from projections.version import Version
from tests.totals import totals

NOW = 1_700_000_000
SOURCE, TARGET, REFS, STATE, LETTERS = (
    Container("db", name) for name in ("source", "target", "refs", "state", "letters")
)
KEYS = {SOURCE: "/s", TARGET: "/k", REFS: "/ref", STATE: "/pk", LETTERS: "/projection"}
RULES = Rules(
    Index(
        name="p",
        source=Source(container="source", key="/s"),
        key="/k",
        deletes=SoftDelete("/deleted"),
        placement_buckets=1,  # the records of all items are in one logical partition, and share its batches
    )
)
EXPLODED = Rules(
    Index(
        name="p",
        source=Source(container="source", key="/s"),
        key="/k",
        each="/k",
        by="value",
        deletes=SoftDelete("/deleted"),
        placement_buckets=1,
    )
)
"""Every element of /k has an entry under a key of its own."""


def _totals(**measures: Measure) -> Rules:
    return Rules(
        Aggregate(
            name="p",
            source=Source(container="source", key="/s"),
            key="/k",
            measures=measures,
            deletes=SoftDelete("/deleted"),
            placement_buckets=1,
        )
    )


ADDED = _totals(count=Count(), sum=Sum("/n"))
COMPARED = _totals(most=Max("/v"))
COUNTED = _totals(values=Distinct("/v"))
"""Totals of the items under each key: what is added up, what is looked for when it leaves, what has documents."""
CONTENTS: dict[str, dict[str, Any] | None] = {
    "xa": {"k": "x", "v": "a", "n": 0.1},
    "xb": {"k": "x", "v": "b", "n": 0.2},
    "ya": {"k": "y", "v": "a", "n": 0.1},
    "yb": {"k": "y", "v": "b", "n": 0.2},
    "[]": {"k": [], "v": "a"},
    "[x]": {"k": ["x"], "v": "a"},
    "[y]": {"k": ["y"], "v": "a"},
    "[xy]": {"k": ["x", "y"], "v": "a"},
    "soft": {"k": "x", "v": "a", "deleted": True},
    "bad": {"k": {}, "v": "a"},  # no key: parked
    "x:": {"k": "x", "by": []},
    "x:a": {"k": "x", "by": ["a"]},
    "x:b": {"k": "x", "by": ["b"]},
    "x:ab": {"k": "x", "by": ["a", "b"]},
    "y:a": {"k": "y", "by": ["a"]},
    "xx:a": {"k": "x", "v": "other", "by": ["a"]},
    "Ann": {"n": "Ann"},
    "Bob": {"n": "Bob"},
    "gone": None,
}
ENTRIES = ("xa", "xb", "ya", "yb")
ALL = (*ENTRIES, "soft", "gone")
ELEMENTS = ("[]", "[x]", "[y]", "[xy]", "gone")
CLOCKS = {"apart": lambda n: NOW + n, "tied": lambda n: NOW, "backwards": lambda n: NOW - n}


@dataclass(frozen=True)
class History:
    """The states an item goes through: names of contents, and how the source's clock runs meanwhile."""

    names: tuple[str, ...]
    clock: str = "apart"
    id: str = "i"

    @staticmethod
    def of(text: str, clock: str = "apart", id_: str = "i") -> History:
        return History(tuple(text.split("-")), clock, id_)

    @property
    def identity(self) -> Identity:
        return Identity(Key.of("s"), self.id)

    @property
    def last(self) -> int:
        return len(self.names) - 1

    def looks(self, number: int) -> tuple[str, int, str]:
        """All that an item of the source follows from."""
        return (self.names[number], number, self.clock) if number >= 0 else ("gone", -1, self.clock)

    def item(self, number: int) -> Document | None:
        return made(self.id, *self.looks(number))

    def state(self, number: int) -> State:
        """A state as a worker gets it with the feed; of an item that is gone, the last one known."""
        item = self.item(number)
        if item is not None:
            fed = item | {"_lsn": number + 1}
            return State(self.identity, Version.of(fed, from_feed=True), fed)
        version = self.state(number - 1).version.gone() if number else Version(deleted=True)
        return State(self.identity, version, None)

    def present(self, number: int) -> State:
        """A state as it is read from the source."""
        item = self.item(number)
        version = Version.of(item, from_feed=False) if item else Version(deleted=True)
        return State(self.identity, version, item)

    def __str__(self) -> str:
        return f"{'-'.join(self.names)} ({self.clock})"


def made(id_: str, name: str, number: int, clock: str) -> Document | None:
    """An item of the source, unless it is gone."""
    content = CONTENTS[name]
    return content and {"id": id_, "s": "s", "_etag": f"s{number}", **content, "_ts": CLOCKS[clock](number)}


def histories(length: int, clock: str = "apart", names: Sequence[str] = ALL) -> Iterator[History]:
    """Every history of some length, but for mirror images. An item that is gone cannot go again.

    Nothing in the product knows one key or one content from another, so a history in which x and y, or a and b, trade
    places has the same positions under other names: of these, only the one whose first entry is xa is given.
    """
    for chosen in itertools.product(names, repeat=length):
        entries = [name for name in chosen if name in ENTRIES]
        if ("gone", "gone") not in itertools.pairwise(chosen) and (not entries or entries[0] == "xa"):
            yield History(chosen, clock)


def places(rules: Rules, identity: Identity) -> list[Place]:
    """Wherever an item may have entries."""
    found: dict[Place, None] = {}
    for name in CONTENTS:
        item = made(identity.id, name, 0, "apart")
        if item is not None:
            found |= dict.fromkeys(rebuilt(rules, State(identity, Version.of(item, from_feed=False), item))[0])
    return [*found, *_group_places(rules, {place.key for place in found})]


def _group_places(rules: Rules, keys: Collection[Key]) -> list[Place]:
    """Wherever there may be a total, or a distinct value."""
    if not isinstance(rules.projection, Aggregate):
        return []
    ids = [TOTAL_ID]
    for name, measure in rules.projection.measures.items():
        if isinstance(measure, Distinct):
            ids += [value_id((name, digest(value, measure.path))) for value in "ab"]
    return [Place(id_, key) for key in sorted(keys, key=str) for id_ in ids]


def summed(rules: Rules, states: Sequence[State]) -> dict[Place, Document]:
    """The totals that there should be, and the documents of distinct values."""
    if not isinstance(rules.projection, Aggregate):
        return {}
    return totals(rules.projection, [state.item for state in states if state.item and not rebuilt(rules, state)[1]])


def rebuilt(rules: Rules, state: State) -> tuple[dict[Place, Document], bool]:
    """The entries that the item should have, and whether it should be parked."""
    try:
        entries = wanted(rules, state, NOW).entries
    except ItemError:
        return {}, True
    return {entry.place: bare(document(entry, state, rules.reserved, NOW)) for entry in entries}, False


def bare(doc: Document) -> Document:
    """A document without its marks: what readers come for. A total is all of it."""
    marked = "hash" not in doc.get("_source", {"hash": ""})
    return {name: value for name, value in doc.items() if not name.startswith("_") or (marked and name == "_source")}


def canonical(doc: Document) -> str:
    """What tells one stored document from another, etags and counts of attempts apart."""
    kept = {name: value for name, value in doc.items() if name not in ("_etag", "_ts", "attempts")}
    if "leaving" in kept:
        kept["leaving"] = [kept["entries"][number] for number in kept["leaving"]]
    for name in ("entries", "leaving", "former"):
        if name in kept:
            kept[name] = sorted(kept[name], key=json.dumps)
    return json.dumps(kept, sort_keys=True)
