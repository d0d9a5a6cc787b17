"""Loads a Functions app and calls its functions as it is told: a JSON request a line in, a JSON answer a line out.

    python tests/functions_runtime/worker.py APPDIR
    {"do": "list"}
    {"do": "invoke", "function": NAME, "documents": TEXT}        the payload of a Cosmos DB trigger
    {"do": "invoke", "function": NAME, "http": [METHOD, PATH]}
    {"do": "invoke", "function": NAME, "timer": SCHEDULE}

The first line out says how indexing went. What the app prints or logs goes to stderr.
"""

from __future__ import annotations

import asyncio
import enum
import json
import logging
import os
import sys
import time
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any


class Message:
    """A protobuf message, near enough: keyword arguments in, attributes out."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def WhichOneof(self, _: str) -> str | None:
        """The one field that is set: every oneof that the library asks about holds one here."""
        return next((name for name, value in vars(self).items() if name != "name" and value is not None), None)


class RetryOptions(Message):
    """Protobuf refuses an unknown label of an enum, and so does this."""

    def __init__(self, **fields: Any) -> None:
        if fields.get("retry_strategy") not in ("exponential_backoff", "fixed_delay"):
            raise ValueError(f"unknown enum label {fields.get('retry_strategy')!r}")
        super().__init__(**fields)


class Status(enum.IntEnum):
    """The outcome of a request."""

    Failure = 0
    Success = 1
    Cancelled = 2


MESSAGES = (
    "WorkerInitResponse", "WorkerMetadata", "FunctionMetadataResponse", "FunctionLoadResponse",
    "FunctionEnvironmentReloadResponse", "InvocationResponse", "RpcFunctionMetadata", "RpcException", "TypedData",
    "RpcHttp", "ParameterBinding", "NullableString", "NullableBool", "NullableDouble", "NullableTimestamp",
)  # fmt: skip
DIRECTIONS = {"in": 0, "out": 1, "inout": 2}
DATA_TYPES = {"undefined": 0, "string": 1, "binary": 2, "stream": 3}
SAME_SITE = SimpleNamespace(**{"None": 0, "Lax": 1, "Strict": 2, "ExplicitNone": 3})


def kind(name: str, **constants: Any) -> type[Message]:
    """A type of message, with its enum constants."""
    return type(name, (Message,), constants)


PROTOS = SimpleNamespace(
    StatusResult=kind("StatusResult", **Status.__members__),
    BindingInfo=kind("BindingInfo", **DIRECTIONS, **DATA_TYPES),
    RpcRetryOptions=RetryOptions,
    RpcHttpCookie=kind("RpcHttpCookie", SameSite=SAME_SITE),
    **{name: kind(name) for name in MESSAGES},
)


def request(**content: Any) -> SimpleNamespace:
    """A request as the worker's dispatcher hands it on."""
    return SimpleNamespace(request=SimpleNamespace(**content), properties={"host": "127.0.0.1", "protos": PROTOS})


def plain(value: Any) -> Any:
    """Messages as JSON."""
    if isinstance(value, Message):
        return {name: plain(field) for name, field in vars(value).items() if field is not None}
    if isinstance(value, dict):
        return {name: plain(field) for name, field in value.items()}
    if isinstance(value, list | tuple):
        return [plain(element) for element in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, enum.Enum):
        return value.name
    return value if isinstance(value, str | int | float | bool | None) else str(value)


class Worker:
    """The app, indexed."""

    def __init__(self, library: Any, functions: dict[str, Any]) -> None:
        self._library = library
        self.functions = functions

    @staticmethod
    async def index(library: Any, folder: Path) -> tuple[Worker, dict[str, Any]]:
        """Load the app; the answer says how that went, and how long it took."""
        started = time.perf_counter()
        answer = await library.worker_init_request(
            request(worker_init_request=SimpleNamespace(capabilities={}, function_app_directory=str(folder)))
        )
        seconds = time.perf_counter() - started
        if answer.result.status != Status.Success:
            return Worker(library, {}), {"ok": False, "exception": plain(answer.result.exception), "seconds": seconds}
        metadata = await library.functions_metadata_request(request())
        functions = {function.name: function for function in metadata.function_metadata_results or ()}
        return Worker(library, functions), {"ok": bool(functions), "seconds": seconds}

    def list(self) -> dict[str, Any]:
        """The functions, with what the host is told about them."""
        return {
            "functions": [
                {
                    "name": function.name,
                    "bindings": [json.loads(binding) for binding in function.raw_bindings],
                    "retry": plain(function.retry_options) if function.retry_options else None,
                }
                for function in self.functions.values()
            ]
        }

    async def invoke(self, order: dict[str, Any]) -> dict[str, Any]:
        """Call a function once."""
        function = self.functions[order["function"]]
        bindings = [json.loads(binding) for binding in function.raw_bindings]
        name = next(b["name"] for b in bindings if b["type"].lower().endswith("trigger"))
        call = SimpleNamespace(
            invocation_id=str(uuid.uuid4()),
            function_id=function.function_id,
            input_data=[PROTOS.ParameterBinding(name=name, data=typed(order))],
            trigger_metadata={},
            trace_context=SimpleNamespace(trace_parent="", trace_state="", attributes={}),
            retry_context=SimpleNamespace(retry_count=0, max_retry_count=0, exception=None),
        )
        answer = await self._library.invocation_request(request(invocation_request=call))
        return {
            "ok": answer.result.status == Status.Success,
            "value": plain(getattr(answer, "return_value", None)),
            "exception": plain(getattr(answer.result, "exception", None)),
        }


def typed(order: dict[str, Any]) -> Any:
    """What triggered a call."""
    if "documents" in order:
        return PROTOS.TypedData(string=order["documents"])
    if "timer" in order:
        return PROTOS.TypedData(json=json.dumps({"IsPastDue": False, "Schedule": {}, "ScheduleStatus": None}))
    method, path = order["http"]
    http = Message(
        method=method, url=f"http://localhost:7071{path}", headers={}, params={}, query={},
        body=PROTOS.TypedData(bytes=b""),
    )  # fmt: skip
    return PROTOS.TypedData(http=http)


async def serve(library: Any, folder: Path, answers: Any) -> None:
    """Index, then one request after the other, all in one event loop, until there are no more."""
    worker, answer = await Worker.index(library, folder)
    while True:
        print(json.dumps(answer), file=answers, flush=True)
        line = await asyncio.to_thread(sys.stdin.readline)
        if not line:
            return
        order = json.loads(line)
        answer = worker.list() if order["do"] == "list" else await worker.invoke(order)


def main() -> None:
    folder = Path(sys.argv[1]).resolve()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    import azure_functions_runtime as library

    library.start_threadpool_executor()
    asyncio.run(serve(library, folder, answers))
    os._exit(0)  # like the real worker: the app is not asked to clean up


if __name__ == "__main__":
    main()
