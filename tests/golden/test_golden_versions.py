"""Stored shapes of definitions and aliases, pinned."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from projections.aliases import Alias, Switch
from projections.declare import Catalog, SoftDelete
from projections.definitions import Definition, Due
from projections.describing import completed
from projections.embed import Embed, Reference
from projections.provision import Layout
from projections.revision import Change, Need
from projections.strategies import HashSuffix
from projections.where import field
from tests.support import NOW, ORDERS, index

HERE = Path(__file__).parent
SWITCHES = (
    Switch(version=2, before=1, at=NOW, who="ann", why="a better key"),
    Switch(version=1, before=2, at=NOW + 60, who="bob", forced=True, back=True),
)


def golden(name: str) -> Any:
    return json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))


def definitions() -> dict[str, Definition]:
    spread = index(
        version=2, key=HashSuffix("/status", of="/id", count=8), deletes=SoftDelete("/deleted"),
        where=(field("/total") >= 5) & ~field("/test").is_in(True, None),
    )  # fmt: skip
    people = Reference(source=ORDERS, id="/people/*/id", key="/people/*/shop", fields=("name",))
    embed = Embed(name="with-people", source=ORDERS, key=("/region", "/status"), references={"who": people})
    layout = Layout(Catalog(projections=(spread, embed)), "shop")
    due = (Due(Change("where", None, {"kind": "Exists", "path": "/total"}, Need.REPLAY), NOW),)
    return {
        "definition": replace(Definition.of(layout, spread, NOW), due=due, library="0.1.0"),
        "definition-embed": replace(Definition.of(layout, embed, NOW), dropped_by="ann", library="0.1.0"),
    }


def test_a_definition() -> None:
    """A field that is declared for the first time is no other shape: it is completed with its default."""
    for name, definition in definitions().items():
        stored, pinned = definition.to_stored(), golden(name)
        assert stored | {"fields": None} == pinned | {"fields": None}
        assert stored["fields"] == completed(pinned["fields"])


def test_a_stored_definition_is_read() -> None:
    for name, definition in definitions().items():
        read = Definition.from_stored(golden(name) | {"_etag": ""})
        assert replace(read, fields=completed(read.fields)) == definition


def test_an_alias() -> None:
    assert Alias("by-status", 1, SWITCHES).to_stored() == golden("alias")


def test_a_stored_alias_is_read() -> None:
    assert Alias.from_stored(golden("alias") | {"_etag": "e"}) == Alias("by-status", 1, SWITCHES, "e")
