"""Session tokens and positions of every form that there is; of others nothing is known."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from projections.cosmos.sessions import behind
from projections.errors import AskError
from projections.store import FeedRange, at_lsn

WHOLE, LEFT, RIGHT = FeedRange("", "FF"), FeedRange("", "1F"), FeedRange("1F", "FF")
ONE = [{"id": "0", "minInclusive": "", "maxExclusive": "FF", "parents": []}]
TWO = [
    {"id": "1", "minInclusive": "", "maxExclusive": "1F", "parents": ["0"]},
    {"id": "2", "minInclusive": "1F", "maxExclusive": "FF", "parents": ["0"]},
]


def position(*parts: tuple[str, str, Any]) -> str:
    ranges = [{"token": token, "range": {"min": low, "max": high}} for low, high, token in parts]
    return base64.b64encode(json.dumps({"v": "v2", "continuation": {"continuation": ranges}}).encode()).decode()


@pytest.mark.parametrize(
    "token", ["0:-1#27", "0:27", "0:-1#27#1=25#2=-1", "0:5#27", " 0:-1#27 ", "27", "7:-1#99,0:-1#27"]
)
def test_a_session_token_in_any_form_is_compared_by_its_lsn(token):
    assert behind(WHOLE, position(("", "FF", '"20"')), token, ONE) == 7
    assert behind(WHOLE, position(("", "FF", '"27"')), token, ONE) == 0
    assert behind(WHOLE, position(("", "FF", '"28"')), token, ONE) == 0


def test_a_position_that_names_an_lsn_is_at_it():
    assert behind(LEFT, at_lsn(20), "1:-1#27", TWO) == 7
    assert behind(LEFT, at_lsn(27, all_versions=True), "1:-1#27", TWO) == 0
    assert behind(LEFT, at_lsn(20), "2:-1#27", TWO) == 0


@pytest.mark.parametrize("token", ["", "x", "0:-1#", "0", "0:a#7", "0:-1#7;1:-1#8", "0:-1#7,,"])
def test_anything_else_is_no_session_token(token):
    if token == "0":
        assert behind(WHOLE, None, token, ONE) == 0  # an LSN
        return
    with pytest.raises(AskError, match="no session token"):
        behind(WHOLE, None, token, ONE)


def test_other_physical_partitions_do_not_count():
    assert behind(LEFT, position(("", "1F", '"5"')), "2:-1#27", TWO) == 0
    assert behind(RIGHT, position(("1F", "FF", '"5"')), "2:-1#27", TWO) == 22
    assert behind(RIGHT, position(("1F", "FF", '"5"')), "1:-1#9,2:-1#7", TWO) == 2


def test_a_position_from_before_a_split_has_parts_after_it():
    held = position(("", "1F", '"30"'), ("1F", "FF", '"5"'))
    assert behind(WHOLE, held, "1:-1#27", TWO) == 0
    assert behind(WHOLE, held, "2:-1#27", TWO) == 22
    assert behind(WHOLE, held, "0:-1#27", TWO) == 22  # the parent's token is for both children
    assert behind(WHOLE, position(("", "FF", '"25"')), "1:-1#27", TWO) == 2


@pytest.mark.parametrize("held", [None, "", "x", "bm90IGpzb24=", position(("", "FF", None)), position(("", "FF", "*"))])
def test_a_position_that_is_not_understood_is_behind_by_everything(held):
    assert behind(WHOLE, held, "0:-1#27", ONE) == 27
