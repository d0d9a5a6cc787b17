"""The shop of adversity.py with its items added up: random histories of an Aggregate.

Whatever happens, totals are what the stored contributions come to: that is looked at after every step. In the end the
contributions are those of a fresh rebuild, and so are the totals, worked out from the items in fractions.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from projections.aggregate import Aggregate
from projections.declare import SoftDelete, Source
from projections.entries import Rules, State
from projections.identity import Place
from projections.keys import UNDEFINED, Key
from projections.measures import Avg, Count, Distinct, Max, Min, Sum
from projections.outcomes import Result
from projections.states import present
from projections.store import Container, Document
from projections.sweep import Sweep
from projections.totaling import AggregateWriter
from projections.where import field
from projections.writer import Writer
from tests.simulation.adversity import SOURCE, STEPS, TARGET, Between, Found, Shop, counts, difference, expected
from tests.totals import known, torn, totals

NUMBERS: Final = (0.1, 0.2, 0.3, 1, 2, 2.0, 10**18 + 1, -5, None, UNDEFINED, "text", True, 1e101)
"""The last ones park the item, as text does where it is added up."""
MEASURES: Final = {
    "count": Count(), "sum": Sum("/n"), "mean": Avg("/n"),
    "most": Max("/m"), "least": Min("/m"), "kinds": Distinct("/m"),
}  # fmt: skip


class Till(Shop):
    """A shop with totals. Only its contributions are entries; `documents` of the target are those."""

    def __init__(self, seed: int, writer: type[Writer] = AggregateWriter) -> None:
        self._numbers = random.Random(seed)
        super().__init__(seed, writer)

    def _declared(self) -> Rules:
        chance = self.chance
        aggregate = Aggregate(
            name="p",
            source=Source(container="source", key="/shop"),
            key="/k",
            measures=MEASURES,
            null=chance.choice(("skip", "deadletter")),
            missing=chance.choice(("skip", "deadletter")),
            where=chance.choice((None, None, field("/v") < 3)),
            deletes=SoftDelete("/deleted"),
            placement_buckets=chance.choice((1, 2)),
        )
        return Rules(aggregate, source_ttl=-1)

    @property
    def aggregate(self) -> Aggregate:
        assert isinstance(self.rules.projection, Aggregate)
        return self.rules.projection

    async def _put(self, item: Document) -> None:
        sound = self._numbers.random() < 0.9
        values = {name: self._numbers.choice(NUMBERS[:10] if sound else NUMBERS) for name in "nm"}
        await super()._put(item | {name: value for name, value in values.items() if value is not UNDEFINED})

    async def documents(self, container: Container) -> list[Document]:
        found = await super().documents(container)
        return [doc for doc in found if container != TARGET or "contribution" in doc]

    async def stored(self) -> dict[Place, Document]:
        """All that the target holds."""
        found = await super().documents(TARGET)
        return {Place(doc["id"], Key.of(doc["k"])): doc for doc in found}

    async def torn(self) -> str | None:
        return torn(self.aggregate, await self.stored())

    async def drain(self) -> None:
        await super().drain()
        await self.sweep()

    async def sweep(self) -> None:
        """What has expired in silence leaves the totals."""
        between = Between(self.store, self.log, self.chance)
        writer = self._writer_on(between)

        async def apply(notices: Sequence[State]) -> list[Result]:
            return await writer.apply(await present(between, SOURCE, notices))  # type: ignore[arg-type]

        await Sweep(between, TARGET, self.rules.reserved, apply, now=lambda: self.now).run()  # type: ignore[arg-type]

    async def summed(self) -> str | None:
        """What the totals are otherwise than the items come to; of no use while an item is about to expire."""
        states = await self.present()
        entries, parked = expected(self, states)
        if None in entries.values():
            return None
        items = [state.item for state in states if state.item and state.identity not in parked]
        items = [item for item in items if not self._expired(item)]
        fresh = totals(self.aggregate, items)
        found = {place: doc for place, doc in (await self.stored()).items() if "contribution" not in doc}
        found = {place: {n: v for n, v in doc.items() if n[0] != "_" or n == "_source"} for place, doc in found.items()}
        return None if known(found) == known(fresh) else f"the totals are {found}, a fresh rebuild's {fresh}"

    def _expired(self, item: Any) -> bool:
        return bool(item.get("ttl", -1) > 0 and item["_ts"] + item["ttl"] <= self.now)


async def history(seed: int, writer: type[Writer] = AggregateWriter, *, at_most: int | None = None) -> Found:
    """One random history to its end, or its first steps."""
    till = Till(seed, writer)
    await till.open()
    steps, weights = zip(*STEPS, strict=True)
    for step in till.chance.choices(steps, weights, k=till.chance.randint(3, 25))[:at_most]:
        await step(till)
        if torn_ := await till.torn():
            return Found(seed, torn_, till.climate, False, len(till.seen), Counter(), tuple(till.tale))
    await till.drain()
    wrong = None if till.trouble else await difference(till, more_letters=till.trouble.gave_up)
    if not wrong:
        await till.audit()
        wrong = await difference(till, audited=True) or await till.torn() or await till.summed()
        wrong = wrong and f"after audit: {wrong}"
    results = await till.audit()
    wrong = wrong or counts(results, *expected(till, await till.present()))
    outcomes = Counter(result.outcome.value for result in results)
    return Found(seed, wrong, till.climate, bool(till.trouble), len(till.seen), outcomes, tuple(till.tale))
