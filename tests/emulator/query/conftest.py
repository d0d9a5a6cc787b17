"""What the tests of the query engine share: asking a question about some documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from projections.emulator.query import compile_query

Ask = Callable[..., list[Any]]


@pytest.fixture
def ask() -> Ask:
    """`ask(text, documents, parameters)`: the rows of the answer."""

    def run(text: str, documents: Iterable[Any] = ({},), parameters: Any = None) -> list[Any]:
        return list(compile_query(text).bind(parameters).rows(documents))

    return run
