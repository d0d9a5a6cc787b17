"""What an Embed stores beside entries: headers, back-references, fan-outs under way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from projections.declare import Source
from projections.embed import Embed, Reference
from projections.entries import Rules, State, document, wanted
from projections.fanout import Job
from projections.identity import Identity, Place
from projections.keys import Key
from projections.references import HeaderState
from projections.version import Version
from tests.support import NOW

STORED = Path(__file__).parent / "embed.json"
AUTHOR = Identity(Key.of("de", 7), "a/1 é")
EMBED = Embed(
    name="library",
    source=Source(container="books", key="/shelf"),
    key="/isbn",
    references={
        "author": Reference(
            source=Source(container="authors", key=("/country", "/no")),
            id="/authorId",
            key=("/land", "/no"),
            fields="name",
        )
    },
)
BOOK = {"id": "b1", "shelf": "s", "isbn": "1", "authorId": "a/1 é", "land": "de", "no": 7}


def made() -> dict[str, Any]:
    """Everything that is stored for one book and its author."""
    version = Version('"e"', NOW - 9, 4)
    writer = State(AUTHOR, version, {"id": "a/1 é", "country": "de", "no": 7, "name": "Ann", "born": 1})
    gone = State(AUTHOR, version.gone(), None)
    book = State(Identity(Key.of("s"), "b1"), Version('"b"', NOW - 5), {**BOOK, "_ts": NOW - 5})
    [part] = EMBED.parts
    [header] = wanted(Rules(part), writer, NOW).entries
    [gone_header] = wanted(Rules(part), gone, NOW).entries
    assert writer.item
    fleeting = State(AUTHOR, version, {**writer.item, "ttl": 60, "_ts": NOW - 9})
    [expiring] = wanted(Rules(part, source_ttl=-1), fleeting, NOW).entries
    headers = {header.content["ref"]: HeaderState(version, header.content["copy"], "t")}
    back, entry = wanted(Rules(EMBED), book, NOW, headers).entries
    return {
        "entry": document(entry, book, "_source", NOW),
        "back-reference": document(back, book, "_source", NOW),
        "its place": back.place.to_stored(),
        "header": document(header, writer, "_source", NOW),
        "header of what is gone": document(gone_header, gone, "_source", NOW),
        "header of what expires": document(expiring, writer, "_source", NOW),
        "fan-out": Job(AUTHOR, "b1~x", 200, 4_000, NOW).to_stored(f"{part.full_name}|fanout"),
    }


def test_what_an_embed_stores() -> None:
    assert json.dumps(made(), indent=1, ensure_ascii=False) == STORED.read_text(encoding="utf-8").rstrip("\n")


def test_what_is_stored_is_read() -> None:
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    assert Job.from_stored(stored["fan-out"] | {"_etag": "t"}) == Job(AUTHOR, "b1~x", 200, 4_000, NOW, "t")
    assert Place.from_stored(stored["its place"]).container == "refs"
    assert HeaderState.of(stored["header"] | {"_etag": "t"}, "_source").copy == {"id": "a/1 é", "name": "Ann"}
    assert HeaderState.of(stored["header of what is gone"] | {"_etag": "t"}, "_source").copy is None
