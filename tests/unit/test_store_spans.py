from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model import Outcome
from holdtrue.store import Span
from holdtrue.store.spans import gathered, joined, thinned

MIDNIGHT = datetime(2026, 8, 1, tzinfo=UTC)


@st.composite
def histories(draw: st.DrawFn) -> list[Span]:
    """Neighbouring spans, oldest first, as a store has them."""
    spans, at = [], MIDNIGHT
    for number in range(draw(st.integers(1, 40))):
        at += timedelta(minutes=draw(st.integers(1, 50)))
        first, at = at, at + timedelta(minutes=draw(st.integers(0, 90)))
        outcome = draw(st.sampled_from(list(Outcome)))
        counted = draw(st.integers(0, 3)) if outcome is Outcome.VIOLATED else 0
        definition, complete = draw(st.sampled_from(["d1", "d2"])), draw(st.booleans())
        spans.append(
            Span(
                "rule", "payments", first, at, outcome, counted, definition, complete, draw(st.integers(1, 4)), counted,
                counted, 2 * number + 1, 2 * number + 2,
            )
        )  # fmt: skip
    return spans


@given(histories())
def test_thinning_keeps_every_run_every_peak_and_every_end(spans: list[Span]) -> None:
    """semantics 8.2: older spans that differ only in count are thinned to hourly lowest, highest and last."""
    groups = thinned(spans)
    assert [span for group in groups for span in group] == spans
    for group in groups:
        whole = joined(group)
        assert whole.runs == sum(span.runs for span in group)
        assert (whole.first_at, whole.last_at) == (group[0].first_at, group[-1].last_at)
        assert (whole.lowest, whole.highest) == (
            min(span.lowest for span in group),
            max(span.highest for span in group),
        )
        assert (whole.counted, whole.first_run, whole.last_run) == (
            group[-1].counted,
            group[0].first_run,
            group[-1].last_run,
        )


@given(histories())
def test_only_spans_of_one_hour_that_differ_in_count_alone_are_joined(spans: list[Span]) -> None:
    """semantics 8.2."""
    for group in thinned(spans):
        if len(group) > 1:
            hours = {one.replace(minute=0) for span in group for one in (span.first_at, span.last_at)}
            assert len(hours) == 1
        assert len({(span.outcome, span.definition, span.complete) for span in group}) == 1


@given(histories())
def test_thinning_twice_is_thinning_once(spans: list[Span]) -> None:
    once = [joined(group) for group in thinned(spans)]
    assert [joined(group) for group in thinned(once)] == once


@given(histories(), st.integers(1, 20))
def test_a_chart_has_no_more_points_than_asked_and_loses_no_peak(spans: list[Span], limit: int) -> None:
    points = gathered(spans, limit)
    assert len(points) <= limit
    assert max(point.highest for point in points) == max(span.highest for span in spans)
    assert min(point.lowest for point in points) == min(span.lowest for span in spans)
    assert sum(point.runs for point in points) == sum(span.runs for span in spans)
    assert (points[0].first_at, points[-1].last_at) == (spans[0].first_at, spans[-1].last_at)


@given(histories(), st.integers(1, 20))
def test_gathering_never_turns_bad_news_into_good(spans: list[Span], limit: int) -> None:
    """semantics 0: a point that hides a violation or a gap is not green."""
    worst = [Outcome.VIOLATED, Outcome.ERRORED, Outcome.SKIPPED, Outcome.HELD]
    for point in gathered(spans, limit):
        inside = [span for span in spans if point.first_at <= span.first_at and span.last_at <= point.last_at]
        assert point.outcome is min((span.outcome for span in inside), key=worst.index)
        assert point.complete == all(span.complete for span in inside)


def test_a_chart_without_points_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        gathered([], 0)
