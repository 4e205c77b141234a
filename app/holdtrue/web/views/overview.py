"""the overview: every invariant on every database, worst first"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from holdtrue.model import AlertState, Standing
from holdtrue.web.showing import thousands
from holdtrue.web.views.charts import Strip
from holdtrue.web.views.entries import OVER, SEVERITIES, Filters, Group, Judged, chosen, summed
from holdtrue.web.views.monitor import MonitorHealth
from holdtrue.web.views.parts import (
    TONE_WORDS,
    TONES,
    Badge,
    Link,
    Paging,
    Tone,
    When,
    alert_url,
    badge,
    invariant_url,
    sentence_beside,
    when_or_none,
    with_query,
)

_SHARDS_A_PAGE, _LEAST_SHARDS = 300, 5


@dataclass(frozen=True, slots=True)
class ShardLine:
    """One database below the sum."""

    database: str
    url: str
    badge: Badge
    sentence: str
    count: str
    looked: When | None
    alert: Link | None
    over: str


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the overview; with ``shards`` it sums up several databases, and ``more`` leads to all of them."""

    name: str
    database: str
    url: str
    badge: Badge
    sentence: str
    severity: str
    owner: str
    description: str
    count: str
    new: str
    looked: When | None
    due: When | None
    trouble: str
    alert: Link | None
    strip: Strip | None
    over: str
    reach: str = ""
    shards: tuple[ShardLine, ...] = ()
    more: Link | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One of the ways to filter by a list."""

    name: str
    label: str
    value: str
    options: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tab:
    """How many there are of a tone, and the way to only those."""

    tone: Tone | None
    word: str
    count: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """All that the page shows."""

    headline: str
    tone: Tone
    tabs: tuple[Tab, ...]
    lines: tuple[Line, ...]
    filters: Filters
    choices: tuple[Choice, ...]
    narrowed: bool
    clear_url: str
    empty: str
    over: Link | None
    paging: Paging
    health: MonitorHealth


def overview_page(
    *,
    judged: Sequence[Judged],
    groups: Sequence[Group],
    filters: Filters,
    first: int,
    size: int,
    strips: Mapping[tuple[str, str], Strip],
    health: MonitorHealth,
    now: datetime,
) -> OverviewPage:
    """The page of all ``groups`` that are shown; ``strips`` are needed for its lines only: ``page_of`` says which."""
    without_state = chosen(judged, replace(filters, state=""))
    counts = Counter(one.badge.tone for one in without_state)
    page = page_of(groups, first, size)
    # A page stays of one size, whether it has one sum or a hundred.
    each = max(_LEAST_SHARDS, _SHARDS_A_PAGE // max(1, sum(1 for one in page if one.shards)))
    over = sum(1 for one in judged if one.over is not None)
    worst: Tone = next((tone for tone in TONES if any(one.badge.tone == tone for one in judged)), "unknown")
    return OverviewPage(
        headline=_headline(judged),
        tone=worst,
        tabs=_tabs(counts, len(without_state), filters),
        lines=tuple(_line(one, strips.get((one.worst.invariant.name, one.worst.database)), each, now) for one in page),
        filters=filters,
        choices=_choices(judged, filters),
        narrowed=bool(filters.owner or filters.severity or filters.database or filters.tag or filters.budget),
        clear_url="/",
        empty=_empty(judged, groups),
        over=Link(f"{thousands(over)} over budget", with_query("/", {"budget": OVER})) if over else None,
        paging=paging("/", filters.as_query(), first, size, len(groups)),
        health=health,
    )


def page_of(shown: Sequence[Group], first: int, size: int) -> Sequence[Group]:
    """The lines of one page."""
    return shown[first : first + size]


def paging(path: str, query: Mapping[str, str], first: int, size: int, total: int) -> Paging:
    """The ways to the pages before and after."""
    if total <= size and first == 0:
        return Paging("")
    last = min(first + size, total)
    return Paging(
        f"{thousands(first + 1)} to {thousands(last)} of {thousands(total)}",
        with_query(path, {**query, "first": str(max(0, first - size)) if first > size else ""}) if first > 0 else None,
        with_query(path, {**query, "first": str(first + size)}) if last < total else None,
    )


def _headline(judged: Sequence[Judged]) -> str:
    if not judged:
        return "No invariant is being asked"
    counts = Counter(one.badge.tone for one in judged)
    told = [f"{thousands(counts[tone])} {TONE_WORDS[tone]}" for tone in TONES[:3] if counts[tone]]
    if not told:
        return f"All {thousands(len(judged))} hold" if len(judged) > 1 else "It holds"
    if set(counts) <= {"unknown", "holds"}:
        return f"Nothing is seen violated, but {told[0]}"
    return ", ".join(told)


def _tabs(counts: Mapping[Tone, int], total: int, filters: Filters) -> tuple[Tab, ...]:
    every = Tab(None, "all", thousands(total), with_query("/", filters.as_query(state="")), not filters.state)
    return (
        *(
            Tab(
                tone,
                TONE_WORDS[tone] if tone != "holds" else "hold",
                thousands(counts.get(tone, 0)),
                with_query("/", filters.as_query(state=tone)),
                filters.state == tone,
            )
            for tone in TONES
        ),
        every,
    )


def _choices(judged: Sequence[Judged], filters: Filters) -> tuple[Choice, ...]:
    owners = tuple(sorted({one.invariant.owner for one in judged if one.invariant.owner}))
    databases = tuple(sorted({one.database for one in judged}))
    tags = tuple(sorted({tag for one in judged for tag in one.invariant.tags}))
    every = (
        Choice("owner", "Owner", filters.owner, owners),
        Choice("severity", "Severity", filters.severity, SEVERITIES),
        Choice("database", "Database", filters.database, databases),
        Choice("tag", "Tag", filters.tag, tags),
        Choice("budget", "Budget", filters.budget, (OVER,) if any(one.invariant.budget for one in judged) else ()),
    )
    return tuple(one for one in every if one.options)


def _empty(judged: Sequence[Judged], shown: Sequence[Group]) -> str:
    if shown:
        return ""
    if judged:
        return "No invariant matches these filters."
    return "The catalog holds no invariant. Add one below invariants/ and reload."


def _line(group: Group, strip: Strip | None, each: int, now: datetime) -> Line:
    one = group.worst
    invariant, standing = one.invariant, _standing(one)
    trouble = standing.try_reason if standing is not None and standing.errors_in_a_row else ""
    looked = _looked(one, now)
    alone = Line(
        name=invariant.name,
        database=one.database,
        url=invariant_url(invariant.name, one.database),
        badge=one.badge,
        sentence=sentence_beside(one.verdict, one.badge, trouble) or (looked.age if looked else ""),
        severity=invariant.severity.value,
        owner=invariant.owner,
        description=invariant.description,
        count=_count_of(one),
        new=thousands(standing.good_new)
        if standing and standing.good_new and one.verdict.violations is not None
        else "",
        looked=looked,
        due=when_or_none(one.row.next_due if one.row is not None else None, now),
        trouble=trouble,
        alert=_alert_of(one),
        strip=strip,
        over=one.over.sentence if one.over is not None else "",
    )
    return _sum_line(group, alone, each, now) if group.shards else alone


def _sum_line(group: Group, worst: Line, each: int, now: datetime) -> Line:
    """The line of all databases, in place of its worst one's. What is unknown is in no sum (semantics 6.1)."""
    shards, total = group.shards, summed(group.shards)
    standings = [found for one in shards if (found := _standing(one)) is not None]
    looks = [found.good_at for found in standings if found.good_at is not None]
    dues = [one.row.next_due for one in shards if one.row is not None and one.row.next_due is not None]
    known = [one for one in shards if one.verdict.violations is not None and _standing(one) is not None]
    new = sum(found.good_new for one in known if (found := _standing(one)) is not None)
    alerts = [opened for one in shards if (opened := _alert_of(one)) is not None]
    over = sum(1 for one in shards if one.over is not None)
    count = "—" if total.violations is None else thousands(total.violations)
    every = with_query("/", {"invariant": worst.name})
    strip = worst.strip and replace(worst.strip, description=f"{worst.database}, the worst: {worst.strip.description}")
    return replace(
        worst,
        database=f"{thousands(total.databases)} databases",
        url=every,
        badge=badge(total.worst),
        sentence=total.spread,
        count=count if total.complete else f"≥ {count}",
        reach=total.reach,
        new=thousands(new) if new else "",
        looked=when_or_none(min(looks, default=None), now),
        due=when_or_none(min(dues, default=None), now),
        trouble=f"{worst.database}: {worst.trouble}" if worst.trouble else "",
        alert=alerts[0]
        if len(alerts) == 1
        else Link(f"{len(alerts)} alerts", with_query("/alerts", {"q": worst.name}))
        if alerts
        else None,
        strip=strip,
        over=f"over budget on {over} of {total.databases}" if over else "",
        shards=tuple(_shard_line(one, now) for one in shards[:each]),
        more=Link(f"All {thousands(total.databases)} as a list", every) if total.databases > each else None,
    )


def _shard_line(one: Judged, now: datetime) -> ShardLine:
    standing = _standing(one)
    trouble = standing.try_reason if standing is not None and standing.errors_in_a_row else ""
    return ShardLine(
        database=one.database,
        url=invariant_url(one.invariant.name, one.database),
        badge=one.badge,
        sentence=sentence_beside(one.verdict, one.badge) or trouble,
        count=_count_of(one),
        looked=_looked(one, now),
        alert=_alert_of(one),
        over=one.over.sentence if one.over is not None else "",
    )


def _standing(one: Judged) -> Standing | None:
    return one.row.standing if one.row is not None else None


def _looked(one: Judged, now: datetime) -> When | None:
    standing = _standing(one)
    return when_or_none(standing.good_at if standing is not None else None, now)


def _count_of(one: Judged) -> str:
    violations, standing = one.verdict.violations, _standing(one)
    if violations is None or standing is None:
        return "—"
    return thousands(violations) if standing.good_complete else f"≥ {thousands(violations)}"


def _alert_of(one: Judged) -> Link | None:
    row = one.row
    if row is not None and row.alert is not None and row.alert.open:
        word = "firing" if row.alert.state is AlertState.FIRING else "pending"
        return Link(f"alert {row.alert.id}, {word}", alert_url(row.alert.id))
    if row is not None and row.unchecked is not None and row.unchecked.open:
        return Link(f"unchecked, alert {row.unchecked.id}", alert_url(row.unchecked.id))
    return None
