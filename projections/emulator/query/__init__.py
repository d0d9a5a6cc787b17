"""The query engine: the SQL of Cosmos DB (NoSQL) over JSON documents.

`compile_query(text).bind(parameters).rows(documents)` is all there is to running a query. It imports nothing but lark
and the standard library, and knows nothing of containers, partitions or HTTP.
"""

from .engine import BoundQuery, Query, compile_query
from .errors import QueryError
from .plan import query_plan
from .values import UNDEFINED

__all__ = ["UNDEFINED", "BoundQuery", "Query", "QueryError", "compile_query", "query_plan"]
