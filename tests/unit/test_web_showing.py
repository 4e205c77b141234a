"""Untrusted text as people and spreadsheets may see it."""

from __future__ import annotations

import csv
import io
import unicodedata
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.scaffolding.spreadsheets import neutralised, rows_as_csv
from holdtrue.web.showing import age, visible

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)


@given(st.text())
def test_nothing_that_hides_or_reorders_survives(text: str) -> None:
    shown = visible(text)
    assert not [one for one in shown if unicodedata.category(one) in ("Cc", "Cf", "Cs") and one not in "\n\t"]
    assert unicodedata.bidirectional("\u202e") not in {unicodedata.bidirectional(one) for one in shown}


@given(st.text(alphabet=st.characters(categories=("L", "N", "P", "S", "Zs"))))
def test_what_can_be_seen_stays_as_it_is(text: str) -> None:
    assert visible(text) == text


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        ("pay\u202ements", "pay[U+202E]ments"),
        ("a\u2066b\u2069", "a[U+2066]b[U+2069]"),
        ("zero\u200bwidth", "zero[U+200B]width"),
        ("bell\x07", "bell[U+0007]"),
        ("line\u2028separator", "line[U+2028]separator"),
        ("one\r\ntwo\n\tthree", "one\ntwo\n\tthree"),
    ],
)
def test_bidirectional_and_control_characters_are_written_out(hostile: str, shown: str) -> None:
    """case 114."""
    assert visible(hostile) == shown


@pytest.mark.parametrize(
    "formula",
    [
        '=HYPERLINK("http://x.example")',
        "+1+1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "-2+3",
        "  =1",
        "\uff1d1",
        "-",
        "+",
        "=",
        "-1a",
    ],
)
def test_a_cell_that_a_spreadsheet_would_run_is_neutralised(formula: str) -> None:
    """case 115."""
    assert neutralised(formula) == f"'{formula}"


@pytest.mark.parametrize("number", ["-5", "5", "+5", "-2.50", "1e10", "-1.5E-3", "0"])
def test_a_number_stays_a_number(number: str) -> None:
    """case 115: amount -5 is still a number."""
    assert neutralised(number) == number


@given(st.lists(st.lists(st.none() | st.text(), min_size=2, max_size=2), max_size=5))
def test_rows_come_back_from_the_file_with_no_formula_among_them(rows: list[list[str | None]]) -> None:
    """case 115, and quotes, separators and line ends in values break nothing."""
    read = list(csv.reader(io.StringIO(rows_as_csv(("=a", "b"), [tuple(row) for row in rows]), newline="")))
    assert read[0] == ["'=a", "b"]
    assert read[1:] == [["" if cell is None else neutralised(cell) for cell in row] for row in rows]


@pytest.mark.parametrize(
    ("passed", "shown"),
    [
        (timedelta(0), "just now"),
        (timedelta(seconds=42), "42s ago"),
        (timedelta(minutes=14, seconds=18), "14m18s ago"),
        (timedelta(hours=4, seconds=42), "4h ago"),
        (timedelta(days=3, hours=2, minutes=59), "3d2h ago"),
        (-timedelta(minutes=3), "in 3m"),
    ],
)
def test_an_age_is_no_finer_than_it_is_of_use(passed: timedelta, shown: str) -> None:
    assert age(NOW - passed, NOW) == shown
