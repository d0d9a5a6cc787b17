"""The Functions app under the official worker library, in a process of its own.

The library, `azure-functions-runtime`, is what the host's Python 3.13 worker loads and calls apps with. There is no RPC
in it: `worker.py` here takes the host's place and hands it the messages, `payload.py` writes them as the trigger does.
"""

from tests.functions_runtime.client import FunctionsHost, Invocation
from tests.functions_runtime.payload import as_delivered

__all__ = ["FunctionsHost", "Invocation", "as_delivered"]
