"""Settings: one frozen object, read in one place."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from projections.declare import Catalog
from projections.errors import CatalogError, ProjectionsError, SettingsError

EMULATOR_ENDPOINT: Final = "http://127.0.0.1:8081/"
# The key of every Cosmos DB emulator, published by Microsoft; it opens nothing else.
EMULATOR_KEY: Final = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
DEFAULT_CATALOG: Final = "projections.example:catalog"
DEFAULT_DATABASE: Final = "shop"


@dataclass(frozen=True)
class Settings:
    """Where the account is and which catalog to run. Made by `Settings.read`."""

    endpoint: str
    connection_string: str | None = field(default=None, repr=False)  # None: managed identity
    database: str = DEFAULT_DATABASE
    catalog: str = DEFAULT_CATALOG
    client_id: str | None = None  # of a user-assigned managed identity
    assumed: bool = False  # nothing was set, so the embedded emulator's address was taken

    @staticmethod
    def read(environment: Mapping[str, str] | None = None) -> Settings:
        """From the environment.

        COSMOS                     connection string (for emulators), or
        COSMOS__accountEndpoint    the account's URL, with managed identity: the same setting the trigger uses
        COSMOS__clientId           the client id, where that identity is a user-assigned one
        COSMOS_DATABASE            the database, unless the catalog names one
        PROJECTIONS_CATALOG        module:name of the catalog

        Raises:
            SettingsError: a setting cannot be right.
        """
        environment = os.environ if environment is None else environment
        connection = environment.get("COSMOS", "").strip()
        endpoint = environment.get("COSMOS__accountEndpoint", "").strip()
        database = environment.get("COSMOS_DATABASE", "").strip() or DEFAULT_DATABASE
        catalog = environment.get("PROJECTIONS_CATALOG", "").strip() or DEFAULT_CATALOG
        if connection:
            return Settings(_endpoint(connection), connection, database, catalog)
        if endpoint:
            if not endpoint.startswith("https://"):
                raise SettingsError("COSMOS__accountEndpoint is not an https URL", hint="copy the account's URI")
            return Settings(endpoint, None, database, catalog, environment.get("COSMOS__clientId") or None)
        return Settings(EMULATOR_ENDPOINT, emulator_connection(EMULATOR_ENDPOINT), database, catalog, assumed=True)

    @property
    def emulator(self) -> bool:
        """Whether this is an emulator: no account has the key that all emulators have, or is on this machine."""
        key = _parts(self.connection_string or "").get("AccountKey")
        return key == EMULATOR_KEY or urlsplit(self.endpoint).hostname in ("localhost", "127.0.0.1", "::1")

    @property
    def unreachable_hint(self) -> str:
        """What to do when nobody answers."""
        if self.assumed:
            return (
                "COSMOS and COSMOS__accountEndpoint are not set, so the embedded emulator was tried: "
                "start it with `projections emulator`, or set one of them"
            )
        return "check the address and the network"

    def load_catalog(self) -> Catalog:
        """The catalog, from `module:name`.

        Raises:
            CatalogError: it cannot be imported or is none.
        """
        module_name, _, name = self.catalog.partition(":")
        hint = 'PROJECTIONS_CATALOG reads "module:name"; the module must be importable from here'
        try:
            found = getattr(importlib.import_module(module_name), name or "catalog", None)
        except ProjectionsError:
            raise
        except Exception as error:
            raise CatalogError(f"cannot import {module_name}: {type(error).__name__}: {error}", hint=hint) from error
        if not isinstance(found, Catalog):
            raise CatalogError(f"{self.catalog} is not a Catalog", hint=hint)
        return found


def emulator_connection(endpoint: str) -> str:
    """The connection string of an emulator at this address."""
    return f"AccountEndpoint={endpoint};AccountKey={EMULATOR_KEY};"


def _parts(connection: str) -> dict[str, str]:
    return dict(part.strip().split("=", 1) for part in connection.split(";") if "=" in part)


def _endpoint(connection: str) -> str:
    parts = _parts(connection)
    if "AccountEndpoint" not in parts or "AccountKey" not in parts:
        raise SettingsError(
            "COSMOS is not a connection string",
            hint='write "AccountEndpoint=https://...;AccountKey=...;", or set COSMOS__accountEndpoint instead',
        )
    return parts["AccountEndpoint"]
