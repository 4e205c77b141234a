"""What an unknown driver gives for a cell becomes text: the same text for the same value, in every run."""

from __future__ import annotations

import math
import uuid
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdtrue.databases.other_values import show, type_name

PLUS_FIVE = timezone(timedelta(hours=5))


class Named:
    def __str__(self) -> str:
        return "POINT (1 2)"


class Silent:
    pass


class Broken:
    def __str__(self) -> str:
        raise RuntimeError("private-4711")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", ""),
        ("x:y %s", "x:y %s"),
        ("a\ud800", "a\\ud800 (not valid UTF-8)"),
        (True, "true"),
        (-0.0, "-0.0"),
        (1e22, "1e+22"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (Decimal("1.10"), "1.10"),
        (Decimal("1E+5"), "100000"),
        (Decimal("1E-7"), "0.0000001"),
        (Decimal("1E+999999"), "1E+999999"),
        (Decimal("-sNaN123"), "NaN"),
        (Decimal("-Infinity"), "-Infinity"),
        (datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03:04:05"),  # noqa: DTZ001  a driver gives such
        (datetime(2026, 1, 2, 3, tzinfo=PLUS_FIVE), "2026-01-01 22:00:00+00:00"),
        (datetime.min.replace(tzinfo=PLUS_FIVE), "0001-01-01 00:00:00+05:00"),
        (date(2024, 2, 29), "2024-02-29"),
        (time(1, 2, tzinfo=UTC), "01:02:00+00:00"),
        (timedelta(days=-1, hours=1), "-0 days 23:00:00"),
        (timedelta(days=3, microseconds=5), "3 days 00:00:00.000005"),
        (b"\x00\xff", "x'00ff'"),
        (memoryview(b"a"), "x'61'"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Named(), "POINT (1 2)"),
        (Silent(), "(a Silent, which has no text)"),
        (Broken(), "(a Broken, which cannot be shown)"),
        ([1, None, [Decimal("1.50"), 'a"b'], b"x"], '[1, null, [1.50, "a\\"b"], "x\'78\'"]'),
        ({"b": math.nan, "a": (True, date(2024, 1, 1))}, '{"b": "NaN", "a": [true, "2024-01-01"]}'),
        ({3, 1, 2}, "[1, 2, 3]"),
    ],
)
def test_a_value_is_shown_as_documented(value: Any, text: str | None) -> None:
    assert show(value) == text


def test_a_number_longer_than_python_writes_in_digits_is_shown_all_the_same() -> None:
    assert show(10**5000) == hex(10**5000)


@settings(max_examples=60)
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats()
        | st.decimals()
        | st.text()
        | st.binary()
        | st.datetimes(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_every_value_is_shown_as_text_that_can_be_kept(value: Any) -> None:
    shown = show(value)
    assert (shown is None) == (value is None)
    assert shown is None or shown == shown.encode().decode()
    assert show(value) == shown


def test_what_is_nested_without_end_is_cut() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert (show(endless) or "").count("[") == 50


@pytest.mark.parametrize(
    ("code", "name"),
    [("DECIMAL(10,2)", "decimal(10,2)"), (str, "str"), (23, ""), (None, ""), ("<x>", ""), (Broken(), "")],
)
def test_a_type_is_named_where_it_has_a_name(code: Any, name: str) -> None:
    assert type_name(code) == name
