"""the list of alerts, and the page of one"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from holdtrue.model import (
    Accept,
    AlertState,
    Catalog,
    Ending,
    Episode,
    Event,
    Message,
    MessageState,
    NearDeploy,
    Position,
    Run,
    Silence,
    Subject,
)
from holdtrue.store.records import AlertDetail, KeptEvidence
from holdtrue.web.showing import length, thousands
from holdtrue.web.views.invariant import Fact, SampleTable, sample_table
from holdtrue.web.views.parts import (
    TONES,
    Badge,
    Link,
    Paging,
    When,
    alert_url,
    invariant_url,
    safe_link,
    when,
    when_or_none,
)
from holdtrue.web.views.silences import QuietBox, quiet_box
from holdtrue.web.views.waivers import AcceptForm, accept_form

_MESSAGE_WORDS = {
    MessageState.PENDING: "on its way",
    MessageState.SENT: "sent",
    MessageState.FAILED: "given up",
    MessageState.WITHHELD: "withheld",
    MessageState.SUPERSEDED: "overtaken by a newer one",
}


@dataclass(frozen=True, slots=True)
class AlertLine:
    """One line of the list."""

    number: int
    url: str
    badge: Badge
    invariant: str
    invariant_url: str
    database: str
    severity: str
    owner: str
    count: str
    peak: str
    opened: When
    ended: When | None
    lasted: str
    ending: str


@dataclass(frozen=True, slots=True)
class AlertsPage:
    """All that the list shows."""

    open: tuple[AlertLine, ...]
    ended: tuple[AlertLine, ...]
    q: str
    owner: str
    paging: Paging
    filtered: bool


@dataclass(frozen=True, slots=True)
class MessageLine:
    """What became of one message."""

    notifier: str
    state: str
    word: str
    at: When
    attempts: int
    problem: str


@dataclass(frozen=True, slots=True)
class EventLine:
    """One numbered step of the episode."""

    number: int
    word: str
    told: bool
    at: When
    count: str
    detail: str
    marks: tuple[str, ...]
    messages: tuple[MessageLine, ...]


@dataclass(frozen=True, slots=True)
class EvidenceTable:
    """Captured rows of one table, with their writers."""

    table: str
    columns: tuple[str, ...]
    masked: frozenset[str]
    rows: tuple[tuple[str, tuple[str | None, ...]], ...]


@dataclass(frozen=True, slots=True)
class EvidenceBlock:
    """What was kept of one key."""

    key: str
    taken: When
    run: int
    window: str
    incomplete: str
    tables: tuple[EvidenceTable, ...]


@dataclass(frozen=True, slots=True)
class AlertPage:
    """All that the page of one alert shows."""

    number: int
    title: str
    badge: Badge
    sentence: str
    invariant: str
    database: str
    invariant_url: str | None
    description: str
    facts: tuple[Fact, ...]
    notes: tuple[str, ...]
    links: tuple[Link, ...]
    sample: SampleTable | None
    rows_url: str
    timeline: tuple[EventLine, ...]
    evidence: tuple[EvidenceBlock, ...]
    promote_url: str | None
    tickets: tuple[str, ...]
    command: str
    accept: AcceptForm | None
    quiet: QuietBox
    deploys: tuple[str, ...]
    deploys_note: str


def alerts_page(
    open_: Sequence[Episode], ended: Sequence[Episode], *, q: str, owner: str, paging: Paging, now: datetime
) -> AlertsPage:
    """The list: open ones first, violations before what is unchecked, longest first; then the ended, newest first."""
    first = sorted(matching(open_, q, owner), key=lambda one: (TONES.index(episode_badge(one).tone), one.opened_at))
    return AlertsPage(
        episode_lines(first, now),
        episode_lines(matching(ended, q, owner), now),
        q,
        owner,
        paging,
        bool(q or owner),
    )


def episode_lines(episodes: Iterable[Episode], now: datetime) -> tuple[AlertLine, ...]:
    """Episodes as lines of a list, in the order given."""
    return tuple(_line(one, now) for one in episodes)


def matching(episodes: Iterable[Episode], q: str, owner: str) -> tuple[Episode, ...]:
    """Those whose invariant, database or owner contain every word, and whose owner is the one asked for."""
    words = q.casefold().split()
    return tuple(
        one
        for one in episodes
        if (not owner or one.owner == owner)
        and all(word in f"{one.invariant} {one.database} {one.owner}".casefold() for word in words)
    )


def alert_page(
    detail: AlertDetail,
    catalog: Catalog | None,
    now: datetime,
    accepts: Sequence[Accept] = (),
    silence: Silence | None = None,
    *,
    deploys: Sequence[NearDeploy] | None = None,
) -> AlertPage:
    """The page of one alert. Its rows are those of its newest run that has some.

    ``accepts`` are its pair's; ``silence`` is what withholds its messages now; ``deploys`` are those beside its window, None
    where nobody ever told of one.
    """
    episode = detail.episode
    invariant = catalog.invariant(episode.invariant) if catalog is not None else None
    links = []
    if invariant is not None and invariant.runbook_url and safe_link(invariant.runbook_url):
        links.append(Link("Runbook", invariant.runbook_url))
    # A round of the canary is a proof: there is nothing to make a test of, and nothing to accept.
    about_rows = episode.subject is Subject.VIOLATION and not episode.canary
    in_catalog = invariant is not None and episode.database in invariant.databases
    return AlertPage(
        number=episode.id,
        title=_title(episode),
        badge=episode_badge(episode),
        sentence=_sentence(episode, now),
        invariant=episode.invariant,
        database=episode.database,
        invariant_url=invariant_url(episode.invariant, episode.database) if in_catalog else None,
        description=invariant.description if invariant is not None else "",
        facts=_facts(episode, now),
        notes=_notes(episode, _suspicious(detail), in_catalog=in_catalog),
        links=tuple(links),
        sample=sample_table(run_with_rows(detail), now),
        rows_url=f"/alerts/{episode.id}/rows.csv",
        timeline=tuple(_event(one, detail.messages, now) for one in reversed(detail.events)),
        evidence=tuple(_evidence(one, now) for one in detail.evidence),
        promote_url=f"/alerts/{episode.id}/promote" if about_rows else None,
        tickets=detail.tickets,
        command=command_of(episode),
        accept=None if episode.canary else accept_form(episode, invariant if in_catalog else None, accepts, now),
        quiet=quiet_box(episode, silence, now),
        deploys=tuple(str(one) for one in deploys or ()),
        deploys_note=_deploys_note(deploys),
    )


def episode_badge(episode: Episode) -> Badge:
    """The sign of an episode. One that ended otherwise than well is not shown as if it held."""
    if episode.state is AlertState.FIRING:
        return Badge("firing", "firing") if episode.subject is Subject.VIOLATION else Badge("unknown", "unchecked")
    if episode.state is AlertState.PENDING:
        return Badge("pending", "confirming" if episode.confirming is not None else "pending")
    if episode.subject is Subject.WAIVER:
        return Badge("pending", "expiring")
    if episode.ending in (Ending.RESOLVED, Ending.RECOVERED):
        return Badge("holds", episode.ending.value)
    return Badge("unknown", episode.ending.value if episode.ending is not None else "ended")


def run_with_rows(detail: AlertDetail) -> Run | None:
    """The newest run of the episode that kept rows."""
    for run in (detail.last_run, detail.first_run):
        if run is not None and run.sample is not None and run.sample.rows:
            return run
    return None


def command_of(episode: Episode, external_url: str = "") -> str:
    """The line that promotes this alert in a terminal."""
    prefix = f"HOLDTRUE_URL={shlex.quote(external_url)} " if external_url else ""
    return f"{prefix}holdtrue promote {episode.id}"


def _suspicious(detail: AlertDetail) -> str:
    found = [run.suspicious for run in (detail.last_run, detail.first_run) if run is not None and run.suspicious]
    return found[0] if found else ""


def _title(episode: Episode) -> str:
    about = {Subject.HEALTH: ": unchecked", Subject.WAIVER: ": a waiver ends"}
    return f"{episode.invariant}{about.get(episode.subject, '')}"


def _count(episode: Episode) -> str:
    if episode.subject is not Subject.VIOLATION:
        return ""
    shown = thousands(episode.count)
    return shown if episode.count_complete else f"≥ {shown}"


def _lasted(episode: Episode, now: datetime) -> str:
    return length((episode.ended_at or now) - episode.opened_at)


def _line(episode: Episode, now: datetime) -> AlertLine:
    return AlertLine(
        number=episode.id,
        url=alert_url(episode.id),
        badge=episode_badge(episode),
        invariant=episode.invariant,
        invariant_url=invariant_url(episode.invariant, episode.database),
        database=episode.database,
        severity=episode.severity,
        owner=episode.owner,
        count=_count(episode),
        peak=thousands(episode.peak) if episode.subject is Subject.VIOLATION else "",
        opened=when(episode.opened_at, now),
        ended=when_or_none(episode.ended_at, now),
        lasted=_lasted(episode, now),
        ending=episode.ending.value if episode.ending is not None else "",
    )


def _sentence(episode: Episode, now: datetime) -> str:
    lasted = _lasted(episode, now)
    if episode.subject is Subject.WAIVER:
        return "told that rows count again"
    if not episode.open:
        word = episode.ending.value if episode.ending is not None else "ended"
        return f"{word} after {lasted}"
    if episode.subject is Subject.HEALTH:
        return f"nobody has been able to look for {lasted}"
    rows = "row" if episode.count == 1 and episode.count_complete else "rows"
    return f"{_count(episode)} violating {rows}, open for {lasted}"


def _facts(episode: Episode, now: datetime) -> tuple[Fact, ...]:
    facts = [
        Fact("Severity", episode.severity),
        Fact("Owner", episode.owner or "nobody"),
        Fact("Opened", when(episode.opened_at, now).absolute),
    ]
    if episode.fired_at is not None:
        facts.append(Fact("Fired", when(episode.fired_at, now).absolute))
    if episode.ended_at is not None:
        facts.append(Fact("Ended", when(episode.ended_at, now).absolute))
    if episode.subject is Subject.VIOLATION:
        facts.append(Fact("Peak", thousands(episode.peak)))
    if episode.told_at is not None:
        facts.append(Fact("Last told", when(episode.told_at, now).absolute))
    if episode.acknowledged_by:
        facts.append(Fact("Acknowledged by", episode.acknowledged_by))
    if episode.note:
        facts.append(Fact("Note", episode.note))
    facts.append(Fact("Definition", episode.definition[:12]))
    return tuple(facts)


def _notes(episode: Episode, suspicious: str, *, in_catalog: bool) -> tuple[str, ...]:
    notes = []
    if episode.at_first_look:
        notes.append("The rows were there at the first look: no run before it.")
    if episode.follows is not None:
        notes.append(f"It came back: alert {episode.follows} ended shortly before.")
    if episode.confirming is not None:
        first = f"run {episode.confirming.run}" if episode.confirming.run is not None else "a run"
        notes.append(f"What {first} found waits for a second reading before anybody is told.")
    if episode.ending is Ending.TRANSIENT:
        notes.append("No second run counted a key of the first. Nothing was sent.")
    if episode.ending is Ending.REDEFINED:
        notes.append("The definition changed while it was open. This is not a fix.")
    if episode.ending is Ending.WITHDRAWN:
        notes.append("It left the catalog while it was open. This is not a fix.")
    if suspicious:
        notes.append(f"Suspicious: {suspicious}. Look at the text, the schema and what was loaded first.")
    if episode.open and not in_catalog:
        notes.append("The catalog in force does not have it any more.")
    return tuple(notes)


def _event(event: Event, messages: Sequence[Message], now: datetime) -> EventLine:
    return EventLine(
        number=event.number,
        word=event.reason.value if event.reason is not None else event.name,
        told=event.reason is not None,
        at=when(event.at, now),
        count=thousands(event.count) if event.count else "",
        detail=event.detail,
        marks=tuple(mark.value for mark in event.marks),
        messages=tuple(_message(one, now) for one in messages if one.number == event.number),
    )


def _message(message: Message, now: datetime) -> MessageLine:
    return MessageLine(
        message.notifier,
        message.state.value,
        "being retried"
        if message.state is MessageState.PENDING and message.attempts
        else f"withheld by silence {message.silence}"
        if message.state is MessageState.WITHHELD and message.silence is not None
        else _MESSAGE_WORDS[message.state],
        when(message.sent_at or message.owed_at, now),
        message.attempts,
        message.problem,
    )


def _evidence(kept: KeptEvidence, now: datetime) -> EvidenceBlock:
    evidence = kept.evidence
    tables: dict[tuple[str, tuple[str, ...]], list[tuple[str, tuple[str | None, ...]]]] = {}
    for row in evidence.rows:
        tables.setdefault((row.table, row.columns), []).append(
            (_writer(row.xid, row.committed_at, evidence.position), row.values)
        )
    return EvidenceBlock(
        key=evidence.key[:12],
        taken=when(kept.taken_at, now),
        run=kept.run,
        window=_window(kept, now),
        incomplete=evidence.incomplete,
        tables=tuple(
            EvidenceTable(
                table,
                columns,
                frozenset(one for one in columns if f"{table}.{one}" in evidence.pseudonymised),
                tuple(rows),
            )
            for (table, columns), rows in tables.items()
        ),
    )


def _writer(xid: int | None, committed_at: datetime | None, position: Position) -> str:
    parts = [f"transaction {xid}"] if xid is not None else []
    if committed_at is not None:
        parts.append(f"committed {committed_at:%H:%M:%S.%f}"[:-3])
    return ", ".join(parts) or ("by key only" if position.role == "file" else "not known")


def _deploys_note(deploys: Sequence[NearDeploy] | None) -> str:
    """Not told is not the same as not deployed."""
    if deploys is None:
        return "Not known: nobody has told of a deploy yet."
    return "" if deploys else "None was told of in the window or the day before it."


def _window(kept: KeptEvidence, now: datetime) -> str:
    if kept.last_good_at is None:
        return "no run before it"
    return f"not there at {when(kept.last_good_at, now).absolute}, there at {when(kept.taken_at, now).absolute}"
