"""A request as the handlers see it, and what they hand back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from projections.emulator.catalog import Container
from projections.emulator.errors import bad_request


@dataclass(slots=True)
class Request:
    """One HTTP request."""

    method: str
    path: tuple[str, ...]  # decoded segments
    headers: Mapping[str, str]  # case-insensitive
    body: bytes
    base_url: str  # as the client addressed us, with a slash at the end

    def flag(self, name: str) -> bool:
        """A boolean header: Python sends True, JavaScript true."""
        return self.headers.get(name, "").lower() == "true"

    def number(self, name: str, default: int) -> int:
        """A whole-number header."""
        text = self.headers.get(name)
        if text is None:
            return default
        try:
            return int(text)
        except ValueError:
            raise bad_request(f"The header {name} has to be a whole number, not '{text}'.") from None


@dataclass(slots=True)
class Reply:
    """One HTTP response, before the headers that all have in common."""

    operation: str  # the name it is counted under
    status: int = 200
    body: bytes = b""
    charge: float = 0.0
    headers: dict[str, str] = field(default_factory=dict)
    container: Container | None = None
    range_ids: Sequence[str] = ()


def feed_body(rid: str, name: str, parts: Sequence[bytes]) -> bytes:
    """The envelope of every list: rid, array, count."""
    return b'{"_rid":"%s","%s":[%s],"_count":%d}' % (rid.encode(), name.encode(), b",".join(parts), len(parts))
