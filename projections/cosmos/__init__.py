"""The store on a real account. The only package that knows the SDK; its errors end here."""

from projections.cosmos.connection import connect, open_store
from projections.cosmos.errors import ERRORS, translate
from projections.cosmos.store import CosmosStore

__all__ = ["ERRORS", "CosmosStore", "connect", "open_store", "translate"]
