"""what an invariant costs one database, day by day, beside its budget"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from holdtrue.model import show_duration
from holdtrue.store.records import DailyCost
from holdtrue.web.showing import thousands

DAYS = 30
WIDTH, HEIGHT = 600, 100
_GAP = 0.2
"""Of a day's width, left free between two bars."""


@dataclass(frozen=True, slots=True)
class CostLine:
    """What one day cost; ``over`` is set if that is more than the budget."""

    day: str
    runs: str
    errors: str
    statement: str
    slowest: str
    over: bool


@dataclass(frozen=True, slots=True)
class CostBar:
    """One day of the drawing."""

    x: float
    y: float
    width: float
    height: float
    over: bool
    title: str


@dataclass(frozen=True, slots=True)
class Costs:
    """The last 30 days as a drawing and, newest first, as lines; ``budget_y`` is where the budget's line lies."""

    lines: tuple[CostLine, ...]
    bars: tuple[CostBar, ...]
    description: str
    top: str
    first: str
    last: str
    budget: str
    budget_y: float | None
    width: int = WIDTH
    height: int = HEIGHT


def costs_of(days: Sequence[DailyCost], budget: timedelta | None, now: datetime) -> Costs:
    """What the days of the last 30 cost; a day without a run has no bar, and is not one that cost nothing."""
    last = now.astimezone(UTC).date()
    first = last - timedelta(days=DAYS - 1)
    shown = [one for one in days if first <= one.day <= last]
    highest = max([one.statement for one in shown] + ([budget] if budget is not None else []), default=timedelta(0))
    top = highest if highest > timedelta(0) else timedelta(seconds=1)
    step = WIDTH / DAYS

    def over(one: DailyCost) -> bool:
        return budget is not None and one.statement > budget

    def bar(one: DailyCost) -> CostBar:
        height = max(1.0, round(one.statement / top * HEIGHT, 1))
        title = f"{one.day.isoformat()}: {show_duration(one.statement)}{', over budget' if over(one) else ''}"
        x = round(((one.day - first).days + _GAP / 2) * step, 1)
        return CostBar(x, round(HEIGHT - height, 1), round(step * (1 - _GAP), 1), height, over(one), title)

    return Costs(
        lines=tuple(
            CostLine(
                one.day.isoformat(),
                thousands(one.runs),
                thousands(one.errors),
                show_duration(one.statement),
                show_duration(one.slowest),
                over(one),
            )
            for one in reversed(shown)
        ),
        bars=tuple(bar(one) for one in shown),
        description=_describe(shown, sum(1 for one in shown if over(one)), budget),
        top=show_duration(top),
        first=first.isoformat(),
        last=last.isoformat(),
        budget=show_duration(budget) if budget is not None else "",
        budget_y=None if budget is None else round(HEIGHT - budget / top * HEIGHT, 1),
    )


def _describe(days: Sequence[DailyCost], over: int, budget: timedelta | None) -> str:
    total = show_duration(sum((one.statement for one in days), timedelta(0)))
    said = f"Statement time of the last {DAYS} days: {total} on {len(days)} of them"
    if budget is None:
        return f"{said}; no budget declared."
    return f"{said}; {over} over the budget of {show_duration(budget)} a day."
