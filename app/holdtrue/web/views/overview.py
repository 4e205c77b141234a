"""the overview: every invariant on every database, worst first"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from holdtrue.alerting import verdict
from holdtrue.model import AlertState, Catalog, Invariant, Severity, Verdict, Word
from holdtrue.store.records import OverviewRow
from holdtrue.web.showing import thousands
from holdtrue.web.views.charts import Strip
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

_SEVERITIES = tuple(one.value for one in (Severity.CRITICAL, Severity.WARNING, Severity.INFO))


@dataclass(frozen=True, slots=True)
class Filters:
    """What the URL asks to see; empty texts ask for all."""

    q: str = ""
    owner: str = ""
    severity: str = ""
    database: str = ""
    state: str = ""
    tag: str = ""

    def as_query(self, **other: str) -> dict[str, str]:
        """The parameters of the URL, with some replaced."""
        own = {
            "q": self.q,
            "owner": self.owner,
            "severity": self.severity,
            "database": self.database,
            "state": self.state,
            "tag": self.tag,
        }
        return {**own, **other}

    @property
    def any(self) -> bool:
        """Whether anything is filtered."""
        return any(self.as_query().values())


@dataclass(frozen=True, slots=True)
class Judged:
    """One invariant on one database with its verdict: what pages, API and filters work on."""

    invariant: Invariant
    database: str
    row: OverviewRow | None
    verdict: Verdict
    badge: Badge


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the overview."""

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
    paging: Paging
    health: MonitorHealth


def judge(catalog: Catalog, rows: Iterable[OverviewRow], now: datetime) -> tuple[Judged, ...]:
    """Every entry of the catalog with its verdict, worst first. One that the store does not know yet is unknown."""
    by_pair = {(row.standing.invariant, row.standing.database): row for row in rows}
    judged = []
    for invariant, database in catalog.entries():
        row = by_pair.get((invariant.name, database))
        said = never_looked() if row is None else verdict(row.standing, row.alert, invariant, now)
        judged.append(Judged(invariant, database, row, said, badge(said)))
    return tuple(sorted(judged, key=_worst_first))


def never_looked() -> Verdict:
    """The verdict on an entry that the store has no standing of yet."""
    return Verdict(Word.UNKNOWN, "unknown: never looked", firing=False, unknown=True, violations=None, exit_code=3)


def chosen(judged: Iterable[Judged], filters: Filters) -> tuple[Judged, ...]:
    """Those that the filters ask for; ``state`` last, so that the tabs can count without it."""
    wanted = filters.q.casefold().split()
    return tuple(one for one in judged if _matches(one, filters, wanted))


def overview_page(
    *,
    judged: Sequence[Judged],
    filters: Filters,
    first: int,
    size: int,
    strips: Mapping[tuple[str, str], Strip],
    health: MonitorHealth,
    now: datetime,
) -> OverviewPage:
    """The page; ``strips`` are needed for its lines only: ``page_of`` says which."""
    without_state = chosen(judged, replace(filters, state=""))
    shown = chosen(without_state, filters)
    counts = Counter(one.badge.tone for one in without_state)
    page = page_of(shown, first, size)
    worst: Tone = next((tone for tone in TONES if any(one.badge.tone == tone for one in judged)), "unknown")
    return OverviewPage(
        headline=_headline(judged),
        tone=worst,
        tabs=_tabs(counts, len(without_state), filters),
        lines=tuple(_line(one, strips.get((one.invariant.name, one.database)), now) for one in page),
        filters=filters,
        choices=_choices(judged, filters),
        narrowed=bool(filters.owner or filters.severity or filters.database or filters.tag),
        clear_url="/",
        empty=_empty(judged, shown),
        paging=paging("/", filters.as_query(), first, size, len(shown)),
        health=health,
    )


def page_of(shown: Sequence[Judged], first: int, size: int) -> Sequence[Judged]:
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


def _worst_first(one: Judged) -> tuple[int, int, int, float, str, str]:
    opened = one.row.alert.opened_at.timestamp() if one.row is not None and one.row.alert is not None else 0.0
    return (
        TONES.index(one.badge.tone),
        _SEVERITIES.index(one.invariant.severity.value),
        0 if one.verdict.unknown else 1,
        -opened,
        one.invariant.name,
        one.database,
    )


def _matches(one: Judged, filters: Filters, words: Sequence[str]) -> bool:
    invariant = one.invariant
    if filters.owner and invariant.owner != filters.owner:
        return False
    if filters.severity and invariant.severity.value != filters.severity:
        return False
    if filters.database and one.database != filters.database:
        return False
    if filters.state and one.badge.tone != filters.state:
        return False
    if filters.tag and filters.tag not in invariant.tags:
        return False
    text = " ".join((invariant.name, one.database, invariant.owner, invariant.description, *invariant.tags)).casefold()
    return all(word in text for word in words)


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
        Choice("severity", "Severity", filters.severity, _SEVERITIES),
        Choice("database", "Database", filters.database, databases),
        Choice("tag", "Tag", filters.tag, tags),
    )
    return tuple(one for one in every if one.options)


def _empty(judged: Sequence[Judged], shown: Sequence[Judged]) -> str:
    if shown:
        return ""
    if judged:
        return "No invariant matches these filters."
    return "The catalog holds no invariant. Add one below invariants/ and reload."


def _line(one: Judged, strip: Strip | None, now: datetime) -> Line:
    row, invariant = one.row, one.invariant
    standing = row.standing if row is not None else None
    violations = one.verdict.violations
    count, new = "—", ""
    if violations is not None and standing is not None:
        count = thousands(violations) if standing.good_complete else f"≥ {thousands(violations)}"
        new = thousands(standing.good_new) if standing.good_new else ""
    alert = None
    if row is not None and row.alert is not None and row.alert.open:
        word = "firing" if row.alert.state is AlertState.FIRING else "pending"
        alert = Link(f"alert {row.alert.id}, {word}", alert_url(row.alert.id))
    elif row is not None and row.unchecked is not None and row.unchecked.open:
        alert = Link(f"unchecked, alert {row.unchecked.id}", alert_url(row.unchecked.id))
    trouble = standing.try_reason if standing is not None and standing.errors_in_a_row else ""
    looked = when_or_none(standing.good_at if standing is not None else None, now)
    return Line(
        name=invariant.name,
        database=one.database,
        url=invariant_url(invariant.name, one.database),
        badge=one.badge,
        sentence=sentence_beside(one.verdict, one.badge, trouble) or (looked.age if looked else ""),
        severity=invariant.severity.value,
        owner=invariant.owner,
        description=invariant.description,
        count=count,
        new=new,
        looked=looked,
        due=when_or_none(row.next_due if row is not None else None, now),
        trouble=trouble,
        alert=alert,
        strip=strip,
    )
