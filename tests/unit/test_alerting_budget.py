"""When a day's statement time is over the budget (semantics 8.4)."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs import item, one, the_refusal
from holdtrue.alerting import first_day, least_budget, over_budget
from scenes import catalog_of, invariant

TODAY = date(2026, 11, 30)
NOW = datetime(2026, 11, 30, 0, 5, tzinfo=UTC)
BUDGET = timedelta(minutes=5)


def spent(today: float, yesterday: float = 0.0, before: float = 0.0) -> dict[date, timedelta]:
    days = (today, yesterday, before)
    return {TODAY - timedelta(days=back): timedelta(minutes=minutes) for back, minutes in enumerate(days)}


def test_a_day_over_the_budget_is_said_with_both_numbers() -> None:
    found = over_budget(BUDGET, spent(6.2), NOW)
    assert found is not None
    assert found.sentence == "over budget today: 6m12s of 5m"


def test_what_went_over_before_midnight_is_still_said_in_the_morning() -> None:
    found = over_budget(BUDGET, spent(0.1, 7), NOW)
    assert found is not None
    assert found.sentence == "over budget yesterday: 7m of 5m"
    assert over_budget(BUDGET, spent(0.1, 0.1, 700), NOW) is None


def test_without_a_budget_nothing_is_over_it() -> None:
    assert over_budget(None, spent(1000, 1000), NOW) is None


@given(st.floats(0, 100), st.floats(0, 100), st.timedeltas(timedelta(seconds=1), timedelta(hours=1)))
def test_it_is_over_exactly_when_one_of_both_days_is(today: float, yesterday: float, budget: timedelta) -> None:
    days = spent(today, yesterday)
    found = over_budget(budget, days, NOW)
    assert (found is not None) == any(days[day] > budget for day in (TODAY, first_day(NOW)))
    if found is not None:
        assert found.spent == days[found.day] > budget
        assert found.today == (days[TODAY] > budget)


def test_days_are_those_of_utc() -> None:
    ahead = NOW.astimezone(tz=datetime.strptime("+1400", "%z").tzinfo)
    assert first_day(ahead) == date(2026, 11, 29)


def test_the_least_budget_is_that_of_the_whole_catalog() -> None:
    budgets = [invariant("a", budget=BUDGET), invariant("b", budget=BUDGET * 2), invariant("c")]
    assert least_budget(catalog_of(budgets)) == BUDGET
    assert least_budget(catalog_of([invariant("c")])) is None
    assert least_budget(None) is None


def test_a_budget_is_no_part_of_the_definition() -> None:
    """semantics 1.1, 8.4: it may change and no span breaks."""
    plain, limited = one("sql: SELECT id FROM t WHERE id < 0"), one("sql: SELECT id FROM t WHERE id < 0\nbudget: 5m")
    assert limited.budget == BUDGET
    assert limited.definition == plain.definition


@pytest.mark.parametrize("written", ["0s", "2d", "never", "300"])
def test_a_budget_is_a_duration_within_a_day(written: str) -> None:
    assert "budget" in str(the_refusal(item(f"sql: SELECT id FROM t WHERE id < 0\nbudget: {written}")))
