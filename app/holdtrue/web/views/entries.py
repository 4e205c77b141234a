"""every invariant on every database with its verdict, and which of them a filter asks for"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from holdtrue.alerting import OverBudget, Shard, Total, sum_up, verdict
from holdtrue.model import Catalog, Invariant, Severity, Verdict, Word
from holdtrue.store.records import OverviewRow
from holdtrue.web.views.parts import TONES, Badge, badge

OVER = "over"
SEVERITIES = tuple(one.value for one in (Severity.CRITICAL, Severity.WARNING, Severity.INFO))


@dataclass(frozen=True, slots=True)
class Filters:
    """What the URL asks to see; empty texts ask for all."""

    q: str = ""
    owner: str = ""
    severity: str = ""
    database: str = ""
    state: str = ""
    tag: str = ""
    invariant: str = ""
    budget: str = ""

    def as_query(self, **other: str) -> dict[str, str]:
        """The parameters of the URL, with some replaced."""
        own = {
            "q": self.q,
            "owner": self.owner,
            "severity": self.severity,
            "database": self.database,
            "state": self.state,
            "tag": self.tag,
            "invariant": self.invariant,
            "budget": self.budget,
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
    over: OverBudget | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """What one line stands for: the worst of an invariant's databases, and all of them if they are summed up."""

    worst: Judged
    shards: tuple[Judged, ...] = ()


def judge(
    catalog: Catalog,
    rows: Iterable[OverviewRow],
    now: datetime,
    over_budget: Mapping[tuple[str, str], OverBudget],
) -> tuple[Judged, ...]:
    """Every entry of the catalog with its verdict, worst first. One that the store does not know yet is unknown."""
    by_pair = {(row.standing.invariant, row.standing.database): row for row in rows}
    judged = []
    for invariant, database in catalog.entries():
        row = by_pair.get((invariant.name, database))
        said = never_looked() if row is None else verdict(row.standing, row.alert, invariant, now)
        over = over_budget.get((invariant.name, database))
        judged.append(Judged(invariant, database, row, said, badge(said), over))
    return tuple(sorted(judged, key=_worst_first))


def never_looked() -> Verdict:
    """The verdict on an entry that the store has no standing of yet."""
    return Verdict(Word.UNKNOWN, "unknown: never looked", firing=False, unknown=True, violations=None, exit_code=3)


def chosen(judged: Iterable[Judged], filters: Filters) -> tuple[Judged, ...]:
    """Those that the filters ask for; ``state`` last, so that the tabs can count without it."""
    wanted = filters.q.casefold().split()
    return tuple(one for one in judged if _matches(one, filters, wanted))


def grouped(shown: Sequence[Judged], filters: Filters) -> tuple[Group, ...]:
    """Those shown, with an invariant's databases as one where every one of them is shown.

    A filter that leaves some of them out takes their sum apart: a sum over a part would pass for the whole.
    """
    if filters.invariant:
        return tuple(Group(one) for one in shown)
    by_name: dict[str, list[Judged]] = {}
    for one in shown:
        by_name.setdefault(one.invariant.name, []).append(one)
    found: list[Group] = []
    for one in shown:
        its = by_name[one.invariant.name]
        whole = len(its) > 1 and len(its) == len(one.invariant.databases)
        if not whole:
            found.append(Group(one))
        elif its[0] is one:
            found.append(Group(one, tuple(its)))
    return tuple(found)


def summed(shards: Sequence[Judged]) -> Total:
    """What the verdicts on an invariant's databases come to."""
    return sum_up([Shard.of(one.verdict, one.row.standing if one.row is not None else None) for one in shards])


def _worst_first(one: Judged) -> tuple[int, int, int, float, str, str]:
    opened = one.row.alert.opened_at.timestamp() if one.row is not None and one.row.alert is not None else 0.0
    return (
        TONES.index(one.badge.tone),
        SEVERITIES.index(one.invariant.severity.value),
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
    if filters.invariant and invariant.name != filters.invariant:
        return False
    if filters.budget == OVER and one.over is None:
        return False
    text = " ".join((invariant.name, one.database, invariant.owner, invariant.description, *invariant.tags)).casefold()
    return all(word in text for word in words)
