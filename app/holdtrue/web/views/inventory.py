"""the pages that list what there is: catalog, databases, deliveries"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from holdtrue.model import Catalog, Ending, Episode, MessageState, show_duration
from holdtrue.notifiers import limits_of
from holdtrue.store import AuditRow, CatalogStatus, OtherServer, OwedRow
from holdtrue.web.showing import thousands
from holdtrue.web.views.alerts import AlertLine, episode_lines
from holdtrue.web.views.entries import Judged
from holdtrue.web.views.monitor import InstanceLine, instance_lines
from holdtrue.web.views.parts import TONE_WORDS, TONES, Badge, Link, When, alert_url, when, with_query


@dataclass(frozen=True, slots=True)
class AuditLine:
    """Who did what."""

    at: When
    who: str
    action: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class CatalogPage:
    """The generation in force, what is wrong with it or was refused, and who did what."""

    generation: int | None
    content_hash: str
    loaded: When | None
    loaded_by: str
    invariants: str
    databases: str
    files: tuple[str, ...]
    warnings: tuple[str, ...]
    problems: tuple[str, ...]
    instances: tuple[InstanceLine, ...]
    withdrawn: tuple[AlertLine, ...]
    left: tuple[str, ...]
    audit: tuple[AuditLine, ...]


@dataclass(frozen=True, slots=True)
class DatabaseCard:
    """One database: how it is asked and how its invariants are."""

    name: str
    dialect: str
    replicas: tuple[str, ...]
    freshness: str
    max_lag: str
    concurrency: str
    primary: str
    tallies: tuple[tuple[Badge, Link], ...]
    another_server: str = ""
    accept: str = ""


@dataclass(frozen=True, slots=True)
class DeliveryLine:
    """One owed message."""

    alert: Link
    about: str
    number: int
    reason: str
    notifier: str
    state: str
    tone: str
    owed: When
    sent: When | None
    attempts: int
    next_try: When | None
    problem: str


@dataclass(frozen=True, slots=True)
class DeliveryFilters:
    """What the address of the page asks for; an alert that is no number is none of ours."""

    state: str = ""
    notifier: str = ""
    alert: str = ""

    @property
    def states(self) -> tuple[MessageState, ...]:
        """The state asked for, or all."""
        return tuple(one for one in MessageState if one.value == self.state)

    @property
    def alert_number(self) -> int | None:
        """The alert asked for."""
        if not self.alert:
            return None
        return int(self.alert) if self.alert.isascii() and self.alert.isdigit() and len(self.alert) < 18 else 0

    def url(self, **more: str) -> str:
        """The page with these filters."""
        return with_query("/deliveries", {"state": self.state, "notifier": self.notifier, "alert": self.alert, **more})


@dataclass(frozen=True, slots=True)
class DeliveriesPage:
    """All that the page shows; ``states`` count all messages there are, and lead to theirs.

    ``limits`` say of each notifier what it cannot do.
    """

    lines: tuple[DeliveryLine, ...]
    older: str | None
    filters: DeliveryFilters
    states: tuple[Link, ...]
    notifiers: tuple[str, ...]
    limits: tuple[tuple[str, str], ...]


def catalog_page(
    *,
    catalog: Catalog | None,
    status: CatalogStatus,
    ended: Sequence[Episode],
    audit: Sequence[AuditRow],
    now: datetime,
    refused: Sequence[str] = (),
) -> CatalogPage:
    """The page. Problems are ``refused``, those of a reload just now, or the newest refused one's of any instance."""
    generation = status.generation
    lines = instance_lines(status.instances, now)
    problems = tuple(refused) or next((line.problems for line in lines if line.problems), ())
    return CatalogPage(
        generation=generation.number if generation is not None else None,
        content_hash=generation.content_hash[:12] if generation is not None else "",
        loaded=when(generation.loaded_at, now) if generation is not None else None,
        loaded_by=generation.loaded_by if generation is not None else "",
        invariants=thousands(len(catalog.invariants)) if catalog is not None else "—",
        databases=thousands(len(catalog.config.databases)) if catalog is not None else "—",
        files=tuple(path for path, _ in catalog.texts) if catalog is not None else (),
        warnings=tuple(str(one) for one in catalog.warnings) if catalog is not None else (),
        problems=problems,
        instances=lines,
        withdrawn=episode_lines([one for one in ended if one.ending is Ending.WITHDRAWN], now),
        left=tuple(f"{one.invariant} on {one.database}" for one in status.withdrawn),
        audit=tuple(AuditLine(when(one.at, now), one.who, one.action, one.subject, one.detail) for one in audit),
    )


def database_cards(
    catalog: Catalog | None, judged: Sequence[Judged], refused: Mapping[str, OtherServer]
) -> tuple[DatabaseCard, ...]:
    """Every database of the catalog, with the other server that was met under its name and refused."""
    if catalog is None:
        return ()
    counts = Counter((one.database, one.badge.tone) for one in judged)
    return tuple(
        DatabaseCard(
            name=one.name,
            dialect=one.dialect.value,
            replicas=tuple(replica.name for replica in one.replicas),
            freshness=one.freshness.value,
            max_lag=show_duration(one.max_lag),
            concurrency=str(one.concurrency),
            primary="may be asked" if one.allow_primary else "never asked",
            tallies=tuple(
                (
                    Badge(tone, TONE_WORDS[tone]),
                    Link(thousands(counts[one.name, tone]), with_query("/", {"database": one.name, "state": tone})),
                )
                for tone in TONES
                if counts[one.name, tone]
            ),
            another_server=_another_server(refused.get(one.name)),
            accept=f"holdtrue databases accept {one.name}" if one.name in refused else "",
        )
        for one in catalog.config.databases
    )


def _another_server(found: OtherServer | None) -> str:
    if found is None:
        return ""
    return f"Replica {found.replica} is another server than before (system {found.system}): its answers do not count."


def deliveries_page(
    owed: Sequence[OwedRow],
    totals: Mapping[tuple[str, MessageState], int],
    catalog: Catalog | None,
    filters: DeliveryFilters,
    *,
    older: str | None,
    now: datetime,
) -> DeliveriesPage:
    """Owed messages, newest first, how many there are in each state, and what the notifiers cannot do."""
    counts: Counter[MessageState] = Counter()
    for (_, state), count in totals.items():
        counts[state] += count
    return DeliveriesPage(
        lines=tuple(_delivery(one, now) for one in owed),
        older=older,
        filters=filters,
        states=(
            Link(f"all {thousands(counts.total())}", replace(filters, state="").url(), not filters.state),
            *(
                Link(
                    f"{state.value} {thousands(counts[state])}",
                    replace(filters, state=state.value).url(),
                    filters.state == state.value,
                )
                for state in MessageState
            ),
        ),
        notifiers=tuple(sorted({notifier for notifier, _ in totals})),
        limits=tuple(
            (f"{one.name} ({one.kind})", limits_of(one) or "nothing is missing")
            for one in (catalog.config.notifiers if catalog is not None else ())
        ),
    )


def _delivery(owed: OwedRow, now: datetime) -> DeliveryLine:
    message = owed.message
    tones = {
        MessageState.FAILED: "firing",
        MessageState.SENT: "holds",
        MessageState.PENDING: "pending" if message.attempts else "quiet",
    }
    retried = message.state is MessageState.PENDING and message.attempts > 0
    return DeliveryLine(
        alert=Link(f"alert {message.episode}", alert_url(message.episode)),
        about=f"{owed.invariant} on {owed.database}",
        number=message.number,
        reason=message.reason.value,
        notifier=message.notifier,
        state="being retried"
        if retried
        else "given up"
        if message.state is MessageState.FAILED
        else f"withheld by silence {message.silence}"
        if message.silence is not None and message.state is MessageState.WITHHELD
        else message.state.value,
        tone=tones.get(message.state, "quiet"),
        owed=when(message.owed_at, now),
        sent=when(message.sent_at, now) if message.sent_at is not None else None,
        attempts=message.attempts,
        next_try=when(message.next_try_at, now) if message.next_try_at is not None else None,
        problem=message.problem,
    )
