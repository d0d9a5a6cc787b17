"""Everything that can go wrong, as one tree. A docstring is the default message; a hint names what to do next."""

from __future__ import annotations


class ProjectionsError(Exception):
    """Something went wrong."""

    def __init__(
        self,
        message: str | None = None,
        *,
        projection: str | None = None,
        item: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.message = message or (type(self).__doc__ or "").strip()
        self.projection = projection
        self.item = item
        self.hint = hint
        super().__init__(self.message)

    def __str__(self) -> str:
        where = ", ".join(
            f"{word} {value}" for word, value in (("projection", self.projection), ("item", self.item)) if value
        )
        return f"{where}: {self.message}" if where else self.message


class CatalogError(ProjectionsError):
    """The catalog is wrong; nothing was touched."""


class SettingsError(ProjectionsError):
    """A setting is missing or wrong."""


class UnsafeError(ProjectionsError):
    """The set-up would lose or damage data, so the worker does not start."""


class AlarmError(UnsafeError):
    """So many items in a row cannot be projected that the catalog is likely to be wrong, not the data."""


class NoVersionsError(UnsafeError):
    """The container has no feed of all versions and deletes."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message, hint=(
            "an account needs continuous backup, and the feature for all versions and deletes switched on (README, "
            "Deletes); on an emulator remove the container and run `projections init`"
        ))  # fmt: skip


class AskError(ProjectionsError):
    """These values do not make a key of the projection."""


class SkippedError(AskError):
    """A level of the key is left open, and a later one given."""


class LoadError(ProjectionsError):
    """The file cannot be loaded; nothing was written."""


class ItemError(ProjectionsError):
    """This item cannot be projected, however often it is tried: it is parked as a dead letter.

    `path` is of the field that is to blame, where it is one.
    """

    def __init__(
        self,
        message: str | None = None,
        *,
        path: str | None = None,
        projection: str | None = None,
        item: str | None = None,
        hint: str | None = None,
    ) -> None:
        message = message or (type(self).__doc__ or "").strip().partition("\n")[0]
        super().__init__(message, projection=projection, item=item, hint=hint)
        self.path = path


class TooLargeError(ItemError):
    """The document or request is larger than the store takes (413)."""


class PartitionFullError(ItemError):
    """The logical partition is full (403/1014: 20 GB)."""


class StoreError(ProjectionsError):
    """The store refused or failed a call."""


class ConflictError(StoreError):
    """A condition failed: what was read is not what is there now (404, 409, 412)."""


class TransientError(StoreError):
    """The store is busy or away for a moment (408, 410, 429, 449, 5xx, time-outs): try again later.

    `retry_after` is in seconds, 0 when the store named no time.
    """

    def __init__(self, message: str | None = None, *, retry_after: float = 0.0, hint: str | None = None) -> None:
        super().__init__(message or "The store is busy or away for a moment.", hint=hint)
        self.retry_after = retry_after


class ThrottledError(TransientError):
    """The store asks to slow down (429)."""


class FatalError(StoreError):
    """No call can succeed until somebody mends the set-up; the position is kept."""


class LostPositionError(FatalError):
    """The feed no longer tells of all that came after this position."""


class UnauthorizedError(FatalError):
    """The account refused the credentials (401, 403)."""


class IdentityError(UnauthorizedError):
    """A managed identity creates no databases and no containers, whatever its role (403/5300)."""


class NativeIndexError(FatalError):
    """The account makes no native global secondary index."""


class MissingContainerError(FatalError):
    """A container or database does not exist (404/1003)."""


class UnreachableError(FatalError):
    """The account cannot be reached."""
