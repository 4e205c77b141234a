"""Counts over time as shapes: what nobody looked at is never drawn as known."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model import Outcome
from holdtrue.store.records import Span
from holdtrue.web.views.charts import nice_ceiling, step_chart, stretches, strip, thinned
from holdtrue.web.views.invariant import usual_range

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SINCE = NOW - timedelta(hours=24)
FRESH = timedelta(minutes=30)


def span(
    first: float, last: float, outcome: Outcome = Outcome.HELD, counted: int = 0, *, complete: bool = True
) -> Span:
    """A span from ``first`` to ``last`` hours before now."""
    return Span(
        "refunds",
        "payments",
        NOW - timedelta(hours=first),
        NOW - timedelta(hours=last),
        outcome,
        counted,
        "d",
        complete,
        3,
        counted,
        counted,
        1,
        3,
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Span]:
    """Spans in order of time, some before the range, with gaps of any length."""
    edges = sorted(draw(st.lists(st.integers(0, 40 * 60), min_size=2, max_size=16, unique=True)), reverse=True)
    spans = []
    for first, last in zip(edges[::2], edges[1::2], strict=False):
        outcome = draw(st.sampled_from(list(Outcome)))
        counted = draw(st.integers(1, 5000)) if outcome is Outcome.VIOLATED else 0
        spans.append(span(first / 60, last / 60, outcome, counted))
    return spans


@given(histories())
def test_every_moment_belongs_to_exactly_one_stretch(spans: list[Span]) -> None:
    parts = stretches(spans, SINCE, NOW, FRESH)
    assert parts[0].start == SINCE
    assert parts[-1].end == NOW
    assert all(one.end == other.start for one, other in itertools.pairwise(parts))
    assert all(one.end > one.start for one in parts)


@given(histories())
def test_no_count_is_drawn_where_no_good_run_speaks(spans: list[Span]) -> None:
    """semantics 0, 6: good news expires, and a gap is never 0."""
    good = [one for one in spans if one.outcome in (Outcome.HELD, Outcome.VIOLATED)]
    for part in stretches(spans, SINCE, NOW, FRESH):
        if part.high is not None:
            assert any(one.first_at <= part.start and part.end <= one.last_at + FRESH for one in good)
        else:
            assert part.kind in ("unknown", "unseen")


@given(histories())
def test_a_violation_is_followed_by_unseen_and_never_by_unknown(spans: list[Span]) -> None:
    """semantics 0: bad news stays until a good run takes it back."""
    parts = stretches(spans, SINCE, NOW, FRESH)
    for one, other in itertools.pairwise(parts):
        if one.kind in ("violated", "unseen"):
            assert other.kind != "unknown"


@given(histories(), st.integers(1, 40))
def test_thinning_hides_no_violation_no_gap_and_no_peak(spans: list[Span], columns: int) -> None:
    parts = stretches(spans, SINCE, NOW, FRESH)
    fewer = thinned(parts, SINCE, NOW, columns)
    assert fewer[0].start == SINCE
    assert fewer[-1].end == NOW
    assert max((one.high or 0) for one in fewer) == max((one.high or 0) for one in parts)
    worst = ("violated", "unseen", "unknown", "held")
    for part in parts:
        around = next(one for one in fewer if one.start <= part.start and part.end <= one.end)
        assert worst.index(around.kind) <= worst.index(part.kind)


@given(histories())
def test_the_drawing_stays_within_its_frame(spans: list[Span]) -> None:
    chart = step_chart(spans, SINCE, NOW, FRESH, NOW)
    for box in chart.boxes:
        assert 0 <= box.x <= chart.width
        assert 0 <= box.y <= chart.height
        assert box.y + box.height <= chart.height + 0.01
        assert box.height >= 0


def test_a_gap_breaks_the_line() -> None:
    chart = step_chart([span(20, 18), span(10, 0)], SINCE, NOW, FRESH, NOW)
    assert len(chart.lines) == 2
    assert [box.kind for box in chart.boxes] == ["unknown", "held", "unknown", "held"]


def test_the_table_says_what_the_drawing_says() -> None:
    chart = step_chart([span(20, 10), span(10, 5, Outcome.VIOLATED, 1204, complete=False)], SINCE, NOW, FRESH, NOW)
    assert [(row.kind, row.count) for row in chart.rows] == [
        ("unseen", "not known"),
        ("violated", "at least 1\u202f204"),
        ("held", "0"),
        ("unknown", "not known"),
    ]
    assert "violated for 5h30m" in chart.description


def test_what_nobody_ever_looked_at_is_all_unknown() -> None:
    chart = step_chart([], SINCE, NOW, FRESH, NOW)
    assert [box.kind for box in chart.boxes] == ["unknown"]
    assert chart.lines == ()
    assert strip([], SINCE, NOW, FRESH).boxes[0].kind == "unknown"


def test_a_short_violation_stays_visible_in_the_strip() -> None:
    short = strip([span(24, 3), span(3, 2.99, Outcome.VIOLATED, 1), span(2.98, 0)], SINCE, NOW, FRESH)
    box = next(one for one in short.boxes if one.kind == "violated")
    assert box.width >= 3
    assert box.height == short.height


def test_a_violation_that_has_just_begun_is_seen_at_the_end_of_the_strip() -> None:
    """A first day is nearly all unknown: what was found a minute ago is not to be lost in it."""
    begun = strip([span(0.01, 0, Outcome.VIOLATED, 1)], SINCE, NOW, FRESH)
    box = begun.boxes[-1]
    assert (box.kind, box.width, box.x + box.width) == ("violated", 3.0, begun.width)


def test_the_first_hour_is_drawn_as_an_hour() -> None:
    assert usual_range([], NOW) == "24h"
    assert usual_range([span(0.9, 0.5), span(0.4, 0)], NOW) == "1h"
    assert usual_range([span(1.1, 0.5), span(0.4, 0)], NOW) == "24h"


@given(st.integers(0, 10**12))
def test_the_scale_ends_at_a_round_number_above_the_peak(highest: int) -> None:
    top = nice_ceiling(highest)
    assert max(1, highest) <= top <= max(2, 3 * highest)
