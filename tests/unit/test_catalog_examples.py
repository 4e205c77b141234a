"""Examples in the files of invariants: their form, and where each mistake in them is."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from catalogs import item, look, one, refused, the_refusal, warnings
from holdtrue.catalog import json_schema
from holdtrue.model import Examples, FromNow, show_duration

SQL = "sql: SELECT id FROM orders WHERE total < 0"


def example(text: str) -> str:
    return item(f"{SQL}\nexamples:\n  violating:\n    - {text}")


def values(text: str) -> tuple[Any, ...]:
    (found,) = one(f"{SQL}\nexamples:\n  violating:\n    - {text}").examples.violating
    return found.rows[0].values


def test_examples_are_read_with_their_places_and_labels() -> None:
    rule = one(
        f"""{SQL}
examples:
  violating:
    - name: below zero
      description: As the import of March wrote it.
      orders: [{{id: 1, total: -5}}, {{id: 2}}]
      lines: [{{order_id: 1}}]
  healthy:
    - {{}}
"""
    )
    (violating,) = rule.examples.violating
    assert (violating.name, violating.description) == ("below zero", "As the import of March wrote it.")
    assert [(row.table, row.columns, row.values) for row in violating.rows] == [
        ("orders", ("id", "total"), (1, -5)),
        ("orders", ("id",), (2,)),
        ("lines", ("order_id",), (1,)),
    ]
    assert str(violating.place) == "invariants/a.yaml:7:11"
    assert str(violating.rows[1].place) == "invariants/a.yaml:9:40"
    (healthy,) = rule.examples.healthy
    assert (healthy.rows, healthy.name) == ((), "")


def test_an_invariant_without_examples_has_none() -> None:
    assert one(SQL).examples == Examples()


def test_a_table_may_be_called_name() -> None:
    (found,) = one(
        f"{SQL}\nexamples: {{violating: [{{name: [{{id: 1}}], description: [{{id: 2}}]}}]}}"
    ).examples.violating
    assert [row.table for row in found.rows] == ["name", "description"]
    assert found.name == ""


def test_examples_are_no_part_of_the_definition() -> None:
    """semantics 1.1: what counts is not changed by what proves it"""
    assert one(SQL).definition == one(f"{SQL}\nexamples: {{violating: [{{orders: [{{id: 1}}]}}]}}").definition


def test_examples_are_acted_on_and_so_nobody_is_warned() -> None:
    assert warnings(item(f"{SQL}\nexamples: {{violating: [{{orders: [{{id: 1}}]}}]}}")) == []


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("1", 1),
        ("-0x1", "-0x1"),
        ("0x1F", 31),
        ("1.10", Decimal("1.10")),
        ("1e3", Decimal("1e3")),
        ("null", None),
        ("~", None),
        ("true", True),
        ("off", "off"),
        ("'1'", "1"),
        ("'null'", "null"),
        ("2026-01-01 10:00:00", "2026-01-01 10:00:00"),
        ("now", FromNow(timedelta(0))),
        ("now - 5m", FromNow(timedelta(minutes=-5))),
        ("now+1h30m", FromNow(timedelta(minutes=90))),
        ("now - 250ms", FromNow(timedelta(milliseconds=-250))),
        ("nowhere", "nowhere"),
        ("now or never", "now or never"),
    ],
)
def test_a_value_means_what_yaml_says_and_now_is_a_moment(written: str, meant: object) -> None:
    (found,) = values(f"orders: [{{total: {written}}}]")
    assert (type(found), found) == (type(meant), meant)


def test_a_moment_in_quotes_is_a_text_and_somebody_is_told() -> None:
    assert values("orders: [{total: 'now - 5m'}]") == ("now - 5m",)
    assert warnings(example("orders: [{total: 'now - 5m'}]")) == [
        "in quotes this is a text; take the quotes away if a moment is meant"
    ]


@pytest.mark.parametrize(
    ("written", "place", "message"),
    [
        ("[]", "7:11", "must be a mapping from tables to their rows, not a list"),
        ("orders", "7:11", "must be a mapping from tables to their rows, not text"),
        ("orders: 3", "7:19", "must be a list of the rows of table orders, not a whole number"),
        ("orders: {id: 1}", "7:19", "must be a list of the rows of table orders, not a mapping"),
        ("nmae: two refunds", "7:17", "must be a list of the rows of table nmae, not text"),
        ("orders: [1]", "7:20", "must be a row, a mapping from columns to values, not a whole number"),
        ("orders: [{id: [1]}]", "7:25", "must be one value, not a list; write an array or JSON as a text, in quotes"),
        ("orders: [{id: {a: 1}}]", "7:25", "must be one value, not a mapping"),
        ("orders: [{id: .nan}]", "7:25", "must be a number with digits"),
        ("orders: [{id: -.inf}]", "7:25", "must be a number with digits"),
        ("orders: [{id: now - 5}]", "7:25", "must be `now`, or `now` with a duration"),
        ("orders: [{id: now - 5 min}]", "7:25", "must be `now`, or `now` with a duration"),
        ("orders: [{id: now - 999999d}]", "7:25", "must be `now`, or `now` with a duration"),
        ('orders: [{id: "\\0"}]', "7:25", "holds a character that no database takes"),
        ('"": [{id: 1}]', "7:11", "must be a table's name"),
        ('orders: [{"a\\nb": 1}]', "7:21", "must be a column's name"),
        ("name: null", "7:17", "must be a text; there is no value"),
    ],
)
def test_a_mistake_in_an_example_is_refused_at_its_place(written: str, place: str, message: str) -> None:
    """semantics 1.4"""
    problem = the_refusal(example(written))
    assert f"{problem.place.line}:{problem.place.column}" == place
    assert message in problem.message


def test_every_mistake_comes_at_once() -> None:
    text = item(f"{SQL}\nexamples: {{violating: [{{a: [{{x: [1]}}, 2], b: 3}}], helthy: []}}")
    assert len(refused(text)) == 4
    assert [one.suggestion for one in refused(text) if one.suggestion] == ["healthy"]


@pytest.mark.parametrize(
    ("written", "fits"),
    [
        ("[{name: a, orders: [{id: 1, at: now - 5m, x: null, y: true}]}]", True),
        ("[{name: [{id: 1}]}]", True),
        ("[{}]", True),
        ("[{orders: 3}]", False),
        ("[{orders: [{id: [1]}]}]", False),
        ("3", False),
    ],
)
def test_the_json_schema_agrees(written: str, fits: bool) -> None:
    text = item(f"{SQL}\nexamples: {{violating: {written}}}")
    found = list(Draft202012Validator(json_schema("invariants")).iter_errors(yaml.safe_load(text)))
    assert (not found) is fits
    assert (look(text).catalog is not None) is fits


_durations = st.integers(1, 10**9).map(lambda number: timedelta(milliseconds=number))


@given(_durations, st.sampled_from("+-"), st.sampled_from(["", " ", "   "]))
def test_every_duration_that_can_be_written_can_be_told_from_now(length: timedelta, sign: str, gap: str) -> None:
    whole = timedelta(seconds=max(1, round(length.total_seconds())))
    parts = whole // timedelta(days=1), whole.seconds // 3600, whole.seconds // 60 % 60, whole.seconds % 60
    written = "".join(f"{number}{unit}" for number, unit in zip(parts, "dhms", strict=True) if number)
    (found,) = values(f"orders: [{{total: now{gap}{sign}{gap}{written}}}]")
    assert found == FromNow(whole if sign == "+" else -whole), show_duration(whole)


@given(st.text(max_size=40))
def test_a_text_in_an_example_is_itself_or_is_refused(text: str) -> None:
    """Never another value."""
    quoted = "".join(f"\\U{ord(letter):08x}" for letter in text)
    found = look(example(f'orders: [{{total: "{quoted}"}}]'))
    if found.catalog is None:
        assert any("\ud800" <= letter <= "\udfff" or letter == "\x00" for letter in text), text
    else:
        assert found.catalog.invariants[0].examples.violating[0].rows[0].values == (text,)
