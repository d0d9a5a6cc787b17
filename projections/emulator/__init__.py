"""An embedded Azure Cosmos DB (NoSQL API) emulator: a program of its own that the real SDKs talk to over a socket."""

from projections.emulator.auth import EMULATOR_KEY
from projections.emulator.server import Emulator

__all__ = ["EMULATOR_KEY", "Emulator"]
