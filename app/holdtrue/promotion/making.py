"""makes the ticket of an alert: refuses, chooses a violation, tries it on a scratch database, writes the files"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from holdtrue.catalog import computed_columns, inspect_sql
from holdtrue.errors import PromotionRefused
from holdtrue.model import (
    Catalog,
    DatabaseConfig,
    Dialect,
    Incident,
    Invariant,
    NearDeploy,
    Subject,
    Ticket,
    Window,
)
from holdtrue.promotion.choosing import About, Chosen, candidates
from holdtrue.promotion.drafts import Draft
from holdtrue.promotion.proving import first_that_breaks
from holdtrue.promotion.refusals import as_captured, as_they_were, captured_columns, check_promotable
from holdtrue.rehearsal import Rehearse, Rehearsed
from holdtrue.scaffolding import (
    PLAIN,
    Extra,
    TicketContext,
    Wanted,
    recognise,
    render,
    render_extras,
    ticket_id,
    writers_of,
)
from holdtrue.scaffolding.isolation_spec import why_no_spec
from holdtrue.store import Store
from holdtrue.store.records import AlertDetail
from holdtrue.testing.clocks import what_moves, what_stays

Beside = Callable[[Window], tuple[NearDeploy, ...] | None]
"""The deploys beside a window, the latest first; None where nobody ever told of one."""
_ENGINES = frozenset({Dialect.POSTGRESQL, Dialect.MYSQL, Dialect.SQLITE})


class Rehearsal(Protocol):
    """Where a frozen incident is tried before it leaves: scratch databases, and no monitored one."""

    def begin(self) -> AbstractContextManager[Rehearse]:
        """What tries incidents, for the length of a block."""
        ...


def promote(
    store: Store,
    catalog: Catalog,
    alert_id: int,
    *,
    by: str,
    now: datetime,
    rehearsal: Rehearsal,
    wanted: Wanted = PLAIN,
) -> Ticket:
    """Make a ticket of an alert, from what its runs kept; no monitored database is asked (semantics 9.1).

    Keeps ticket and audit line. The ticket has no draft: what was not previewed has a salt that nobody can have.

    Raises:
        NotFound: no alert has this number.
        PromotionRefused: the alert cannot become a ticket as it is; the remedy says what to add.
        NotTried: nobody could try the rows, and they are not wanted untried.
    """
    wanted = replace(wanted, to_try=False)
    ticket = preview(store, catalog, alert_id, by=by, now=now, rehearsal=rehearsal, wanted=wanted)
    store.tickets.add(ticket)
    return replace(ticket, draft="")


def preview(
    store: Store,
    catalog: Catalog,
    alert_id: int,
    *,
    by: str,
    now: datetime,
    rehearsal: Rehearsal,
    wanted: Wanted = PLAIN,
) -> Ticket:
    """Exactly the files that would leave, keeping nothing; the ticket's ``draft`` makes the same ones again.

    Raises:
        NotFound: no alert has this number.
        PromotionRefused: the alert cannot become a ticket as it is; the remedy says what to add.
        NotTried: nobody could try the rows, and they are not wanted untried.
    """
    chosen = Draft.read(wanted.draft, now) if wanted.draft else Draft.new(now)
    detail = store.alerts.get(alert_id)

    def beside(window: Window) -> tuple[NearDeploy, ...] | None:
        """What was known when the draft was made: with it, the same files are made whatever is told since."""
        return store.deploys.beside(window, told_by=chosen.at)

    return make_ticket(detail, catalog, by=by, draft=chosen, rehearsal=rehearsal, beside=beside, wanted=wanted)


def make_ticket(
    detail: AlertDetail,
    catalog: Catalog,
    *,
    by: str,
    draft: Draft,
    rehearsal: Rehearsal,
    beside: Beside,
    wanted: Wanted = PLAIN,
) -> Ticket:
    """The ticket of an alert; the same one whenever ``draft`` is the same and the incident does the same when it is tried.

    ``beside`` tells the deploys beside the window of what is chosen.

    Raises:
        PromotionRefused: the alert cannot become a ticket as it is; the remedy says what to add.
        NotTried: nobody could try the rows, and they are not wanted untried.
    """
    episode = detail.episode
    invariant = catalog.invariant(episode.invariant)
    database = catalog.database(episode.database)
    if episode.subject is not Subject.VIOLATION:
        about = "not being able to look" if episode.subject is Subject.HEALTH else "a waiver that ends"
        raise PromotionRefused(f"alert {episode.id} is about {about}, not about rows", remedy="promote a violation")
    if episode.canary:
        raise PromotionRefused(
            f"alert {episode.id} is a round of the canary, and nothing is violated", remedy="promote a violation"
        )
    if invariant is None or database is None:
        raise PromotionRefused(
            f"{episode.invariant} on {episode.database} has left the catalog",
            remedy="put it back under its name, reload, and promote again",
        )
    if database.dialect not in _ENGINES:
        raise PromotionRefused(
            f"{database.name} is {database.dialect}, and a barrier test there is not offered: an incident is replayed on"
            " its own kind of database only",
            remedy="work from the alert's page, which has the rows behind the violation and their parents",
        )
    computed = as_captured(computed_columns(invariant.sql, database.dialect), captured_columns(detail))
    parsed = inspect_sql(invariant.sql, database.dialect).parsed
    decisive = computed if parsed else None
    check_promotable(invariant, detail, decisive, database.safe_columns)
    whole = as_they_were(invariant, detail, decisive)
    made = [
        (_incident(one, invariant, database, episode.id), one)
        for one in candidates(whole, About(invariant, database, computed, draft.salt_of(episode.id)))
    ]
    with rehearsal.begin() as rehearse:
        (incident, chosen), rehearsed, tried = first_that_breaks(
            made, invariant, database, rehearse, wanted=wanted, alert=episode.id
        )
    context = _context(
        detail,
        catalog,
        invariant,
        chosen,
        rehearsed,
        incident=incident,
        database=database,
        by=by,
        at=draft.at,
        beside=beside,
    )
    reason = why_no_spec(incident, context) if Extra.SPEC in wanted.also else ""
    if reason:
        raise PromotionRefused(reason, remedy="promote without the spec")
    files = tuple(sorted({**render(incident, context), **render_extras(incident, context, wanted.also)}.items()))
    return Ticket(incident.id, episode.id, invariant.name, episode.database, draft.at, by, files, draft.code, tried)


def _incident(chosen: Chosen, invariant: Invariant, database: DatabaseConfig, alert: int) -> Incident:
    return Incident(
        id=ticket_id(invariant.name, alert),
        invariant=invariant.name,
        database=database.name,
        engine=database.dialect.value,
        sql=invariant.sql,
        returns=invariant.returns.value,
        seed=chosen.assembled.seed,
        observed=chosen.assembled.observed,
        pattern=recognise(invariant.sql).value,
        marked=chosen.assembled.marked,
        incident_now=chosen.kept.evidence.position.moment.isoformat(),
    )


def _context(
    detail: AlertDetail,
    catalog: Catalog,
    invariant: Invariant,
    chosen: Chosen,
    rehearsed: Rehearsed,
    *,
    incident: Incident,
    database: DatabaseConfig,
    by: str,
    at: datetime,
    beside: Beside,
) -> TicketContext:
    episode, taken = detail.episode, chosen.kept.evidence
    return TicketContext(
        alert=episode.id,
        created_at=at,
        created_by=by,
        description=invariant.description,
        severity=episode.severity,
        owner=episode.owner,
        assumes=invariant.assumes,
        operation=invariant.operation or "",
        page_url=_page(catalog, episode.id),
        first_bad=taken.position,
        first_bad_at=chosen.kept.taken_at,
        last_good=chosen.kept.last_good,
        last_good_at=chosen.kept.last_good_at,
        split=chosen.assembled.split,
        writers=writers_of(chosen.assembled.written),
        traces=taken.traces,
        definition=invariant.definition,
        generation=detail.first_run.generation if detail.first_run is not None else 0,
        deploys=beside(Window(chosen.kept.last_good_at, chosen.kept.taken_at)),
        masked=chosen.masked,
        schema_sql=taken.schema_sql,
        moves=what_moves(incident),
        stays=what_stays(incident),
        timezone=database.timezone,
        search_path=database.search_path or "",
        left_out=taken.left_out,
        incomplete=taken.incomplete,
        keys=len(detail.evidence),
        rehearsed=rehearsed.finding.value,
        rehearsed_how=rehearsed.sentence,
        lost=rehearsed.lost,
    )


def _page(catalog: Catalog, alert: int) -> str:
    return f"{catalog.config.external_url.rstrip('/')}/alerts/{alert}" if catalog.config.external_url else ""
