"""JSON as it comes and goes: exact numbers, no constants that are not JSON, text that may not be valid Unicode."""

from __future__ import annotations

import json
from typing import Any

from projections.emulator.errors import ServiceError, bad_request

MAX_ITEM_BYTES = 2 * 1024 * 1024  # concepts-limits
MAX_DEPTH = 128  # concepts-limits: "maximum level of nesting for embedded objects / arrays"
_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def to_json(value: Any) -> bytes:
    """Compact JSON as UTF-8; escaped where the text is not valid Unicode."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:
        return _encode_ascii(value).encode()
    except ValueError:
        raise bad_request("A number is out of the range of a double.") from None


def from_storage(body: bytes) -> Any:
    """Parses an item as it is stored: JSON of our own making, so nothing needs to be checked."""
    return _scan(body.decode())[0]


def document_of(body: bytes) -> Any:
    """An item's request body; 413 when the text, escapes included, is too large."""
    if len(body) > MAX_ITEM_BYTES:
        raise ServiceError(413, "Request size is too large: an item may have 2 MB at most.")
    return from_json(body)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_scan = json.JSONDecoder().raw_decode
_decoder = json.JSONDecoder(parse_constant=_no_constant)


def from_json(body: bytes) -> Any:
    """Parses a request body; 400 when it is not JSON."""
    try:
        return _decoder.decode(body.decode())
    except (ValueError, RecursionError) as error:
        raise bad_request(f"The request body is not valid JSON: {error}") from None


def properties(value: Any, depth: int = 0) -> int:
    """How many scalar values an item has, each of which the default policy indexes; 400 when it nests too deeply."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return 1
    if depth > MAX_DEPTH:
        raise bad_request(f"The item nests more than {MAX_DEPTH} levels deep.")
    return sum([properties(one, depth + 1) for one in value])
