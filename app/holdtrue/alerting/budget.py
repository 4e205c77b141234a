"""says when the statement time of a day is over what was declared for it

It never disables anything and never changes a verdict (semantics 8.4): an invariant that costs too much is still asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from holdtrue.model import Catalog, show_duration


@dataclass(frozen=True, slots=True)
class OverBudget:
    """One invariant on one database cost more statement time on ``day`` (UTC) than its ``budget`` for a day."""

    day: date
    spent: timedelta
    budget: timedelta
    today: bool

    @property
    def sentence(self) -> str:
        """What people read beside the verdict: ``over budget today: 6m12s of 5m``."""
        which = "today" if self.today else "yesterday"
        return f"over budget {which}: {show_duration(self.spent)} of {show_duration(self.budget)}"


def over_budget(budget: timedelta | None, spent: Mapping[date, timedelta], now: datetime) -> OverBudget | None:
    """Whether the day of ``now``, or else the day before it, is over ``budget``; None if not, or if there is no budget.

    Yesterday still counts: what went over at ten to midnight would else be gone before anybody has read it.
    """
    if budget is None:
        return None
    first = first_day(now)
    for day in (first + timedelta(days=1), first):
        cost = spent.get(day, timedelta(0))
        if cost > budget:
            return OverBudget(day, cost, budget, today=day != first)
    return None


def first_day(now: datetime) -> date:
    """The oldest day (UTC) that `over_budget` looks at."""
    return now.astimezone(UTC).date() - timedelta(days=1)


def least_budget(catalog: Catalog | None) -> timedelta | None:
    """The smallest budget of the catalog, None if it declares none: days that cost no more are over nobody's."""
    budgets = [one.budget for one in catalog.invariants if one.budget is not None] if catalog is not None else []
    return min(budgets, default=None)
