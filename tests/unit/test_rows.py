"""Several entries an item: taking arrays apart, telling elements from one another, functions that make rows."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from projections.declare import Custom
from projections.entries import Entry, Rules, wanted
from projections.errors import CatalogError, ItemError
from projections.where import field
from tests.support import NOW, ORDERS, index, item, state, want

LINES = [{"sku": "a", "n": 1}, {"sku": "b", "n": 2}]


def lines(found: tuple[Entry, ...]) -> list[Any]:
    return [entry.content["lines"] for entry in found]


def ids(found: tuple[Entry, ...]) -> list[str]:
    return [entry.place.id for entry in found]


def by_sku(**fields: Any) -> Any:
    return index(**{"each": "/lines", "by": "/lines/sku", "key": "/lines/sku", **fields})


# each


def test_every_element_has_an_entry_in_the_place_of_its_array():
    found = want(by_sku(), item(lines=LINES))
    assert [entry.content for entry in found.entries] == [
        {"shop": "s1", "status": "open", "lines": {"sku": "a", "n": 1}},
        {"shop": "s1", "status": "open", "lines": {"sku": "b", "n": 2}},
    ]
    assert [entry.place.key.values for entry in found.entries] == [("a",), ("b",)]


def test_include_names_fields_of_the_element_and_of_the_item():
    found = want(by_sku(include=("/shop", "/lines/n")), item(lines=LINES))
    assert found.entries[1].content == {"shop": "s1", "lines": {"n": 2, "sku": "b"}}


def test_where_is_asked_of_every_element_and_who_is_left_out_is_counted():
    found = want(by_sku(where=field("/lines/n") > 1), item(lines=LINES))
    assert lines(found.entries) == [LINES[1]]
    assert found.notes == ("element skipped: where",)


def test_an_item_of_which_every_element_is_left_out_says_why():
    assert want(by_sku(where=field("/lines/n") > 9), item(lines=LINES)).skip == "where"
    assert want(by_sku(), item(lines=[{"sku": None}] * 0)).skip == "no elements"


@pytest.mark.parametrize("fields", [{}, {"lines": None}, {"lines": []}], ids=str)
def test_without_elements_there_is_no_entry(fields):
    assert want(by_sku(), item(**fields)).skip == "no elements"


@pytest.mark.parametrize("value", ["ab", 7, True, {"0": {"sku": "a"}}], ids=repr)
def test_what_is_no_array_parks_the_item(value):
    with pytest.raises(ItemError, match="/lines is no array"):
        want(by_sku(), item(lines=value))


def test_arrays_within_arrays():
    orders = [
        {"no": 1, "lines": [{"sku": "a"}, {"sku": "b"}]},
        {"no": 2, "lines": []},
        {"no": 3, "lines": [{"sku": "a"}]},
    ]
    projection = index(each="/orders/*/lines", by=("/orders/no", "/orders/lines/sku"), key="/orders/lines/sku")
    found = want(projection, item(orders=orders)).entries
    assert [entry.content["orders"] for entry in found] == [
        {"no": 1, "lines": {"sku": "a"}}, {"no": 1, "lines": {"sku": "b"}}, {"no": 3, "lines": {"sku": "a"}},
    ]  # fmt: skip
    assert len(set(ids(found))) == 3


def test_a_path_between_the_arrays():
    found = want(index(each="/a/b/*/c/d", key="/a/b/c/d"), item(a={"b": [{"c": {"d": ["x", "y"]}}]}))
    assert [entry.content["a"] for entry in found.entries] == [{"b": {"c": {"d": "x"}}}, {"b": {"c": {"d": "y"}}}]


def test_the_item_itself_is_left_as_it_was():
    document = item(lines=[{"sku": "a"}])
    want(by_sku(exclude=("/status",)), document)
    assert document == item(lines=[{"sku": "a"}])


def test_thousands_of_elements():
    found = want(by_sku(), item(lines=[{"sku": f"s{n}"} for n in range(5_000)])).entries
    assert len(set(ids(found))) == 5_000


def test_a_model_looks_at_the_whole_item():
    class Order(BaseModel):
        lines: list[dict[str, Any]]

    with pytest.raises(ItemError, match="does not fit Order"):
        want(by_sku(model=Order), item(lines="none"))
    assert len(want(by_sku(model=Order), item(lines=LINES)).entries) == 2


@pytest.mark.parametrize("key", [{}, [1]], ids=repr)
def test_an_element_whose_key_is_no_scalar_parks_the_item(key):
    with pytest.raises(ItemError, match="/lines/n is no scalar"):
        want(by_sku(key="/lines/n"), item(lines=[LINES[0], {"sku": "z", "n": key}]))


def test_an_element_without_a_key_is_left_out_and_counted():
    found = want(by_sku(key="/lines/n"), item(lines=[LINES[0], {"sku": "z"}]))
    assert lines(found.entries) == [LINES[0]]
    assert found.notes == ("element skipped: missing key",)


# which is which


def test_by_position_an_element_keeps_its_entry_while_its_content_changes():
    one, two = (want(index(each="/lines"), item(lines=[{"n": n}])).entries for n in (1, 2))
    assert ids(one) == ids(two)
    assert one[0].hash != two[0].hash


def test_by_path_the_order_of_elements_does_not_matter():
    one, two = (want(by_sku(), item(lines=order)).entries for order in (LINES, LINES[::-1]))
    assert ids(one) == ids(two)[::-1]


def test_by_value_equal_elements_are_one_entry():
    found = want(index(each="/tags", by="value", key="/tags"), item(tags=["a", "b", "a", 1, 1.5, "1", True])).entries
    assert [entry.content["tags"] for entry in found] == ["a", "b", 1, 1.5, "1", True]


@pytest.mark.parametrize(("duplicates", "kept"), [("first", [1, 2]), ("last", [3, 2])])
def test_the_first_or_last_of_elements_that_cannot_be_told_apart(duplicates, kept):
    repeated = [*LINES, {"sku": "a", "n": 3}]
    found = want(by_sku(duplicates=duplicates), item(lines=repeated)).entries
    assert [element["n"] for element in lines(found)] == kept


def test_by_default_they_park_the_item():
    with pytest.raises(ItemError, match="two elements with the same /lines/sku") as caught:
        want(by_sku(), item(lines=[*LINES, {"sku": "a", "n": 3}]))
    assert caught.value.path == "/lines/sku"
    assert "duplicates=" in str(caught.value.hint)


@pytest.mark.parametrize("element", [{}, {"sku": None}, {"sku": {}}, 7, None], ids=repr)
def test_an_element_that_nothing_tells_apart_parks_the_item(element):
    with pytest.raises(ItemError, match=r"element number .* at /lines/sku"):
        want(by_sku(key="/shop"), item(lines=[LINES[0], element]))


def test_numbers_and_text_tell_elements_apart():
    assert len(want(by_sku(), item(lines=[{"sku": 7}, {"sku": "7"}, {"sku": True}])).entries) == 3


def test_items_with_equal_elements_have_entries_of_their_own():
    one, two = (want(by_sku(), item(id=id_, lines=LINES)).entries for id_ in ("o1", "o2"))
    assert not set(ids(one)) & set(ids(two))


# declared


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"each": "*"}, "name the arrays"),
        ({"each": "/lines/*"}, "name the arrays"),
        ({"each": "/a/*/*/b"}, "name the arrays"),
        ({"each": "/id"}, "is no array"),
        ({"by": "value"}, "give each, too"),
        ({"each": "/lines", "by": "positon"}, 'give "position", "value", or paths'),
        ({"each": "/lines", "by": ()}, "by"),
        ({"each": "/lines", "placement": "append_only"}, "use tracked"),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(fields, message):
    with pytest.raises(CatalogError, match=message):
        index(**fields)


# functions


def custom(project: Any, **fields: Any) -> Custom:
    return Custom(**{"name": "c", "source": ORDERS, "key": "/k", "project": project, **fields})


def made(projection: Custom, **fields: Any) -> tuple[Entry, ...]:
    return wanted(Rules(projection), state(item(**fields)), NOW).entries


def test_a_function_says_what_the_entries_are():
    projection = custom(lambda order: [{"k": tag, "shop": order["shop"]} for tag in order["tags"]])
    found = made(projection, tags=["x", "y"])
    assert [entry.content for entry in found] == [{"k": "x", "shop": "s1"}, {"k": "y", "shop": "s1"}]
    assert made(projection, tags=[]) == ()


def test_its_rows_are_told_apart_by_their_own_fields():
    one, two = (made(custom(lambda order: order["rows"], by="/id"), rows=rows) for rows in (
        [{"id": 1, "k": "x"}, {"id": 2, "k": "y"}], [{"id": 2, "k": "y"}]
    ))  # fmt: skip
    assert ids(one)[1:] == ids(two)
    assert "id" not in one[0].content


def test_with_a_model_it_gets_an_instance_and_may_give_models():
    class Order(BaseModel):
        status: str

    class Shelf(BaseModel):
        k: str
        n: int = 1

    assert made(custom(lambda order: [Shelf(k=order.status)], model=Order))[0].content == {"k": "open", "n": 1}


def raises(order: Any) -> Any:
    raise KeyError("secret")


COUNT = iter(range(1_000_000))


@pytest.mark.parametrize(
    ("project", "message"),
    [
        (raises, "project raised KeyError$"),
        (lambda order: [{"k": next(COUNT)}], "other rows for the same item"),
        (lambda order: [{"k": "x", "n": order.setdefault("seen", True)}], "changed the item"),
        (lambda order: [7], "project gave a int"),
        (lambda order: [{"k": "x", "when": object()}], "no JSON"),
        (lambda order: [{"k": float("nan")}], "no JSON"),
        (lambda order: None, "project raised TypeError"),
        (lambda order: [{"k": "x", "_source": 1}], "marks entries"),
    ],
)
def test_a_function_that_misbehaves_parks_the_item(project, message):
    with pytest.raises(ItemError, match=message):
        made(custom(project))


def test_what_a_function_gave_is_nobody_elses_to_change():
    shared = {"k": "x", "inner": {"n": 1}}
    [entry] = made(custom(lambda order: [shared]))
    shared["inner"]["n"] = 2
    assert entry.content["inner"] == {"n": 1}
