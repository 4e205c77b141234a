"""Values that may not be shown: tokens for people, stand-ins for exports (semantics 4.4)."""

from __future__ import annotations

import re
import string
from datetime import date, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model.masking import display_mask, excerpt, pseudonym

SECRET = b"a secret of the ledger, for tests"
OTHER = b"another secret, for tests as well"

integers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-130, 130),
    st.sampled_from([0, 1, -1, 127, 128, 32767, 2**31 - 1, 2**63 - 1]),
)


def bound_of(number: int) -> int:
    """The smallest integer type's bound that holds ``number``."""
    return next(2**bits for bits in (7, 15, 31, 63, 64) if abs(number) < 2**bits or abs(number) == 2**63 == 2**bits)


def test_a_shown_mask_is_short_and_equal_only_for_equal_values() -> None:
    """Semantics 4.4: hashed columns show a stable token, so that people see which rows belong together."""
    assert display_mask("dsp_9", SECRET) == display_mask("dsp_9", SECRET)
    assert display_mask("dsp_9", SECRET) != display_mask("dsp_8", SECRET)
    assert display_mask("dsp_9", SECRET) != display_mask("dsp_9", OTHER)
    assert re.fullmatch(r"h:[0-9a-f]{8}", display_mask("dsp_9", SECRET) or "")


def test_null_stays_null_and_the_empty_text_does_not_look_like_it() -> None:
    """NULL is no value: showing a token for it would hide the very thing that is broken."""
    assert display_mask(None, SECRET) is None
    assert display_mask("", SECRET) is not None
    assert pseudonym(None, "integer", SECRET) is None


@given(st.text(max_size=300), st.integers(16, 120))
def test_a_cut_is_visible_and_within_its_limit(text: str, limit: int) -> None:
    cut = excerpt(text, limit)
    assert len(cut) <= limit
    assert (cut == text) == (len(text) <= limit)
    assert len(text) <= limit or "…" in cut


def test_cuts_keep_different_texts_different() -> None:
    """Two texts equal in head and tail are told apart by the tag."""
    one, other = "a" * 50 + "1" + "b" * 50, "a" * 50 + "2" + "b" * 50
    assert excerpt(one, 30) != excerpt(other, 30)
    assert excerpt(one, 30).startswith("aaa")


@given(integers)
def test_an_integer_becomes_another_one_of_its_sign_and_type(number: int) -> None:
    """Semantics 4.4: integer → integer, within the type's range."""
    stand_in = pseudonym(str(number), "bigint", SECRET)
    assert stand_in is not None
    other = int(stand_in)
    assert other != number
    assert (other < 0) == (number < 0)
    assert other != 0
    assert abs(other) <= bound_of(number)


@given(integers.filter(bool), integers.filter(bool))
def test_different_integers_get_different_stand_ins(one: int, other: int) -> None:
    """Keys must stay keys: a collision would merge two rows into one."""
    same = pseudonym(str(one), "bigint", SECRET) == pseudonym(str(other), "bigint", SECRET)
    assert same == (one == other)


def test_every_small_integer_has_its_own_stand_in() -> None:
    """The permutation holds on a whole range, not only on samples of it."""
    stand_ins = [pseudonym(str(number), "smallint", SECRET) for number in range(1, 128)]
    assert sorted(int(one or "") for one in stand_ins) == list(range(1, 128))


@given(integers)
def test_equal_integers_stay_equal_across_types_and_tables(number: int) -> None:
    """Semantics 4.4: a foreign key of another width still joins."""
    types = ("integer", "bigint", "int8", "numeric", "INTEGER")
    assert len({pseudonym(str(number), one, SECRET) for one in types}) == 1


@given(st.decimals(-(10**9), 10**9, allow_nan=False, places=2))
def test_a_number_keeps_scale_sign_and_length(value: object) -> None:
    text = f"{value:f}"
    stand_in = pseudonym(text, "numeric(12,2)", SECRET)
    assert stand_in is not None
    assert stand_in != text
    assert len(stand_in) == len(text)
    assert stand_in.startswith("-") == text.startswith("-")
    assert stand_in[-3] == "."
    assert float(stand_in) != 0


@given(st.uuids())
def test_a_uuid_becomes_a_uuid_and_the_same_one_in_a_text_column(value: UUID) -> None:
    stand_in = pseudonym(str(value), "uuid", SECRET)
    assert stand_in is not None
    assert UUID(stand_in) != value
    assert stand_in == pseudonym(str(value), "text", SECRET)
    assert stand_in == pseudonym(str(value).upper(), "character varying(36)", SECRET, 36)


@given(st.text(min_size=1, max_size=80))
def test_a_text_becomes_another_text_that_is_no_longer(value: str) -> None:
    """Semantics 4.4: text within its length; by the value alone, so that columns of different lengths still join."""
    stand_in = pseudonym(value, "text", SECRET)
    assert stand_in
    assert stand_in != value
    assert len(stand_in) <= len(value)
    assert stand_in == pseudonym(value, "character varying", SECRET, 200)


def test_short_words_never_collide() -> None:
    """Codes of one or two letters are often keys."""
    words = [a + b for a in string.ascii_letters for b in string.digits] + list(string.ascii_lowercase)
    assert len({pseudonym(word, "text", SECRET) for word in words}) == len(words)


@given(st.dates())
def test_a_date_becomes_another_date(value: date) -> None:
    stand_in = pseudonym(value.isoformat(), "date", SECRET)
    assert stand_in is not None
    assert date.fromisoformat(stand_in) != value


@given(st.dates(date(1970, 1, 1), date(2038, 1, 19)))
def test_a_stand_in_for_a_timestamp_of_mariadb_is_one_that_it_can_hold(value: date) -> None:
    stand_in = pseudonym(f"{value} 00:00:01.000", "timestamp(3)", SECRET)
    assert stand_in is not None
    assert "1970-01-02" <= stand_in[:10] < "2038-01-18"
    assert stand_in[:10] != str(value)


@given(st.datetimes())
def test_a_moment_keeps_its_form(value: datetime) -> None:
    text = value.isoformat(sep=" ", timespec="microseconds") + "+00"
    stand_in = pseudonym(text, "timestamp with time zone", SECRET)
    assert stand_in is not None
    assert stand_in != text
    assert len(stand_in) == len(text)
    assert datetime.fromisoformat(stand_in).tzinfo is not None


@given(st.binary(min_size=1, max_size=40))
def test_bytes_become_other_bytes_of_their_length(value: bytes) -> None:
    text = "\\x" + value.hex()
    stand_in = pseudonym(text, "bytea", SECRET)
    assert stand_in is not None
    assert stand_in != text
    assert len(stand_in) == len(text)


@pytest.mark.parametrize("secret", [SECRET, OTHER, b"x", b"y", b"z"])
def test_a_boolean_stays_a_boolean_and_true_stays_apart_from_false(secret: bytes) -> None:
    pair = {pseudonym("t", "boolean", secret), pseudonym("f", "boolean", secret)}
    assert pair == {"t", "f"}


@pytest.mark.parametrize(
    ("value", "type_name"),
    [
        ("settled", "refund_state"),
        ("10.0.0.1", "inet"),
        ("{1,2}", "integer[]"),
        ("[1,2)", "int4range"),
        ("infinity", "timestamp with time zone"),
        ("NaN", "numeric"),
        ("12:00:00", "date"),
        ("not a number", "integer"),
        ("1 day", "interval"),
        ("maybe", "boolean"),
        ("<a/>", "xml"),
        ("9" * 1_001, "numeric"),
    ],
)
def test_what_cannot_keep_its_type_is_left_out(value: str, type_name: str) -> None:
    """Semantics 4.4: masking fails closed."""
    assert pseudonym(value, type_name, SECRET) is None


def test_json_becomes_an_empty_object() -> None:
    assert pseudonym('{"name": "Ada"}', "jsonb", SECRET) == "{}"


@given(
    st.text(min_size=6, max_size=30),
    st.sampled_from(["text", "integer", "uuid", "numeric", "date", "bytea", "hstore", "json"]),
)
def test_no_value_of_six_or_more_letters_survives(value: str, type_name: str) -> None:
    """Whatever the type says, the value itself never leaves."""
    stand_in = pseudonym(value, type_name, SECRET)
    assert stand_in is None or value not in stand_in


def test_values_that_citext_holds_for_equal_have_equal_stand_ins() -> None:
    """semantics 4.4: a row refers to its parent in another case."""
    one = pseudonym("Ada@Example.test", "citext", SECRET)
    assert one == pseudonym("ada@example.TEST", "citext", SECRET) == pseudonym("ada@example.test", "text", SECRET)
