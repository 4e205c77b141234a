"""Frozen cells of SQLite: each is what it was, and times move in the form in which they are written."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdtrue.testing import BadSeed
from holdtrue.testing.cells import read_cell, shift_cell

BY = timedelta(days=366, hours=1, minutes=30, microseconds=500)


@pytest.mark.parametrize(
    ("written", "moved"),
    [
        ("2020-01-01 12:05:00", "2021-01-01 13:35:00"),
        ("2020-01-01T12:05:00.123456Z", "2021-01-01T13:35:00.123956Z"),
        ("2020-01-01 12:05:00.1+02:00", "2021-01-01 13:35:00.1+02:00"),
        ("2020-01-01 12:05", "2021-01-01 13:35"),
        ("2020-01-01", "2021-01-01"),
    ],
)
def test_a_time_is_moved_and_written_alike(written: str, moved: str) -> None:
    assert shift_cell(written, "text", BY) == moved


@pytest.mark.parametrize(
    ("cell", "storage"),
    [
        ("2020-13-45", "text"),
        ("9999-12-31 23:59:59", "text"),
        ("on 2020-01-01", "text"),
        ("12:05", "text"),
        ("2020", "text"),
        ("1577880000", "integer"),
        ("x'323032302d30312d3031'", "blob"),
        (None, "null"),
    ],
)
def test_what_is_no_time_stays(cell: str | None, storage: str) -> None:
    assert shift_cell(cell, storage, BY) == cell


@pytest.mark.parametrize(("text", "storage"), [("1.5", "integer"), ("x'0g'", "blob"), ("00", "blob"), ("x", "numeric")])
def test_a_cell_that_is_not_of_its_class_is_refused_without_its_value(text: str, storage: str) -> None:
    with pytest.raises(BadSeed) as found:
        read_cell(text, storage)
    assert text not in str(found.value).split()
