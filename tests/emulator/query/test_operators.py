"""Arithmetic, text, conditions, and which operator binds first."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1 + 2 * 3", [7]),
        ("(1 + 2) * 3", [9]),
        ("10 - 3 - 2", [5]),
        ("2 * 3 % 4", [2]),
        ("7 / 2", [3.5]),
        ("6 / 3", [2]),
        ("1 / 0", []),
        ("1 % 0", []),
        ("-7 % 3", [-1]),
        ("5.5 % 2", [1.5]),
        ("9007199254740993 + 0", [9007199254740993]),
        ("1 + '1'", []),
        ("1 + null", []),
        ("1 + true", []),
        ("1 + c.missing", []),
        ("- c.n", [-4]),
        ("+ c.n", [4]),
        ("- 'a'", []),
        ("c.n -1", [3]),
        ("1 - -1", [2]),
        ("6 & 3", [2]),
        ("6 | 3", [7]),
        ("6 ^ 3", [5]),
        ("~5", [-6]),
        ("4294967296 | 1", [1]),  # 32 bits, as in JavaScript
        ("2147483648 | 0", [-2147483648]),
        ("'a' || 'b' || 'c'", ["abc"]),
        ("'a' || 1", []),
        # precedence
        ("1 + 1 = 2", [True]),
        ("1 < 2 = true", [True]),
        ("true OR false AND false", [True]),
        ("(true OR false) AND false", [False]),
        ("NOT 1 = 2", [True]),
        ("NOT false AND false", [False]),
        ("1 = 1 AND 2 = 2 OR 1 = 2", [True]),
        ("2 BETWEEN 1 AND 3 AND false", [False]),
        ("2 + 1 BETWEEN 3 AND 2 + 1", [True]),
        ("2 IN (1, 1 + 1)", [True]),
        ("1 <> 2", [True]),
        ("1 | 2 = 3", []),  # = binds tighter: 1 | false
        # conditions
        ("true ? 1 : 2", [1]),
        ("c.missing ? 1 : 2", [2]),
        ("1 ? 1 : 2", [2]),
        ("false ? 1 : true ? 2 : 3", [2]),
        ("true ? false ? 1 : 2 : 3", [2]),
        ("{a: c.n > 3 ? 'big' : 'small'}", [{"a": "big"}]),
        ("c.missing ?? c.gone ?? 5", [5]),
        ("null ?? 5", [None]),
        ("c.n ?? 5", [4]),
        ("c.missing ?? c.gone", []),
        ("c.missing ?? false ? 1 : 2", [2]),
    ],
)
def test_operators(ask, expression, expected):
    assert ask(f"SELECT VALUE {expression} FROM c", [{"n": 4}]) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("c.list[0]", ["a"]),
        ("c.list[2]", []),
        ("c.list[-1]", []),
        ("c.list['0']", []),
        ("c.list.length", []),
        ("c.list[true]", []),
        ("c.text[0]", []),
        ("c.text.x.y", []),
        ("c.object.list[1].deep", ["yes"]),
        ("c.object[c.key][1].deep", ["yes"]),
        ("c.nothing.x", []),
        ("[1, c.missing, 3]", [[1, None, 3]]),
        ("{a: c.missing, b: c.text}", [{"b": "hello"}]),
        ("{a: 1}.a", [1]),
        ("[1, 2][1]", [2]),
        ("@p.x", ["from the parameter"]),
    ],
)
def test_paths(ask, expression, expected):
    document = {
        "list": ["a", "b"],
        "text": "hello",
        "nothing": None,
        "key": "list",
        "object": {"list": [1, {"deep": "yes"}]},
    }
    assert ask(f"SELECT VALUE {expression} FROM c", [document], {"@p": {"x": "from the parameter"}}) == expected


@pytest.mark.parametrize(
    ("text", "pattern", "expected"),
    [
        ("abc", "abc", True),
        ("abc", "ABC", False),
        ("abc", "a%", True),
        ("abc", "%c", True),
        ("abc", "%b%", True),
        ("abc", "b%", False),
        ("abc", "%", True),
        ("", "%", True),
        ("", "_", False),
        ("abc", "a_c", True),
        ("abc", "a__c", False),
        ("abc", "%%%c", True),
        ("aab", "%ab", True),
        ("abab", "a%b%a%b", True),
        ("aba", "a%b%a%b", False),
        ("abc", "[a-c]bc", True),
        ("abc", "[^a-c]bc", False),
        ("zbc", "[^a-c]bc", True),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("a(c", "a(c", True),
        ("a[c", "a[c", True),
        ("a\nc", "a%c", True),
        ("a^c", "a[b^]c", True),
    ],
)
def test_like(ask, text, pattern, expected):
    assert ask("SELECT VALUE @text LIKE @pattern", [{}], {"@text": text, "@pattern": pattern}) == [expected]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'100%' LIKE '100!%' ESCAPE '!'", [True]),
        ("'1000' LIKE '100!%' ESCAPE '!'", [False]),
        (r"'a_b' LIKE '%\\_b' ESCAPE '\\'", [True]),
        ("'abc' NOT LIKE 'a%'", [False]),
        ("1 LIKE '1'", []),
        ("'a' LIKE c.missing", []),
        ("'a' NOT LIKE 1", []),
    ],
)
def test_like_with_escape_and_not(ask, expression, expected):
    assert ask(f"SELECT VALUE {expression} FROM c") == expected
