"""Templates have every container as it is declared, and nothing in a name can break out of its quotes."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from projections.declare import Catalog, Index, Source, Target, Throughput
from projections.native import candidates
from projections.provision import Layout, own, sources
from projections.store import Container, Description
from projections.template import ROLE, Needed, az, bicep, resource

SOURCE = Source(container="orders", key="/customerId")
NASTY = "o'r\\d$e${rs}\"`$(touch broken) ;"
CATALOG = Catalog(
    projections=(
        Index(name="by-no", source=SOURCE, key="/no"),
        Index(name="by-place", source=SOURCE, key=("/country", '/"the city"')),
        Index(
            name="nasty",
            source=Source(container="archive", key="/id2", database="old"),
            key="/k'${x}",
            target=Target(
                container=NASTY, database="it's", throughput=Throughput(autoscale=4000),
                unique_keys=(("/a", "/b"), ("/c",)),
                indexing={"indexingMode": "consistent", "excludedPaths": [{"path": "/it's/*"}], "spatialIndexes": []},
                default_ttl=None,
            ),
        ),
        Index(name="manual", source=SOURCE, key="/k", target=Target(throughput=Throughput(manual=500))),
    )
)  # fmt: skip
LAYOUT = Layout(CATALOG, "shop")
NEEDED = Needed([*own(LAYOUT)], [one.container for one in sources(LAYOUT)])


# Bicep, read as far as these files need it


TOKEN = re.compile(r"'(?:[^'\\]|\\.)*'|[\[\]{}:]|-?\d+|[A-Za-z_]\w*|\n")


def read(text: str) -> Any:
    """The first value in a text."""
    return value(list(TOKEN.findall(text)))


def value(tokens: list[str]) -> Any:
    while tokens[0] == "\n":
        tokens.pop(0)
    token = tokens.pop(0)
    if token == "{":
        made: dict[str, Any] = {}
        while (name := skip(tokens)) != "}":
            assert tokens.pop(0) == ":"
            made[unquoted(name) if name.startswith("'") else name] = value(tokens)
        return made
    if token == "[":
        listed = []
        while (after := skip(tokens)) != "]":
            tokens.insert(0, after)
            listed.append(value(tokens))
        return listed
    return unquoted(token) if token.startswith("'") else json.loads(token)


def skip(tokens: list[str]) -> str:
    while tokens[0] == "\n":
        tokens.pop(0)
    return tokens.pop(0)


def unquoted(text: str) -> str:
    inner = text[1:-1]
    assert not re.search(r"(?<!\\)(?:\\\\)*\$\{", inner), "this begins an expression"
    return re.sub(r"\\(.)", lambda match: {"n": "\n", "r": "\r", "t": "\t"}.get(match[1], match[1]), inner)


def bicep_containers(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    """(database, container) -> properties."""
    databases = {
        match[1]: unquoted(match[2])
        for match in re.finditer(r"^resource (database\d+) .*\n  parent: account\n  name: (.*)$", text, re.MULTILINE)
    }
    found = re.finditer(
        r"^resource container\d+ '\S+@\S+' = \{\n  parent: (\w+)\n  name: (.*)\n  properties: ([\s\S]*?)\n\}$",
        text,
        re.MULTILINE,
    )
    return {(databases[match[1]], unquoted(match[2])): read(match[3]) for match in found}


def expected() -> dict[tuple[str, str], Description]:
    return {(one.container.database, one.container.name): one for one in own(LAYOUT)}


def test_bicep_has_every_container_as_declared() -> None:
    found = bicep_containers(bicep(NEEDED))
    assert found.keys() == expected().keys()
    for place, wanted in expected().items():
        made = found[place]["resource"]
        assert made["partitionKey"]["paths"] == list(wanted.key_paths)
        assert made == resource(wanted)
    assert found["shop", "by-place"]["resource"]["partitionKey"]["kind"] == "MultiHash"
    assert found["it's", NASTY]["options"] == {"autoscaleSettings": {"maxThroughput": 4000}}
    assert found["shop", "manual"]["options"] == {"throughput": 500}
    assert found["shop", "by-no"]["options"] == {}


def test_bicep_gives_the_role_on_every_database_and_names_the_sources() -> None:
    text = bicep(NEEDED)
    assert text.count("sqlRoleAssignments@") == 3
    assert text.count(f"/sqlRoleDefinitions/{ROLE}'") == 3
    for database in ("shop", r"it\'s", "old"):
        assert f"    scope: '${{account.id}}/dbs/{database}'" in text
    # one that only sources are in is not created
    assert re.search(r"resource database\d 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@\S+' existing = \{\n"
                     r"  parent: account\n  name: 'old'\n\}", text)  # fmt: skip
    assert "// Has to be there already: source shop/orders" in text
    assert "// Has to be there already: source old/archive" in text


def test_a_source_in_all_versions_mode_is_a_matter_of_its_account() -> None:
    source = Container("shop", "orders")
    for text in (bicep(Needed([], [source], {source})), az(Needed([], [source], {source}))):
        assert "source shop/orders, in an account that keeps all versions (continuous backup)" in text
    assert "continuous backup" not in az(Needed([], [source]))


def test_a_line_break_in_a_name_ends_no_comment() -> None:
    source = Container("shop", "a\nresource x 'y' = {}")
    assert "\nresource x" not in bicep(Needed([], [source]))
    assert "\nresource x" not in az(Needed([], [source]))


# the az CLI, by a stand-in that writes down how it is called


AZ = """#!/usr/bin/env python3
import json, os, sys
given = sys.argv[1:]
with open(os.environ["CALLS"], "a") as calls:
    print(json.dumps(given), file=calls)
present = {tuple(one) for one in json.loads(os.environ["PRESENT"])}
with open(os.environ["CALLS"]) as calls:
    put = [one for one in map(json.loads, calls) if one[0] == "rest"]
if given[:2] == ["cosmosdb", "show"]:
    print("/subscriptions/s/resourceGroups/g/providers/Microsoft.DocumentDB/databaseAccounts/a")
elif given[:4] == ["cosmosdb", "sql", "container", "exists"]:
    name = given[given.index("-n") + 1]
    made = any(json.loads(one[one.index("--body") + 1])["properties"]["resource"]["id"] == name for one in put)
    print("true" if made or (given[given.index("-d") + 1], name) in present else "false")
elif given[:4] == ["cosmosdb", "sql", "database", "exists"]:
    print("true" if given[given.index("-n") + 1] == "shop" and present else "false")
elif given[:5] == ["cosmosdb", "sql", "role", "assignment", "list"] and present:
    print("/subscriptions/s/resourceGroups/G/providers/Microsoft.DocumentDB/databaseAccounts/a/dbs/shop")
"""


def run_az(tmp_path: Path, script: str, present: list[tuple[str, str]] | None = None) -> list[list[str]]:
    """The calls that a script makes, when these containers are there."""
    (tmp_path / "az").write_text(AZ)
    (tmp_path / "az").chmod(0o755)
    (tmp_path / "make.sh").write_text(script)
    calls = tmp_path / "calls"
    calls.unlink(missing_ok=True)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "CALLS": str(calls), "PRESENT": json.dumps(present or [])}
    subprocess.run(["sh", "make.sh", "g", "a", "p"], cwd=tmp_path, env=environment, check=True, timeout=60)
    assert not (tmp_path / "broken").exists()
    return [json.loads(line) for line in calls.read_text().splitlines()]


def options_of(call: list[str]) -> dict[str, str]:
    return dict(one.split("=", 1) for one in call if one.startswith("--") and "=" in one)


def az_containers(calls: list[list[str]]) -> dict[tuple[str, str], Any]:
    made: dict[tuple[str, str], Any] = {}
    for call in calls:
        if call[:4] == ["cosmosdb", "sql", "container", "create"]:
            made[call[call.index("-d") + 1], call[call.index("-n") + 1]] = options_of(call)
        if call[0] == "rest":
            url = call[call.index("--url") + 1]
            body = json.loads(call[call.index("--body") + 1])
            database = re.search(r"/sqlDatabases/([^/]+)/containers/", url)
            assert database
            made[database[1].replace("%27", "'"), body["properties"]["resource"]["id"]] = body["properties"]
    return made


def test_the_script_has_every_container_as_declared(tmp_path: Path) -> None:
    found = az_containers(run_az(tmp_path, az(NEEDED)))
    assert found.keys() == expected().keys()
    for place, wanted in expected().items():
        if len(wanted.key_paths) > 1:
            assert found[place]["resource"] == resource(wanted)
            continue
        assert [found[place]["--partition-key-path"]] == list(wanted.key_paths)
        assert found[place].get("--ttl") == (None if wanted.default_ttl is None else str(wanted.default_ttl))
        assert json.loads(found[place].get("--idx", "null")) == wanted.indexing
    assert json.loads(found["it's", NASTY]["--unique-key-policy"]) == {
        "uniqueKeys": [{"paths": ["/a", "/b"]}, {"paths": ["/c"]}]
    }
    assert found["it's", NASTY]["--max-throughput"] == "4000"
    assert found["shop", "manual"]["--throughput"] == "500"


def test_the_script_gives_the_role_on_every_database(tmp_path: Path) -> None:
    calls = run_az(tmp_path, az(NEEDED))
    roles = [call for call in calls if call[:5] == ["cosmosdb", "sql", "role", "assignment", "create"]]
    assert [call[call.index("--scope") + 1] for call in roles] == ["/dbs/shop", "/dbs/it's", "/dbs/old"]
    assert all(ROLE in call and "p" in call for call in roles)
    created = [call[-3] for call in calls if call[:4] == ["cosmosdb", "sql", "database", "create"]]
    assert created == ["shop", "it's"]


def test_the_script_leaves_what_exists(tmp_path: Path) -> None:
    calls = run_az(tmp_path, az(NEEDED), [*expected()])
    assert az_containers(calls) == {}
    written = [" ".join(call[2 : call.index("create")]) for call in calls if "create" in call]
    assert written == ["database", "role assignment", "role assignment"]  # shop has both already


@pytest.mark.parametrize("write", [bicep, az])
def test_native_indexes_are_written_as_such(write: Any) -> None:
    [candidate] = candidates(Layout(Catalog(projections=(CATALOG["by-no"],)), "shop"))
    assert candidate.wanted
    text = write(Needed([candidate.wanted], [Container("shop", "orders")]))
    assert "materializedViewDefinition" in text
    assert "SELECT * FROM c" in text
    assert "maxThroughput" in text
    assert "-preview" in text
