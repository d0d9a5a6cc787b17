"""The README says what there is: every command, option, setting, declared field and host.json key, and nothing else."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest
import typer

import projections
from projections.cli.app import app
from projections.declare import Catalog, Custom, Index, Target
from projections.embed import Embed, Reference
from projections.provision import Layout, own
from projections.settings import Settings
from projections.store import Container

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> dict[str, Any]:
    """Every command; one of a group under both names."""
    found = {}
    for name, command in vars(typer.main.get_command(app))["commands"].items():
        inner = getattr(command, "commands", None)
        found |= {f"{name} {one}": of for one, of in inner.items()} if inner else {name: command}
    return found


def in_readme() -> dict[str, str]:
    """The commands of the table, each with its line."""
    rows = re.finditer(r"^\| `([a-z]+(?: [a-z]+)?)[^`]*` \|.*$", README, re.MULTILINE)
    return {match[1]: match[0] for match in rows}


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_is_in_the_readme_with_all_its_options(name: str) -> None:
    line = in_readme()[name]
    for parameter in commands()[name].params:
        for option in parameter.opts:
            if option.startswith("--") and option not in ("--json", "--help"):
                assert option in line, f"{name} {option}"


def test_the_readme_names_no_other_commands() -> None:
    table = README[README.index("| command | does |") : README.index("A first session")]
    named = re.findall(r"^\| `([a-z]+(?: [a-z]+)?)", table, re.MULTILINE)
    assert sorted(named) == sorted(commands())


def settings_read() -> set[str]:
    """The names that Settings.read looks up."""
    tree = ast.parse((ROOT / "projections/settings.py").read_text(encoding="utf-8"))
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)]
    gets = [c for c in calls if isinstance(c.func, ast.Attribute) and c.func.attr == "get" and c.args]
    found = {c.args[0].value for c in gets if isinstance(c.args[0], ast.Constant)}
    return {str(name) for name in found if str(name).startswith(("COSMOS", "PROJECTIONS"))}


def test_every_setting_is_in_the_readme() -> None:
    assert len(settings_read()) >= 5
    for name in settings_read():
        assert re.search(rf"^\| `{name}` \|", README, re.MULTILINE), name
        assert name in str(Settings.read.__doc__), name


def test_the_settings_of_the_app_are_in_the_readme() -> None:
    example = json.loads((ROOT / "local.settings.example.json").read_text(encoding="utf-8"))
    for name in example["Values"]:
        assert re.search(rf"^\| `{name}` \|", README, re.MULTILINE), name


def leaves(value: Any, path: tuple[str, ...] = ()) -> list[str]:
    if isinstance(value, dict):
        return [leaf for name, inner in value.items() for leaf in leaves(inner, (*path, name))]
    return [".".join(path)]


def test_every_key_of_host_json_is_explained() -> None:
    rows = re.findall(r"^\| `([\w.]+)` \|", README, re.MULTILINE)
    for leaf in leaves(json.loads((ROOT / "host.json").read_text(encoding="utf-8"))):
        assert any(leaf == row or leaf.startswith(row + ".") for row in rows), leaf


@pytest.mark.parametrize("declaration", [Index, Custom, Embed, Reference, Target, Catalog])
def test_every_declared_field_is_in_the_readme(declaration: Any) -> None:
    section = README[README.index("## Declaring projections") : README.index("## Commands")]
    for name in declaration.model_fields:
        assert re.search(rf"\b{name}\b", section), f"{declaration.__name__}.{name}"


def test_the_containers_to_create_beforehand_are_all_named() -> None:
    layout = Layout(Catalog(projections=()), "shop")
    section = README[README.index("## Deploying") : README.index("## Guarantees")]
    for description in own(layout):
        assert description.container != Container("shop", "")
        assert f"`{description.container.name}` keyed `{description.key_paths[0]}`" in section


def test_the_catalog_in_the_readme_is_a_catalog() -> None:
    [code] = re.findall(r"```python\n(from projections import Catalog.*?)```", README, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    assert [p.name for p in namespace["catalog"]] == ["orders-by-id", "orders-by-status", "big-open-orders"]


def test_the_native_definition_in_the_readme_is_one() -> None:
    [code] = re.findall(r"```python\n(from projections import Source, gsi.*?)```", README, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(code, namespace)
    made = namespace["by_city"]
    assert (made.key.paths, made.missing, made.null) == (("/ship/city",), "keep", "keep")


def test_the_public_words_are_sorted() -> None:
    assert projections.__all__ == sorted(projections.__all__)
    for name in projections.__all__:
        assert hasattr(projections, name)


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"\bmake ([a-z-]+)", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
