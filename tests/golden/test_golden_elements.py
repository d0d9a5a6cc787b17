"""Ids of entries of elements: another way to make them would leave every entry behind."""

from __future__ import annotations

import pytest

from projections.entries import Rules, wanted
from projections.identity import Element, Identity
from projections.keys import Key
from tests.support import NOW, index, state

IDENTITY = Identity(Key.of("s1", 7), "o/1 é")


@pytest.mark.parametrize(
    ("text", "entry_id"),
    [
        ("[0]", "o_1__~a3yxwyp5z4oqr6a5kgsptqqzdfqwruvf"),
        ('["\\u6f22"]', "o_1__~yz4pmvi4bvyi7tnwp6bxp2yifbeqj22d"),
    ],
)
def test_the_id_of_an_element(text, entry_id):
    assert Element(IDENTITY, text).entry_id == entry_id


@pytest.mark.parametrize(
    ("by", "ids"),
    [
        ("position", ["o1~g3acioqhp3a46pzkuyhs7bo6bstyd77g", "o1~spzljj7fjxe52cx3lfoedy74lkq7yogi"]),
        ("value", ["o1~rte5a7asbag7ah5dy7jbl377jzr3vtsz", "o1~s7ky5jsegcygibpudtszze4h3vynitpo"]),
        ("/lines/sku", ["o1~jy43vkgubpvnqokhlhkeisjozisw2axn", "o1~bweghrz536owqfkww7bomdacvhgiyt5u"]),
    ],
)
def test_the_ids_of_an_items_elements(by, ids):
    lines = [{"sku": "漢", "n": 1.5}, {"n": 2, "sku": 7}]
    made = wanted(Rules(index(each="/lines", by=by)), state(lines=lines), NOW).entries
    assert [entry.place.id for entry in made] == ids
