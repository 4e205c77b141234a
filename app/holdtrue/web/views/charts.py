"""counts over time as shapes: spans in, an SVG's numbers out"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Literal

from holdtrue.model import Outcome, show_duration
from holdtrue.store.records import Span
from holdtrue.web.showing import absolute, thousands
from holdtrue.web.views.parts import When, when

Kind = Literal["held", "violated", "unseen", "unknown"]
"""``unseen``: violated when last seen, and not looked at since; its count is not known either."""

WIDTH, HEIGHT = 1000, 160
STRIP_WIDTH, STRIP_HEIGHT = 160, 14
_COLUMNS = 500
_LEAST_SEEN = 3.0
"""Of a drawing's width: about three pixels in either."""
_WORST: tuple[Kind, ...] = ("violated", "unseen", "unknown", "held")
_WORDS: dict[Kind, str] = {
    "held": "held",
    "violated": "violated",
    "unseen": "violated when last seen, count unknown since",
    "unknown": "unknown: nobody looked",
}


@dataclass(frozen=True, slots=True)
class Stretch:
    """A time in which one thing was known. ``low`` and ``high`` bound its count; both None while it is unknown."""

    start: datetime
    end: datetime
    kind: Kind
    low: int | None = None
    high: int | None = None
    complete: bool = True
    runs: int = 0


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of the drawing, and the words that a pointer over it shows."""

    x: float
    y: float
    width: float
    height: float
    kind: Kind
    title: str


@dataclass(frozen=True, slots=True)
class StretchRow:
    """A line of the table that says the same as the drawing."""

    start: When
    end: When
    kind: Kind
    word: str
    count: str
    runs: int


@dataclass(frozen=True, slots=True)
class StepChart:
    """A chart of counts: boxes, one path per unbroken line, labels, and the same as a table."""

    title: str
    description: str
    boxes: tuple[Box, ...]
    lines: tuple[str, ...]
    y_labels: tuple[str, ...]
    x_labels: tuple[When, ...]
    rows: tuple[StretchRow, ...]
    rows_left_out: int
    width: int = WIDTH
    height: int = HEIGHT


@dataclass(frozen=True, slots=True)
class Strip:
    """The last day of one line of the overview, in one narrow band."""

    description: str
    boxes: tuple[Box, ...]
    width: int = STRIP_WIDTH
    height: int = STRIP_HEIGHT


@dataclass(frozen=True, slots=True)
class Frame:
    """The range that a drawing shows and its size: where a moment and a count come to lie."""

    since: datetime
    until: datetime
    top: int
    width: int
    height: int

    def x(self, moment: datetime) -> float:
        """From the left."""
        return round((moment - self.since) / (self.until - self.since) * self.width, 2)

    def y(self, count: int) -> float:
        """From above."""
        return round(self.height - count / self.top * self.height, 2)


def stretches(spans: Sequence[Span], since: datetime, until: datetime, fresh_for: timedelta) -> tuple[Stretch, ...]:
    """What was known at each moment of ``[since, until]``, without gaps.

    A good span speaks until the next one, but not beyond its last run + ``fresh_for``: what follows is unknown, and never
    drawn as 0 (semantics 0, 6). Errored and skipped spans say nothing of the count.
    """
    good = sorted(
        (one for one in spans if one.outcome in (Outcome.HELD, Outcome.VIOLATED)), key=lambda span: span.first_at
    )
    found: list[Stretch] = []
    reached, left_by = since, "unknown"
    for index, span in enumerate(good):
        begins = max(span.first_at, since)
        following = good[index + 1].first_at if index + 1 < len(good) else until
        ends = min(span.last_at + fresh_for, following, until)
        kind: Kind = "violated" if span.outcome is Outcome.VIOLATED else "held"
        if begins > reached:
            found.append(Stretch(reached, min(begins, until), "unseen" if left_by == "violated" else "unknown"))
        if ends > begins:
            found.append(Stretch(begins, ends, kind, span.lowest, span.highest, span.complete, span.runs))
        reached, left_by = max(reached, ends, begins if begins <= until else reached), kind
    if reached < until:
        found.append(Stretch(reached, until, "unseen" if left_by == "violated" else "unknown"))
    return tuple(one for one in found if one.end > one.start)


def thinned(parts: Sequence[Stretch], since: datetime, until: datetime, columns: int = _COLUMNS) -> tuple[Stretch, ...]:
    """The stretches with those too narrow to be seen put together: the worst kind of them, and all their counts."""
    narrow = (until - since) / columns
    merged: list[Stretch] = []
    for part in parts:
        last = merged[-1] if merged else None
        if last is not None and part.end - last.start <= narrow:
            merged[-1] = _together(last, part)
        else:
            merged.append(part)
    return tuple(merged)


def step_chart(
    spans: Sequence[Span],
    since: datetime,
    until: datetime,
    fresh_for: timedelta,
    now: datetime,
    *,
    table_limit: int = 200,
) -> StepChart:
    """The chart of an invariant's page."""
    parts = stretches(spans, since, until, fresh_for)
    drawn = thinned(parts, since, until)
    top = nice_ceiling(max((part.high or 0 for part in parts), default=0))
    frame = Frame(since, until, top, WIDTH, HEIGHT)
    rows = tuple(_row(part, now) for part in reversed(parts[-table_limit:]))
    quarter = (until - since) / 4
    return StepChart(
        title=f"Counted violations, the last {show_duration(until - since)}",
        description=_describe(parts, since, until),
        boxes=tuple(_box(part, frame) for part in drawn),
        lines=_lines(drawn, frame),
        y_labels=(thousands(top), thousands(top // 2) if top % 2 == 0 else f"{top / 2:g}", "0"),
        x_labels=tuple(when(since + quarter * step, now) for step in range(4)),
        rows=rows,
        rows_left_out=len(parts) - len(rows),
    )


def strip(spans: Sequence[Span], since: datetime, until: datetime, fresh_for: timedelta) -> Strip:
    """The band of one line of the overview."""
    parts = stretches(spans, since, until, fresh_for)
    frame = Frame(since, until, 1, STRIP_WIDTH, STRIP_HEIGHT)
    boxes = tuple(_filled(_box(part, frame), part) for part in thinned(parts, since, until, columns=STRIP_WIDTH))
    return Strip(_describe(parts, since, until), boxes)


def nice_ceiling(highest: int) -> int:
    """A round number not below ``highest``: 1, 2, 4, 6, 10, 20, 40 … so that half of it is a number too."""
    if highest <= 1:
        return 1
    step = 1
    while True:
        for factor in (2, 4, 6, 10):
            if factor * step >= highest:
                return factor * step
        step *= 10


def _together(one: Stretch, other: Stretch) -> Stretch:
    lows = [part.low for part in (one, other) if part.low is not None]
    highs = [part.high for part in (one, other) if part.high is not None]
    return Stretch(
        one.start,
        other.end,
        min(one.kind, other.kind, key=_WORST.index),
        min(lows, default=None),
        max(highs, default=None),
        one.complete and other.complete,
        one.runs + other.runs,
    )


def _box(part: Stretch, frame: Frame) -> Box:
    left = frame.x(part.start)
    # A short violation must stay visible: among days of quiet, and at the right end, where it has just begun.
    width = max(round(frame.x(part.end) - left, 2), _LEAST_SEEN if part.kind == "violated" else 0.1)
    left = min(left, round(frame.width - width, 2))
    title = f"{absolute(part.start)} to {absolute(part.end)}: {_WORDS[part.kind]}{_counted(part)}"
    if part.kind in ("unknown", "unseen"):
        return Box(left, 0, width, frame.height, part.kind, title)
    y = frame.y(part.high or 0)
    return Box(left, y, width, round(frame.height - y, 2), part.kind, title)


def _filled(box: Box, part: Stretch) -> Box:
    """What held is a low line, what did not fills the band: the shape tells them apart without colour."""
    if part.kind == "held":
        return replace(box, y=STRIP_HEIGHT - 4, height=4)
    return replace(box, y=0, height=STRIP_HEIGHT)


def _counted(part: Stretch) -> str:
    shown = _count(part)
    return f", {shown} counted" if shown else ""


def _count(part: Stretch) -> str:
    if part.low is None or part.high is None:
        return ""
    shown = thousands(part.high) if part.low == part.high else f"{thousands(part.low)} to {thousands(part.high)}"
    return shown if part.complete else f"at least {shown}"


def _lines(parts: Sequence[Stretch], frame: Frame) -> tuple[str, ...]:
    lines: list[str] = []
    steps: list[str] = []
    for part in parts:
        if part.high is None or part.kind in ("unknown", "unseen"):
            if steps:
                lines.append(" ".join(steps))
            steps = []
            continue
        x, y = frame.x(part.start), frame.y(part.high)
        steps.append(f"V{y:g}" if steps else f"M{x:g} {y:g}")
        steps.append(f"H{frame.x(part.end):g}")
    if steps:
        lines.append(" ".join(steps))
    return tuple(lines)


def _row(part: Stretch, now: datetime) -> StretchRow:
    word = _WORDS[part.kind]
    return StretchRow(
        when(part.start, now), when(part.end, now), part.kind, word, _count(part) or "not known", part.runs
    )


def _describe(parts: Sequence[Stretch], since: datetime, until: datetime) -> str:
    shares: dict[Kind, timedelta] = {}
    for part in parts:
        shares[part.kind] = shares.get(part.kind, timedelta(0)) + (part.end - part.start)
    said = [f"{_WORDS[kind]} for {show_duration(shares[kind])}" for kind in _WORST if kind in shares]
    return f"The last {show_duration(until - since)}: {'; '.join(said)}."
