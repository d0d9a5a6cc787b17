"""An event loop in which waiting takes no time: when nothing is ready, its clock jumps to what will be ready next."""

from __future__ import annotations

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


class _Jumping(selectors.SelectSelector):
    """Never waits for what has a time; counts it as passed."""

    def __init__(self) -> None:
        super().__init__()
        self.passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        if timeout is None:
            return super().select(5.0) or self._stuck()
        self.passed += max(0.0, timeout)
        return super().select(0)

    def _stuck(self) -> Any:
        raise RuntimeError("everything waits for something that will never happen")


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its `time()` is virtual, and with it `asyncio.sleep` and `asyncio.timeout`."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.passed


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """A test that waits long, or for deadlines: it takes no time, and a busy machine changes nothing in it."""

    @functools.wraps(test)
    def in_no_time(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(test(*args, **kwargs))

    return in_no_time
