"""The line of bars and the reading of --since: what nobody looked at is never drawn as zero."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.cli.history import lines, since_when, sparkline
from holdtrue.errors import Refused

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
SINCE = NOW - timedelta(minutes=10)
FRESH = timedelta(minutes=1)
RUN = {
    "due_at": NOW.isoformat(),
    "started_at": NOW.isoformat(),
    "outcome": "held",
    "counted": 0,
    "complete": True,
    "seconds": 0.1,
    "position": None,
    "failure": None,
    "kind": "scheduled",
    "attempt": 1,
}


def span(first: float, last: float, count: int = 0, outcome: str = "", lowest: int | None = None) -> dict[str, Any]:
    return {
        "first_at": (SINCE + timedelta(minutes=first)).isoformat(),
        "last_at": (SINCE + timedelta(minutes=last)).isoformat(),
        "outcome": outcome or ("violated" if count else "held"),
        "counted": count,
        "lowest": count if lowest is None else lowest,
        "highest": count,
        "complete": True,
        "runs": 2,
    }


def draw(*spans: dict[str, Any]) -> str:
    return sparkline(spans, since=SINCE, until=NOW, fresh=FRESH, width=10)


def test_no_run_draws_nothing() -> None:
    assert draw() == " " * 10


def test_a_count_of_zero_is_the_lowest_bar_and_any_other_is_higher() -> None:
    assert draw(span(0, 4.5), span(5, 9.5, 1_000_000), span(9.6, 10, 1)) == "▁▁▁▁▁█████"
    assert draw(span(0, 4.5, 1), span(5, 10, 1000)) == "▂▂▂▂▂█████"


def test_good_news_ends_when_it_is_no_longer_fresh() -> None:
    """Semantics 0: good news expires; a service that was down drew nothing."""
    assert draw(span(0, 1.5), span(8, 10)) == "▁▁▁     ▁▁"


def test_a_run_that_could_not_look_is_no_bar() -> None:
    assert draw(span(0, 3.9), span(4, 6.9, outcome="errored"), span(7, 10)) == "▁▁▁▁???▁▁▁"


def test_what_nobody_ran_is_blank_and_not_a_run_that_could_not_look() -> None:
    """Semantics 0, 2.5: a service that was stopped did not try."""
    assert draw(span(0, 1.9), span(2, 6.9, outcome="skipped"), span(7, 10)) == "▁▁     ▁▁▁"


def test_a_look_is_drawn_although_what_was_missed_reaches_before_it() -> None:
    """A run that waited for its place looked after the next due time, which was missed then."""
    assert draw(span(0, 3.5), span(2.5, 2.5, outcome="skipped"), span(8, 10)) == "▁▁▁▁    ▁▁"


def test_the_worst_of_a_part_is_drawn() -> None:
    assert draw(span(0, 3.2), span(3.3, 3.4, 5), span(3.5, 10))[3] == "█"
    assert draw(span(0, 3.2), span(3.3, 3.4, outcome="errored"), span(3.5, 10))[3] == "?"


@given(
    st.lists(
        st.tuples(
            st.floats(0, 10), st.floats(0, 10), st.integers(0, 50), st.sampled_from(["held", "errored", "skipped"])
        ),
        max_size=6,
    )
)
def test_a_zero_bar_stands_only_where_a_good_run_found_zero(parts: list[tuple[float, float, int, str]]) -> None:
    spans = [
        span(min(a, b), max(a, b), count, "violated" if count and outcome == "held" else outcome)
        for a, b, count, outcome in sorted(parts, key=lambda one: min(one[0], one[1]))
    ]
    bars = draw(*spans)
    assert len(bars) == 10
    for column, bar in enumerate(bars):
        if bar == "▁":
            assert any(
                one["outcome"] == "held"
                and datetime.fromisoformat(one["first_at"]) < SINCE + timedelta(minutes=column + 1)
                and datetime.fromisoformat(one["last_at"]) + FRESH > SINCE + timedelta(minutes=column)
                for one in spans
            )


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("24h", NOW - timedelta(hours=24)),
        ("90s", NOW - timedelta(seconds=90)),
        ("2026-11-29T11:00:00Z", NOW - timedelta(hours=1)),
        ("2026-11-29T13:00:00+02:00", NOW - timedelta(hours=1)),
    ],
)
def test_since_is_a_duration_or_a_moment(text: str, moment: datetime) -> None:
    assert since_when(text, NOW) == moment


@pytest.mark.parametrize("text", ["", "yesterday", "2026-11-29T11:00:00", "2027-01-01T00:00:00Z", "0s", "99999999999d"])
def test_any_other_since_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="--since"):
        since_when(text, NOW)


def test_a_history_without_runs_says_that_nobody_looked() -> None:
    report = {
        "invariant": "a\x1b[2J",
        "database": "payments",
        "since": SINCE.isoformat(),
        "now": NOW.isoformat(),
        "fresh_seconds": 60.0,
        "spans": [],
        "runs": [],
        "over_budget": None,
    }
    text = "\n".join(lines(report))
    assert "nobody looked" in text
    assert "\x1b" not in text


def test_a_run_outside_the_schedule_or_not_the_first_attempt_says_so() -> None:
    """Semantics 2.4, 5.2, 11.1."""
    report = {"invariant": "rule", "database": "shop", "since": SINCE.isoformat(), "now": NOW.isoformat(), "spans": []}
    report["over_budget"] = None
    more = [RUN, {**RUN, "attempt": 3}, {**RUN, "kind": "confirming"}, {**RUN, "kind": "asked", "attempt": 2}]
    said = [line.split("  ") for line in lines({**report, "fresh_seconds": 60, "runs": more})[-4:]]
    assert [[cell.strip() for cell in line if cell.strip()][2] for line in said] == [
        "held",
        "held (attempt 3)",
        "held (confirming)",
        "held (asked, attempt 2)",
    ]


def test_a_run_shows_when_it_looked_beside_when_it_was_due() -> None:
    """Semantics 0: a run that was made late says so, and one that nobody made began at no time."""
    run = {**RUN, "due_at": (NOW - timedelta(hours=13)).isoformat()}
    report = {"invariant": "rule", "database": "shop", "since": SINCE.isoformat(), "now": NOW.isoformat(), "spans": []}
    more = {"over_budget": None, "fresh_seconds": 60, "runs": [run, {**run, "outcome": "skipped", "seconds": 0.0}]}
    headings, late, missed = [line.split() for line in lines({**report, **more})[-3:]]
    assert headings[:5] == ["NEWEST", "RUNS", "DUE", "STARTED", "OUTCOME"]
    assert late[:3] == [run["due_at"], run["started_at"], "held"]
    assert missed[:2] == [run["due_at"], "skipped"]
