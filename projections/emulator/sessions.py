"""Session tokens: ``<range id>:<version>#<lsn>``, several joined by commas."""

from __future__ import annotations

import re
from collections.abc import Iterable

from projections.emulator.errors import bad_request

VERSION = -1  # one region, no failover history
_TOKEN = re.compile(r"[^:,]+:-?\d+(#\d+(=-?\d+)?)*(#?\d+)?$")


def token(range_ids: Iterable[str], lsn: int) -> str:
    """The token of a response that was answered by these ranges."""
    return ",".join(f"{range_id}:{VERSION}#{lsn}" for range_id in range_ids)


def check(text: str) -> None:
    """400 for a token no SDK would send. Whatever it names is satisfied: there is one replica."""
    for part in filter(None, text.split(",")):
        if not _TOKEN.match(part.strip()):
            raise bad_request(f"The session token '{part}' is malformed.")
