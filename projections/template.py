"""What somebody with rights over the account runs to create a catalog's containers: Bicep, or a script for the az CLI.

A managed identity has no such rights (facts.md 10). Both give it the data-plane role that it needs, too.
"""

from __future__ import annotations

import json
import re
import urllib.parse
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final

from projections.drift import kind
from projections.store import Container, Description

ROLE: Final = "00000000-0000-0000-0000-000000000002"
"""Cosmos DB Built-in Data Contributor."""
API: Final = "2024-05-15"
NATIVE_API: Final = "2025-11-01-preview"
"""The stable ones have no native indexes."""


@dataclass(frozen=True)
class Needed:
    """The containers to create, and the databases that the worker has to get at."""

    containers: Sequence[Description]
    sources: Sequence[Container]  # have to be there already
    versions: Collection[Container] = ()  # those that are read in all-versions mode

    @property
    def comments(self) -> Iterator[str]:
        """What has to be there beside what is created."""
        for source in self.sources:
            more = ", in an account that keeps all versions (continuous backup)" if source in self.versions else ""
            yield f"Has to be there already: source {_comment(source)}{more}"

    @property
    def databases(self) -> list[str]:
        """Where containers are created, and, after those, where only sources are."""
        own = [one.container.database for one in self.containers]
        return list(dict.fromkeys([*own, *(source.database for source in self.sources)]))


def resource(wanted: Description) -> dict[str, Any]:
    """A container as Azure Resource Manager takes it."""
    key = {"paths": list(wanted.key_paths), "kind": kind(wanted), "version": wanted.key_version}
    made: dict[str, Any] = {"id": wanted.container.name, "partitionKey": key}
    if wanted.default_ttl is not None:
        made["defaultTtl"] = wanted.default_ttl
    if wanted.indexing is not None:
        made["indexingPolicy"] = dict(wanted.indexing)
    if wanted.unique_keys:
        made["uniqueKeyPolicy"] = {"uniqueKeys": [{"paths": list(paths)} for paths in wanted.unique_keys]}
    if wanted.native is not None:
        definition = {"sourceCollectionId": wanted.native.source, "definition": wanted.native.definition}
        made["materializedViewDefinition"] = definition
    return made


def options(wanted: Description) -> dict[str, Any]:
    """Its throughput, as Azure Resource Manager takes it; empty: serverless, shared, or the account's default."""
    if wanted.throughput.autoscale is not None:
        return {"autoscaleSettings": {"maxThroughput": wanted.throughput.autoscale}}
    return {"throughput": wanted.throughput.manual} if wanted.throughput.manual is not None else {}


# Bicep


def bicep(needed: Needed) -> str:
    """A Bicep file for the resource group that the account is in."""
    return "\n".join(_bicep(needed))


def _bicep(needed: Needed) -> Iterator[str]:
    yield "// Containers of the projections, and the role that lets a managed identity work on them:"
    yield "//   az deployment group create -g RG -f FILE.bicep -p accountName=ACCOUNT principalId=PRINCIPAL_ID"
    yield "// A container that exists is set to what is written here, as far as it can be changed."
    yield from (f"// {comment}" for comment in needed.comments)
    yield ""
    yield "@description('The Cosmos DB account, which exists.')"
    yield "param accountName string"
    yield "@description('The object id of the managed identity.')"
    yield "param principalId string"
    yield ""
    yield f"resource account 'Microsoft.DocumentDB/databaseAccounts@{API}' existing = {{"
    yield "  name: accountName"
    yield "}"
    created = {one.container.database for one in needed.containers}
    for number, database in enumerate(needed.databases):
        yield from _bicep_database(f"database{number}", database, database in created)
    for number, wanted in enumerate(needed.containers):
        yield from _bicep_container(number, f"database{needed.databases.index(wanted.container.database)}", wanted)
    for number, database in enumerate(needed.databases):
        yield from _bicep_role(number, database, database in created)
    yield ""


def _bicep_database(symbol: str, name: str, created: bool) -> Iterator[str]:
    yield ""
    existing = "" if created else "existing "
    yield f"resource {symbol} 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@{API}' {existing}= {{"
    yield "  parent: account"
    yield f"  name: {_text(name)}"
    if created:
        yield f"  properties: {_value({'resource': {'id': name}}, 1)}"
    yield "}"


def _bicep_container(number: int, parent: str, wanted: Description) -> Iterator[str]:
    api = NATIVE_API if wanted.native else API
    yield ""
    yield f"resource container{number} 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@{api}' = {{"
    yield f"  parent: {parent}"
    yield f"  name: {_text(wanted.container.name)}"
    yield f"  properties: {_value({'resource': resource(wanted), 'options': options(wanted)}, 1)}"
    yield "}"


def _bicep_role(number: int, database: str, created: bool) -> Iterator[str]:
    yield ""
    yield f"resource role{number} 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@{API}' = {{"
    yield "  parent: account"
    yield f"  name: guid(account.id, principalId, {_text(database)})"
    yield "  properties: {"
    yield "    principalId: principalId"
    yield f"    roleDefinitionId: '${{account.id}}/sqlRoleDefinitions/{ROLE}'"
    yield f"    scope: '${{account.id}}/dbs/{_text(database)[1:]}"
    yield "  }"
    if created:
        yield f"  dependsOn: [database{number}]"
    yield "}"


def _value(value: Any, depth: int) -> str:
    """A value as Bicep writes it."""
    if isinstance(value, dict) and value:
        return _lines("{", [f"{_name(name)}: {_value(one, depth + 1)}" for name, one in value.items()], "}", depth)
    if isinstance(value, list | tuple) and value:
        return _lines("[", [_value(one, depth + 1) for one in value], "]", depth)
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value)  # numbers, true, false and null; {} and []


def _lines(start: str, lines: Iterable[str], end: str, depth: int) -> str:
    indent = "  " * depth
    return "\n".join([start, *(f"{indent}  {line}" for line in lines), f"{indent}{end}"])


def _name(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else _text(name)


def _text(text: str) -> str:
    escapes = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t", "$": "\\$"}
    # only ${ begins anything; a $ elsewhere is not to be escaped
    escaped = re.sub(r"[\\'\n\r\t]|\$(?=\{)", lambda match: escapes[match[0]], text)
    return f"'{escaped}'"


def _comment(container: Container) -> str:
    return re.sub(r"\s", " ", str(container))


# the az CLI


def az(needed: Needed) -> str:
    """A shell script for the az CLI."""
    return "\n".join(_az(needed))


def _az(needed: Needed) -> Iterator[str]:
    yield "#!/bin/sh"
    yield "# Containers of the projections, and the role that lets a managed identity work on them:"
    yield "#   sh FILE.sh RESOURCE_GROUP ACCOUNT PRINCIPAL_ID"
    yield "# A container that exists is left as it is; running it twice is safe."
    yield from (f"# {comment}" for comment in needed.comments)
    yield from AZ_HEAD.splitlines()
    created = {one.container.database for one in needed.containers}
    for database in needed.databases:
        if database in created:
            yield f"database {quote(database)}"
    for wanted in needed.containers:
        yield _az_container(wanted)
    for database in needed.databases:
        yield f"role {quote(database)}"
    yield ""


AZ_HEAD: Final = rf"""set -eu
group=$1 account=$2 principal=$3
id=$(az cosmosdb show -g "$group" -n "$account" --query id -o tsv)

database() {{
  [ "$(az cosmosdb sql database exists -g "$group" -a "$account" -n "$1" -o tsv)" = true ] ||
    az cosmosdb sql database create -g "$group" -a "$account" -n "$1" -o none
}}

missing() {{
  [ "$(az cosmosdb sql container exists -g "$group" -a "$account" -d "$1" -n "$2" -o tsv)" != true ]
}}

# database, container, arguments
container() {{
  if missing "$1" "$2"; then
    database=$1 name=$2; shift 2
    az cosmosdb sql container create -g "$group" -a "$account" -d "$database" -n "$name" -o none "$@"
  fi
}}

# database, container, path of the container in a URL, API version, body: for what the command above does not know
put() {{
  if missing "$1" "$2"; then
    az rest --method put --url "$id/sqlDatabases/$3?api-version=$4" --body "$5" -o none
    tries=0
    while missing "$1" "$2"; do
      tries=$((tries + 1))
      [ "$tries" -le 60 ] || {{ echo "container $2 is still not there" >&2; exit 1; }}
      sleep 2
    done
  fi
}}

role() {{
  az cosmosdb sql role assignment list -g "$group" -a "$account" -o tsv \
    --query "[?principalId=='$principal' && ends_with(roleDefinitionId, '{ROLE}')].scope" |
    grep -qixF "$id/dbs/$1" ||
    az cosmosdb sql role assignment create -g "$group" -a "$account" --scope "/dbs/$1" \
      --principal-id "$principal" --role-definition-id {ROLE} -o none
}}

"""


def _az_container(wanted: Description) -> str:
    place = f"{quote(wanted.container.database)} {quote(wanted.container.name)}"
    if len(wanted.key_paths) > 1 or wanted.native is not None:
        # `az cosmosdb sql container create` takes one path, and no definition
        path = f"{_encoded(wanted.container.database)}/containers/{_encoded(wanted.container.name)}"
        body = _json({"properties": {"resource": resource(wanted), "options": options(wanted)}})
        return f"put {place} {quote(path)} {NATIVE_API if wanted.native else API} {quote(body)}"
    given = [f"--partition-key-path={wanted.key_paths[0]}", f"--partition-key-version={wanted.key_version}"]
    if wanted.default_ttl is not None:
        given.append(f"--ttl={wanted.default_ttl}")
    if wanted.indexing is not None:
        given.append(f"--idx={_json(wanted.indexing)}")
    if wanted.unique_keys:
        given.append(f"--unique-key-policy={_json(resource(wanted)['uniqueKeyPolicy'])}")
    if wanted.throughput.autoscale is not None:
        given.append(f"--max-throughput={wanted.throughput.autoscale}")
    if wanted.throughput.manual is not None:
        given.append(f"--throughput={wanted.throughput.manual}")
    return f"container {place} {' '.join(map(quote, given))}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _encoded(name: str) -> str:
    return urllib.parse.quote(name, safe="")
