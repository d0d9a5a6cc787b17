"""The shipped example: the orders of a shop, and three other ways to find them."""

from projections.example.catalog import catalog
from projections.example.models import Order

__all__ = ["Order", "catalog"]
