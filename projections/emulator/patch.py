"""Partial document update: the six operations, on a copy of the item."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from projections.emulator.errors import bad_request

MAX_OPERATIONS = 10
_SYSTEM = frozenset(("id", "_rid", "_self", "_etag", "_ts", "_attachments"))
_NOTHING = object()


def parse(body: Any) -> tuple[list[dict[str, Any]], str | None]:
    """Operations and condition of a patch body; some SDKs send the bare array."""
    if isinstance(body, list):
        operations: Any = body
        condition: Any = None
    elif isinstance(body, dict):
        operations, condition = body.get("operations"), body.get("condition")
    else:
        operations, condition = None, None
    if not isinstance(operations, list) or not operations:
        raise bad_request("The patch request has no operations.")
    if len(operations) > MAX_OPERATIONS:
        raise bad_request(f"The number of patch operations can't exceed '{MAX_OPERATIONS}'.")
    if not all(isinstance(one, dict) for one in operations):
        raise bad_request("A patch operation has to be an object.")
    if condition is not None and not isinstance(condition, str):
        raise bad_request("The patch condition has to be a string.")
    return operations, condition


def apply(
    document: Mapping[str, Any], operations: Sequence[Mapping[str, Any]], key_paths: Sequence[tuple[str, ...]] = ()
) -> dict[str, Any]:
    """The document after all operations; 400 at the first that does not fit, and then none counts."""
    made: dict[str, Any] = copy.deepcopy(dict(document))
    for operation in operations:
        name = str(operation.get("op", "")).lower()
        path = _path(operation.get("path"), key_paths)
        run = _OPERATIONS.get(name)
        if name == "move":
            _move(made, _path(operation.get("from"), key_paths), path)
        elif run is None:
            raise bad_request(f"The patch operation '{operation.get('op')}' is not known.")
        else:
            if name != "remove" and "value" not in operation:
                raise bad_request(f"The patch operation '{name}' needs a value.")
            run(made, path, operation.get("value"))
    return made


def _path(path: Any, key_paths: Sequence[tuple[str, ...]]) -> list[str]:
    if not isinstance(path, str) or not path.startswith("/") or path == "/":
        raise bad_request(f"The patch path '{path}' is invalid.")
    parts = [part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/")]
    if parts[0] in _SYSTEM:
        raise bad_request(f"The patch path '{path}' is a system property and cannot be changed.")
    if any(tuple(parts) == key[: len(parts)] for key in key_paths):
        raise bad_request(f"The patch path '{path}' belongs to the partition key and cannot be changed.")
    return parts


def _parent(document: dict[str, Any], path: list[str]) -> Any:
    """What holds the last part of the path."""
    at: Any = document
    for part in path[:-1]:
        at = _child(at, part)
        if at is _NOTHING:
            raise bad_request(f"The patch path '/{'/'.join(path)}' does not exist: '{part}' is missing.")
    if not isinstance(at, (dict, list)):
        raise bad_request(f"The patch path '/{'/'.join(path)}' leads into a scalar.")
    return at


def _child(parent: Any, part: str) -> Any:
    if isinstance(parent, dict):
        return parent.get(part, _NOTHING)
    if isinstance(parent, list):
        at = _index(part)
        return parent[at] if at is not None and at < len(parent) else _NOTHING
    return _NOTHING


def _index(part: str) -> int | None:
    return int(part) if part.isascii() and part.isdigit() and (part == "0" or part[0] != "0") else None


def _position(parent: list[Any], part: str, most: int) -> int:
    """An array index that must not be above ``most``."""
    at = _index(part)
    if at is None or at > most:
        raise bad_request(f"The patch path ends in '{part}', which is not an index within the array.")
    return at


def _add(document: dict[str, Any], path: list[str], value: Any) -> None:
    parent = _parent(document, path)
    if isinstance(parent, dict):
        parent[path[-1]] = value
    elif path[-1] == "-":
        parent.append(value)
    else:
        parent.insert(_position(parent, path[-1], len(parent)), value)


def _set(document: dict[str, Any], path: list[str], value: Any) -> None:
    """Like add, but an array element is overwritten, not pushed aside."""
    parent = _parent(document, path)
    if isinstance(parent, list) and path[-1] != "-":
        at = _position(parent, path[-1], len(parent))
        parent[at : at + 1] = [value]
    else:
        _add(document, path, value)


def _replace(document: dict[str, Any], path: list[str], value: Any) -> None:
    parent = _parent(document, path)
    if _child(parent, path[-1]) is _NOTHING:
        raise bad_request(f"The patch path '/{'/'.join(path)}' does not exist, so it cannot be replaced.")
    parent[path[-1] if isinstance(parent, dict) else int(path[-1])] = value


def _remove(document: dict[str, Any], path: list[str], _value: Any = None) -> None:
    parent = _parent(document, path)
    if _child(parent, path[-1]) is _NOTHING:
        raise bad_request(f"The patch path '/{'/'.join(path)}' does not exist, so it cannot be removed.")
    del parent[path[-1] if isinstance(parent, dict) else int(path[-1])]


def _increment(document: dict[str, Any], path: list[str], value: Any) -> None:
    """Adds to a number; a missing field starts from nothing."""
    if not _is_number(value):
        raise bad_request("The value of a patch increment has to be a number.")
    parent = _parent(document, path)
    now = _child(parent, path[-1])
    if now is _NOTHING:
        _add(document, path, value)
    elif not _is_number(now):
        raise bad_request(f"The patch path '/{'/'.join(path)}' is not a number, so it cannot be incremented.")
    else:
        parent[path[-1] if isinstance(parent, dict) else int(path[-1])] = now + value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _move(document: dict[str, Any], source: list[str], target: list[str]) -> None:
    if target[: len(source)] == source and len(target) > len(source):
        raise bad_request("A patch move cannot put a value into itself.")
    value = _child(_parent(document, source), source[-1])
    if value is _NOTHING:
        raise bad_request(f"The patch path '/{'/'.join(source)}' does not exist, so it cannot be moved.")
    _remove(document, source)
    _add(document, target, value)


_OPERATIONS: dict[str, Callable[[dict[str, Any], list[str], Any], None]] = {
    "add": _add,
    "set": _set,
    "replace": _replace,
    "remove": _remove,
    "incr": _increment,
    "increment": _increment,
}
