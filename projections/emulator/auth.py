"""The master key signature of every request."""

from __future__ import annotations

import base64
import hmac
from urllib.parse import unquote

from projections.emulator import rids
from projections.emulator.errors import ServiceError
from projections.emulator.exchange import Request

# Published by Microsoft for every Cosmos emulator, and no secret.
EMULATOR_KEY = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
_KEY = base64.b64decode(EMULATOR_KEY)


def check(request: Request) -> None:
    """401 unless the request is signed with the emulator's key."""
    sent = request.headers.get("authorization")
    if not sent:
        raise ServiceError(
            401, "Required Header authorization is missing. Ensure a valid Authorization token is passed."
        )
    token = unquote(sent)
    fields = dict(part.partition("=")[::2] for part in token.split("&"))
    if fields.get("type", "").lower() != "master":
        raise ServiceError(401, f"The authorization type '{fields.get('type')}' is not supported by this emulator.")
    date = request.headers.get("x-ms-date") or request.headers.get("date") or ""
    kind, link = signed_resource(request.path, request.method)
    text = signed_text(request.method, kind, link, date)
    # a "+" in the signature may arrive as a blank where a client did not encode it
    if not hmac.compare_digest(fields.get("sig", "").replace(" ", "+").encode(), signature(text)):
        raise ServiceError(
            401,
            "The input authorization token can't serve the request. The wrong key is being used or the expected "
            f"payload is not built as per the protocol: {text!r}",
        )


def signed_text(method: str, kind: str, link: str, date: str) -> str:
    """What client and server put under the key."""
    return f"{method.lower()}\n{kind.lower()}\n{link}\n{date.lower()}\n\n"


def signature(text: str) -> bytes:
    """Base64 HMAC of a text."""
    return base64.b64encode(hmac.digest(_KEY, text.encode("utf-8", "surrogateescape"), "sha256"))


def signed_resource(path: tuple[str, ...], method: str) -> tuple[str, str]:
    """Type and link of what is signed: the resource itself, or the parent of a feed."""
    if "operations" in path:  # .../colls/y/operations/partitionkeydelete is signed as the container
        path = path[: path.index("operations")]
    if not path:
        return "", ""
    if len(path) % 2:
        kind, owner = path[-1], path[:-1]
    else:
        kind, owner = path[-2], path
    if not owner:
        return kind, ""
    if rids.is_database_rid(owner[1]) if owner[0] == "dbs" else owner[0] == "offers":
        return kind, owner[-1].lower()
    return kind, "/".join(owner)
