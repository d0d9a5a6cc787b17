"""The built-in functions, family by family. `UNDEFINED` marks results that are no value."""

from __future__ import annotations

import re
import time

import pytest

from projections.emulator.query import QueryError, compile_query

UNDEFINED = "<undefined>"
DOCUMENT = {"s": "Hello", "n": -2.5, "t": True, "z": None, "a": [1, "x", {"k": 1, "m": 2}], "o": {"k": 1}}


def check(ask, expression, expected):
    assert ask(f"SELECT VALUE {expression} FROM c", [DOCUMENT]) == ([] if expected is UNDEFINED else [expected])


@pytest.mark.parametrize(
    ("name", "true_for"),
    [
        ("IS_DEFINED", "sntzaoi"),
        ("IS_NULL", "z"),
        ("IS_BOOL", "t"),
        ("IS_NUMBER", "ni"),
        ("IS_FINITE_NUMBER", "ni"),
        ("IS_INTEGER", "i"),
        ("IS_STRING", "s"),
        ("IS_ARRAY", "a"),
        ("IS_OBJECT", "o"),
        ("IS_PRIMITIVE", "sntzi"),
    ],
)
def test_types(ask, name, true_for):
    values = {"s": "c.s", "n": "c.n", "t": "c.t", "z": "c.z", "a": "c.a", "o": "c.o", "i": "3.0", "u": "c.missing"}
    for key, value in values.items():
        check(ask, f"{name}({value})", key in true_for)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("CONCAT('a', 'b', 'c')", "abc"),
        ("CONCAT('a', 1)", UNDEFINED),
        ("CONCAT('a', 'b', c.missing)", UNDEFINED),
        ("concat(c.s, '!')", "Hello!"),
        ("CONTAINS(c.s, 'ell')", True),
        ("CONTAINS(c.s, 'ELL')", False),
        ("CONTAINS(c.s, 'ELL', true)", True),
        ("CONTAINS(c.s, 'ELL', false)", False),
        ("CONTAINS(c.s, '')", True),
        ("CONTAINS(c.n, '2')", UNDEFINED),
        ("STARTSWITH(c.s, 'He')", True),
        ("STARTSWITH(c.s, 'he')", False),
        ("StartsWith(c.s, 'he', true)", True),
        ("ENDSWITH(c.s, 'LO')", False),
        ("ENDSWITH(c.s, 'LO', true)", True),
        ("StringEquals(c.s, 'HELLO')", False),
        ("StringEquals(c.s, 'HELLO', true)", True),
        ("StringEquals(null, null)", UNDEFINED),
        ("INDEX_OF(c.s, 'l')", 2),
        ("INDEX_OF(c.s, 'l', 3)", 3),
        ("INDEX_OF(c.s, 'z')", -1),
        ("LEFT(c.s, 2)", "He"),
        ("LEFT(c.s, 0)", ""),
        ("LEFT(c.s, 99)", "Hello"),
        ("RIGHT(c.s, 2)", "lo"),
        ("RIGHT(c.s, 0)", ""),
        ("RIGHT(c.s, 99)", "Hello"),
        ("LENGTH(c.s)", 5),
        ("LENGTH(c.a)", UNDEFINED),
        ("LOWER(c.s)", "hello"),
        ("UPPER(c.s)", "HELLO"),
        ("UPPER(1)", UNDEFINED),
        ("LTRIM('  a ')", "a "),
        ("RTRIM('  a ')", "  a"),
        ("TRIM('  a ')", "a"),
        ("REPLACE(c.s, 'l', 'LL')", "HeLLLLo"),
        ("REPLACE(c.s, '', 'x')", "Hello"),
        ("REPLICATE('ab', 3)", "ababab"),
        ("REPLICATE('ab', -1)", UNDEFINED),
        ("REPLICATE('ab', 100000000000)", UNDEFINED),
        ("REVERSE(c.s)", "olleH"),
        ("SUBSTRING(c.s, 1, 3)", "ell"),
        ("SUBSTRING(c.s, 9, 1)", ""),
        ("SUBSTRING(c.s, 1, -1)", ""),
        ("StringJoin(['a', 'b'], '-')", "a-b"),
        ("StringJoin(['a', 1], '-')", UNDEFINED),
        ("StringSplit('a-b-', '-')", ["a", "b", ""]),
        ("ToString(1)", "1"),
        ("ToString(1.5)", "1.5"),
        ("ToString(true)", "true"),
        ("ToString(null)", "null"),
        ("ToString('x')", "x"),
        ("ToString([1, 'a'])", '[1,"a"]'),
        ("ToString(c.missing)", UNDEFINED),
        ("StringToNumber('12')", 12),
        ("StringToNumber('1.50')", 1.5),
        ("StringToNumber('x')", UNDEFINED),
        ("StringToNumber('NaN')", UNDEFINED),
        ("StringToNumber('true')", UNDEFINED),
        ("StringToBoolean('true')", True),
        ("StringToBoolean('TRUE')", UNDEFINED),
        ("StringToNull('null')", None),
        ("StringToNull('x')", UNDEFINED),
        ("StringToArray('[1, \"a\"]')", [1, "a"]),
        ("StringToArray('{}')", UNDEFINED),
        ("StringToObject('{\"a\": 1}')", {"a": 1}),
        ("StringToObject('[1]')", UNDEFINED),
        ("RegexMatch(c.s, '^h')", False),
        ("RegexMatch(c.s, '^h', 'i')", True),
        ("RegexMatch(c.s, 'l+o$')", True),
        ("RegexMatch('a\\nb', '^b$', 'm')", True),
        ("RegexMatch(1, 'a')", UNDEFINED),
        ("IIF(c.t, 'yes', 'no')", "yes"),
        ("IIF(c.missing, 'yes', 'no')", "no"),
        ("IIF(1, 'yes', 'no')", "no"),
    ],
)
def test_strings(ask, expression, expected):
    check(ask, expression, expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("ARRAY_CONTAINS(c.a, 1)", True),
        ("ARRAY_CONTAINS(c.a, 1.0)", True),
        ("ARRAY_CONTAINS(c.a, true)", False),
        ("ARRAY_CONTAINS(c.a, '1')", False),
        ("ARRAY_CONTAINS(c.a, {k: 1, m: 2})", True),
        ("ARRAY_CONTAINS(c.a, {k: 1})", False),
        ("ARRAY_CONTAINS(c.a, {k: 1}, true)", True),
        ("ARRAY_CONTAINS(c.a, {k: 2}, true)", False),
        ("ARRAY_CONTAINS(c.a, 'x', true)", True),
        ("ARRAY_CONTAINS(c.s, 'H')", UNDEFINED),
        ("ARRAY_CONTAINS(c.a, c.missing)", UNDEFINED),
        ("ARRAY_LENGTH(c.a)", 3),
        ("ARRAY_LENGTH(c.s)", UNDEFINED),
        ("ARRAY_SLICE([1, 2, 3], 1)", [2, 3]),
        ("ARRAY_SLICE([1, 2, 3], 0, 1)", [1]),
        ("ARRAY_SLICE([1, 2, 3], -2)", [2, 3]),
        ("ARRAY_SLICE([1, 2, 3], -9, 2)", [1, 2]),
        ("ARRAY_SLICE([1, 2, 3], 5)", []),
        ("ARRAY_CONCAT([1], [2], [3])", [1, 2, 3]),
        ("ARRAY_CONCAT([1], 2)", UNDEFINED),
        ("ARRAY_CONTAINS_ANY([1, true, '3', [1, 2]], 9, [1, 2])", True),
        ("ARRAY_CONTAINS_ANY([1, 2], 3, 4)", False),
        ("ARRAY_CONTAINS_ANY([], 1)", False),
        ("ARRAY_CONTAINS_ANY([1, 2], 1, undefined)", True),
        ("ARRAY_CONTAINS_ANY([1, 2], 5, undefined)", UNDEFINED),
        ("ARRAY_CONTAINS_ALL([1, true, '3'], 1, true, '3')", True),
        ("ARRAY_CONTAINS_ALL([1, 2], 2, 3)", False),
        ("ARRAY_CONTAINS_ALL([1, 2], 1, undefined)", UNDEFINED),
        ("ARRAY_CONTAINS_ALL([1, 2], 5, undefined)", False),
        ("SetIntersect([1, 2, 2, 3], [2, 3.0, 4])", [2, 3]),
        ("SetUnion([1, 2, 2], [2, 3])", [1, 2, 3]),
        ("SetUnion([1], [true])", [1, True]),
        ("ObjectToArray(c.o)", [{"k": "k", "v": 1}]),
        ("ObjectToArray(c.o, 'name', 'value')", [{"name": "k", "value": 1}]),
        ("ObjectToArray(c.a)", UNDEFINED),
    ],
)
def test_arrays(ask, expression, expected):
    check(ask, expression, expected)
    assert repr(ask(f"SELECT VALUE {expression} FROM c", [DOCUMENT])) == repr(
        [] if expected is UNDEFINED else [expected]
    )


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("ABS(c.n)", 2.5),
        ("CEILING(c.n)", -2),
        ("FLOOR(c.n)", -3),
        ("ROUND(c.n)", -3),
        ("ROUND(2.4)", 2),
        ("TRUNC(c.n)", -2),
        ("SQRT(9)", 3),
        ("SQRT(-1)", UNDEFINED),
        ("SQUARE(3)", 9),
        ("POWER(2, 10)", 1024),
        ("POWER(10, 400)", UNDEFINED),
        ("EXP(0)", 1),
        ("LOG(1)", 0),
        ("LOG(8, 2)", 3),
        ("LOG(0)", UNDEFINED),
        ("LOG10(1000)", 3),
        ("SIGN(c.n)", -1),
        ("SIGN(0)", 0),
        ("PI()", 3.141592653589793),
        ("SIN(0)", 0),
        ("COS(0)", 1),
        ("TAN(0)", 0),
        ("ASIN(2)", UNDEFINED),
        ("ACOS(1)", 0),
        ("ATAN(0)", 0),
        ("ATN2(0, 1)", 0),
        ("DEGREES(PI())", 180),
        ("RADIANS(180)", 3.141592653589793),
        ("ABS('1')", UNDEFINED),
        ("ABS(true)", UNDEFINED),
        ("ABS(null)", UNDEFINED),
        ("FLOOR(9007199254740993)", 9007199254740993),
        ("NumberBin(37, 10)", 30),
        ("IntAdd(2, 3)", 5),
        ("IntSub(2, 3)", -1),
        ("IntMul(9223372036854775807, 2)", UNDEFINED),
        ("IntDiv(-7, 2)", -3),
        ("IntMod(-7, 2)", -1),
        ("IntDiv(1, 0)", UNDEFINED),
        ("IntAdd(1.5, 1)", UNDEFINED),
        ("IntBitAnd(6, 3)", 2),
        ("IntBitLeftShift(1, 4)", 16),
        ("IntBitNot(0)", -1),
    ],
)
def test_numbers(ask, expression, expected):
    check(ask, expression, expected)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("DateTimeAdd('yyyy', 1, '2020-07-03T00:00:00.0000000')", "2021-07-03T00:00:00.0000000Z"),
        ("DateTimeAdd('mm', 1, '2020-01-31T10:20:30.1234567Z')", "2020-02-29T10:20:30.1234567Z"),
        ("DateTimeAdd('mm', -7, '2020-07-03T00:00:00Z')", "2019-12-03T00:00:00.0000000Z"),
        ("DateTimeAdd('dd', -1, '2020-01-01')", "2019-12-31T00:00:00.0000000Z"),
        ("DateTimeAdd('hh', 25, '2020-01-01T00:00:00Z')", "2020-01-02T01:00:00.0000000Z"),
        ("DateTimeAdd('ns', 250, '2020-01-01T00:00:00Z')", "2020-01-01T00:00:00.0000002Z"),
        ("DateTimeAdd('yyyy', 9999, '2020-01-01T00:00:00Z')", UNDEFINED),
        ("DateTimeAdd('fortnight', 1, '2020-01-01T00:00:00Z')", UNDEFINED),
        ("DateTimeAdd('dd', 1, 'yesterday')", UNDEFINED),
        ("DateTimeAdd('dd', 1, '2021-02-29T00:00:00Z')", UNDEFINED),
        ("DateTimeDiff('yyyy', '2019-02-04T16:00:00.0000000', '2018-03-05T05:00:00.0000000')", -1),
        ("DateTimeDiff('mm', '2019-02-04T16:00:00.0000000', '2018-03-05T05:00:00.0000000')", -11),
        ("DateTimeDiff('dd', '2018-03-05T05:00:00.0000000', '2019-02-04T16:00:00.0000000')", 336),
        ("DateTimeDiff('hh', '2018-03-05T05:00:00.0000000', '2019-02-04T16:00:00.0000000')", 8075),
        ("DateTimeDiff('ss', '2020-01-01T00:00:00Z', '2020-01-01T00:01:00.5Z')", 60),
        ("DateTimePart('yyyy', '2016-05-29T08:30:00.1301617')", 2016),
        ("DateTimePart('mm', '2016-05-29T08:30:00.1301617')", 5),
        ("DateTimePart('mi', '2016-05-29T08:30:00.1301617')", 30),
        ("DateTimePart('ms', '2016-05-29T08:30:00.1301617')", 130),
        ("DateTimePart('mcs', '2016-05-29T08:30:00.1301617')", 130161),
        ("DateTimePart('ns', '2016-05-29T08:30:00.1301617')", 130161700),
        ("DateTimeFromParts(2020, 9, 4)", "2020-09-04T00:00:00.0000000Z"),
        ("DateTimeFromParts(2017, 4, 20, 13, 15, 20, 3456789)", "2017-04-20T13:15:20.3456789Z"),
        ("DateTimeFromParts(2017, 14, 20)", UNDEFINED),
        ("DateTimeToTimestamp('2020-07-09T23:20:13.4575530Z')", 1594336813457),
        ("TimestampToDateTime(1594227912345)", "2020-07-08T17:05:12.3450000Z"),
        ("DateTimeToTicks('1970-01-01T00:00:01Z')", 10000000),
        ("TicksToDateTime(15943368134575530)", "2020-07-09T23:20:13.4575530Z"),
        ("DateTimeBin('2021-01-08T18:35:00.0000000', 'dd')", "2021-01-08T00:00:00.0000000Z"),
        ("DateTimeBin('2021-01-08T18:35:00.0000000', 'hh', 4)", "2021-01-08T16:00:00.0000000Z"),
        ("DateTimeToTimestamp(5)", UNDEFINED),
    ],
)
def test_dates(ask, expression, expected):
    check(ask, expression, expected)


def test_the_present(ask):
    before = time.time()
    text = "SELECT GetCurrentDateTime() AS d, GetCurrentTimestamp() AS ms, GetCurrentTicks() AS ticks"
    (row,) = ask(text)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{7}Z", row["d"])
    assert before - 1 <= row["ms"] / 1000 <= time.time() + 1
    assert abs(row["ticks"] / 10**7 - before) < 60
    assert ask(
        "SELECT VALUE DateTimeToTimestamp(GetCurrentDateTime()) >= @before", [{}], {"@before": int(before * 1000) - 1}
    ) == [True]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("{type: 'Point', coordinates: [20, 20]}", "{type: 'Point', coordinates: [20, 20]}", 0),
        ("{type: 'Point', coordinates: [0, 0]}", "{type: 'Point', coordinates: [0, 1]}", 111_195),
        ("{type: 'Point', coordinates: [20.1, 20]}", "{type: 'Point', coordinates: [20, 20]}", 10_449),
        ("{type: 'Point', coordinates: [-180, 0]}", "{type: 'Point', coordinates: [180, 0]}", 0),
        ("{type: 'Point', coordinates: [0, 100]}", "{type: 'Point', coordinates: [0, 0]}", UNDEFINED),
        ("{type: 'Polygon', coordinates: [[0, 0]]}", "{type: 'Point', coordinates: [0, 0]}", UNDEFINED),
        ("[0, 0]", "[0, 1]", UNDEFINED),
    ],
)
def test_distances_between_points(ask, left, right, expected):
    check(ask, f"ROUND(ST_DISTANCE({left}, {right}))", expected)


def test_rand_is_below_one(ask):
    (value,) = ask("SELECT VALUE RAND()")
    assert 0 <= value < 1


@pytest.mark.parametrize(
    ("pattern", "complaint"),
    [
        ("(a+)+$", "repetition of a group"),
        ("(a|a)*b", "repetition of a group"),
        ("((ab)*c){2,}", "repetition of a group"),
        ("a" * 1001, "1000 characters"),
        ("(", "not valid"),
        ("[z-a]", "not valid"),
        (".*.*.*x", "too costly"),
    ],
)
def test_a_pattern_that_could_run_away_is_refused(pattern, complaint):
    query = compile_query("SELECT VALUE RegexMatch(@text, @pattern)").bind({"@text": "a" * 5000, "@pattern": pattern})
    with pytest.raises(QueryError, match=complaint):
        list(query.rows([{}]))


def test_an_unknown_modifier_is_refused(ask):
    with pytest.raises(QueryError, match="modifier 'q'"):
        ask("SELECT VALUE RegexMatch('a', 'a', 'q')")
