"""What a change says, in either mode of the feed: of which item, in which state, made when.

A change of the latest-version feed is the item itself. One of all versions and deletes is a wrapper around it,
{"current", "previous", "metadata"}: of an item that is gone there is only what the metadata tells, its id and the
values of its partition key by their paths (facts.md 15). On its way through the Functions host the wrapper may have no
`current`, or null in its place, and `operationType` may begin with a capital letter (.NET's ChangeFeedItem).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from projections.entries import State
from projections.errors import FatalError
from projections.identity import Identity
from projections.keys import UNDEFINED, Key, Plain, at, parse_path
from projections.version import Version


def is_version(change: Mapping[str, Any]) -> bool:
    """Whether a change is of the feed of all versions: an item always has an etag, and a wrapper has none."""
    return "_etag" not in change and isinstance(change.get("metadata"), Mapping)


def state_of(change: Mapping[str, Any], key: Plain) -> State:
    """The state of an item that a change tells of.

    Raises:
        FatalError: it tells of a delete, and nobody can say of which item.
    """
    if not is_version(change):
        return State(Identity.of(change, key), Version.of(change, from_feed=True), change)
    metadata, item = change["metadata"], change.get("current") or {}
    if _is_delete(change):
        version = Version(ts=metadata.get("crts"), lsn=metadata.get("lsn"), deleted=True)
        return State(_deleted(change, key), version, None)
    return State(Identity.of(item, key), Version(item["_etag"], item["_ts"], metadata.get("lsn")), item)


def made_at(change: Mapping[str, Any]) -> int:
    """When a change was made, in epoch seconds."""
    made: int = change["metadata"]["crts"] if is_version(change) else change["_ts"]
    return made


def rid_of(change: Mapping[str, Any]) -> str:
    """The store's own name of the item; "" where a delete does not tell it."""
    item = (change.get("current") or change.get("previous") or {}) if is_version(change) else change
    return str(item.get("_rid") or "")


def _is_delete(change: Mapping[str, Any]) -> bool:
    return str(change["metadata"].get("operationType")).casefold() == "delete" or not change.get("current")


def _deleted(change: Mapping[str, Any], key: Plain) -> Identity:
    previous = change.get("previous")
    if previous:
        return Identity.of(previous, key)
    metadata = change["metadata"]
    id_, told = metadata.get("id"), metadata.get("partitionKey")
    if not isinstance(id_, str) or not isinstance(told, Mapping | None):
        raise FatalError("the feed tells of a delete, but not of which item", hint=UNKNOWN_HINT)
    return Identity(Key.of(*_values(told or {}, key.paths)), id_)


UNKNOWN_HINT: Final = "read the source in its latest-version mode: leave Source(mode=...) out"


def _values(told: Mapping[str, Any], paths: Sequence[str]) -> list[Any]:
    """The values of a key, one a level; UNDEFINED where the item had none.

    How a path of several names is written there is documented nowhere; every form is understood that can be told from
    the others. Values under names that are no level's would be of another key, and are not guessed at.
    """
    left, values = dict(told), dict.fromkeys(paths, UNDEFINED)
    for form in FORMS:
        for path in paths:
            name = form(parse_path(path))
            if values[path] is UNDEFINED and name in left and not isinstance(left[name], Mapping):
                values[path] = left.pop(name)
    for path in paths:
        if values[path] is UNDEFINED:
            values[path] = at(left, parse_path(path))
    unknown = left.keys() - {parse_path(path)[0] for path in paths}
    if unknown:
        raise FatalError(
            f"the feed tells of a delete under {', '.join(sorted(unknown))}; the source is declared with the key "
            f"{', '.join(paths)}",
            hint=UNKNOWN_HINT,
        )
    return [UNDEFINED if isinstance(value, Mapping) and not value else value for value in values.values()]


FORMS: Final[Sequence[Callable[[Sequence[str]], str]]] = (
    "/".join, lambda names: f"/{'/'.join(names)}", ".".join, lambda names: names[-1],
)  # fmt: skip
