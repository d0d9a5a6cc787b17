"""The rings: pure code knows nothing of I/O, one module knows the SDK, one the Functions host, the emulator nobody."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "projections"

PURE = {
    "errors", "asking", "keys", "texts", "buckets", "strategies", "version", "where", "flows", "declare", "identity",
    "entries", "plan", "outcomes", "rows", "embed", "references", "measures", "aggregate", "totals", "changes",
    "revision",
}  # fmt: skip
PURE_MAY_IMPORT = {
    "__future__", "abc", "base64", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "functools",
    "hashlib", "itertools", "json", "math", "re", "typing", "pydantic",
}  # fmt: skip


def imports(path: Path) -> set[str]:
    """The full names of all modules that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level:
            package = path.relative_to(ROOT).parts[: -node.level]
            found.add(".".join([*package, *([node.module] if node.module else [])]))
        elif isinstance(node, ast.ImportFrom):
            found.add(str(node.module))
    return found


def modules() -> list[Path]:
    return sorted(path for path in PACKAGE.rglob("*.py"))


def name(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


@pytest.mark.parametrize("module", sorted(PURE))
def test_pure_modules_import_only_pure_things(module: str) -> None:
    for imported in imports(PACKAGE / f"{module}.py"):
        top, _, rest = imported.partition(".")
        allowed = rest in PURE if top == "projections" else top in PURE_MAY_IMPORT
        assert allowed, f"projections.{module} imports {imported}"


@pytest.mark.parametrize("module", sorted(PURE))
def test_pure_modules_ask_no_clock_and_no_chance(module: str) -> None:
    source = (PACKAGE / f"{module}.py").read_text(encoding="utf-8")
    assert not {"time", "random", "os", "asyncio", "logging"} & imports(PACKAGE / f"{module}.py")
    assert ".now()" not in source


def test_native_definitions_are_pure_but_for_their_parser() -> None:
    for path in (PACKAGE / "gsi").glob("*.py"):
        for imported in imports(path):
            top, _, rest = imported.partition(".")
            own = rest in PURE or rest.partition(".")[0] == "gsi"
            assert own if top == "projections" else top in PURE_MAY_IMPORT | {"lark"}, (
                f"{name(path)} imports {imported}"
            )


def test_one_package_knows_the_sdk() -> None:
    users = {name(path) for path in modules() if any(i.startswith("azure.cosmos") for i in imports(path))}
    assert users
    assert all(user.startswith("projections.cosmos.") for user in users)


def test_one_module_knows_the_functions_host() -> None:
    files = [*modules(), ROOT / "function_app.py"]
    users = {name(path) for path in files if path.exists() and "azure.functions" in imports(path)}
    assert users == {"function_app"}


def test_the_emulator_stands_alone() -> None:
    for path in (PACKAGE / "emulator").rglob("*.py"):
        for imported in imports(path):
            outside = imported.startswith("projections") and not imported.startswith("projections.emulator")
            assert not outside, f"{name(path)} imports {imported}"


def test_a_deployed_app_needs_nothing_of_the_terminal() -> None:
    """Only the CLI may import what is in the extras, and nothing but the CLI imports the CLI."""
    requirements = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    extras = {"typer", "rich", "lark", "cryptography"} - set(re.findall(r"^[a-z]+", requirements, re.MULTILINE))
    for path in modules():
        if path.is_relative_to(PACKAGE / "cli") or path.is_relative_to(PACKAGE / "emulator"):
            continue
        if path.name in ("demo.py", "__main__.py"):
            continue
        for imported in imports(path):
            assert imported.partition(".")[0] not in extras, f"{name(path)} imports {imported}"
            assert not imported.startswith(("projections.cli", "projections.emulator")), f"{name(path)}: {imported}"
