"""The one error of the query engine."""


class QueryError(Exception):
    """The query cannot be read or uses something the engine does not have; the server answers 400."""
