"""What the README says of keys: its table, its declarations, and its JavaScript, which is run where there is node."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import projections
from projections.identity import Identity
from projections.keys import MAX_EXACT, UNDEFINED, Key
from projections.strategies import HashSuffix
from projections.texts import joined

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SECTION = README[README.index("### Keys") : README.index("### Reading")]
NODE = shutil.which("node")


def suffixes(values: list[Any]) -> list[int]:
    of = tuple(f"/f{n}" for n, _ in enumerate(values))
    return [HashSuffix("/base", of=of, count=count).hashed(values) for count in (8, 10, 1_000)]


def test_the_vectors_in_the_readme() -> None:
    rows = re.findall(r"^\| `(\[.*\])` \| (?:`(.*)`)? ?\| (\d+) \| (\d+) \| (\d+) \|$", SECTION, re.MULTILINE)
    assert len(rows) == 10
    for values, text, *numbers in rows:
        assert joined(json.loads(values), "_") == text
        assert suffixes(json.loads(values)) == list(map(int, numbers))


def test_every_strategy_is_declared_in_the_readme() -> None:
    [code] = re.findall(r"```python\n(from projections import Concat.*?)```", SECTION, re.DOTALL)
    orders = projections.Source(container="orders", key="/customerId")
    made = [
        eval(line, vars(projections) | {"orders": orders}) for line in code.splitlines() if line.startswith("Index")
    ]
    assert len({type(index.key) for index in made}) == 4
    for name in ("Concat", "TimeBucket", "RandomSuffix", "HashSuffix"):
        assert name in projections.__all__
        assert f"- **{name}**" in SECTION


def some_values(seed: int) -> list[Any]:
    draw = random.Random(seed)
    texts = ["".join(draw.choices("ab_~sntu1é漢🙂\ud800", k=draw.randrange(6))) for _ in range(3)]
    numbers = [draw.randrange(-MAX_EXACT, MAX_EXACT), draw.uniform(-10, 10), 10.0 ** -draw.randrange(12)]
    return draw.sample([*texts, *numbers, 7, "7", None, True, False, UNDEFINED], k=draw.randrange(1, 4))


@pytest.mark.skipif(NODE is None, reason="there is no node")
def test_the_javascript_of_the_readme_makes_the_same_keys() -> None:
    [code] = re.findall(r"```js\n(.*?)```", SECTION, re.DOTALL)
    golden = json.loads((ROOT / "tests/golden/keys.json").read_text(encoding="utf-8"))
    vectors = [[UNDEFINED if v == {} else v for v in vector["values"]] for vector in golden]
    vectors += [some_values(seed) for seed in range(500)]
    given = json.dumps([[{} if v is UNDEFINED else v for v in values] for values in vectors])
    program = f"""{code}
const back = (value) => (value !== null && typeof value === "object" ? undefined : value);
const found = {given}.map((values) => values.map(back)).map((values) => [
  joined(values), suffix(values, 8), suffix(values, 10), suffix(values, 1000), key(values[0], values, 10)]);
console.log(JSON.stringify(found));"""
    assert NODE is not None
    answer = subprocess.run([NODE, "-"], input=program, capture_output=True, text=True, check=True, encoding="utf-8")
    owner = Identity(Key.of("x"), "1")
    for values, found in zip(vectors, json.loads(answer.stdout), strict=True):
        strategy = HashSuffix("/f0", of=tuple(f"/f{n}" for n, _ in enumerate(values)), count=10)
        item = {f"f{n}": value for n, value in enumerate(values) if value is not UNDEFINED}
        assert found == [joined(values, "_"), *suffixes(values), strategy.value(item, owner)]
