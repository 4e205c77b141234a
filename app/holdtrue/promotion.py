"""turns an alert into a ticket: takes its evidence, writes the scaffold, owes the tracker a message"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from holdtrue.catalog import computed_columns, inspect_sql, unsafe_columns
from holdtrue.errors import PromotionRefused
from holdtrue.model import Catalog, Dialect, EvidenceRow, Incident, Invariant, Returns, Subject, Ticket
from holdtrue.model.masking import pseudonym
from holdtrue.scaffolding import Assembled, TicketContext, Writer, assemble, recognise, render, ticket_id
from holdtrue.scaffolding.contexts import prove_overlap
from holdtrue.store import Store
from holdtrue.store.records import AlertDetail, KeptEvidence

_SALT_BYTES = 32
_ENGINES = frozenset({Dialect.POSTGRESQL, Dialect.SQLITE})
_IN_FORCE = "the catalog in force must have it (reload: SIGHUP or POST /-/reload)"
_NEXT = "the next new violation, of another key or in another alert, is kept as it is"
_DECLARED = re.compile(r"char[^(]*\((\d+)\)")


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The violation that the scaffold is about: the one whose rows tell most, with its rows put in place."""

    kept: KeptEvidence
    rows: tuple[EvidenceRow, ...]
    assembled: Assembled
    masked: tuple[str, ...]


def promote(store: Store, catalog: Catalog, alert_id: int, *, by: str, now: datetime) -> Ticket:
    """Make a ticket of an alert, from what its runs kept; no database is asked (semantics 9.1). Keeps ticket and audit line.

    Raises:
        NotFound: no alert has this number.
        PromotionRefused: the alert cannot become a ticket as it is; the remedy says what to add.
    """
    ticket = preview(store, catalog, alert_id, by=by, now=now)
    store.tickets.add(ticket)
    return ticket


def preview(store: Store, catalog: Catalog, alert_id: int, *, by: str, now: datetime) -> Ticket:
    """Exactly the files that would leave, keeping nothing.

    Raises:
        NotFound: no alert has this number.
        PromotionRefused: the alert cannot become a ticket as it is; the remedy says what to add.
    """
    return make_ticket(store.alerts.get(alert_id), catalog, by=by, now=now, salt=secrets.token_bytes(_SALT_BYTES))


def make_ticket(detail: AlertDetail, catalog: Catalog, *, by: str, now: datetime, salt: bytes) -> Ticket:
    """The ticket of an alert. Pure; ``salt`` is thrown away by the caller, so that no stand-in can be traced back.

    Raises:
        PromotionRefused: the alert cannot become a ticket as it is; the remedy says what to add.
    """
    episode = detail.episode
    invariant = catalog.invariant(episode.invariant)
    database = catalog.database(episode.database)
    if episode.subject is not Subject.VIOLATION:
        about = "not being able to look" if episode.subject is Subject.HEALTH else "a waiver that ends"
        raise PromotionRefused(f"alert {episode.id} is about {about}, not about rows", remedy="promote a violation")
    if invariant is None or database is None:
        raise PromotionRefused(
            f"{episode.invariant} on {episode.database} has left the catalog",
            remedy="put it back under its name, reload, and promote again",
        )
    if database.dialect not in _ENGINES:
        raise PromotionRefused(
            f"{database.name} is {database.dialect}, and a barrier test there is not offered: no row says which transaction"
            " wrote it, and an incident is replayed on its own kind of database only",
            remedy="work from the alert's page, which has the rows behind the violation and their parents",
        )
    computed = _as_captured(computed_columns(invariant.sql, database.dialect), _captured(detail))
    parsed = inspect_sql(invariant.sql, database.dialect).parsed
    decisive = computed if parsed else None
    _check_promotable(invariant, detail, decisive, database.safe_columns)
    chosen = _choose(_as_they_were(invariant, detail, decisive), invariant, computed, salt)
    identity = ticket_id(invariant.name, episode.id)
    taken = chosen.kept.evidence
    incident = Incident(
        id=identity,
        invariant=invariant.name,
        database=episode.database,
        engine=database.dialect.value,
        sql=invariant.sql,
        returns=invariant.returns.value,
        seed=chosen.assembled.seed,
        observed=chosen.assembled.observed,
        pattern=recognise(invariant.sql).value,
        marked=chosen.assembled.marked,
        incident_now=taken.position.moment.isoformat(),
    )
    writers = _writers(chosen.assembled.written)
    context = TicketContext(
        alert=episode.id,
        created_at=now,
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
        writers=writers,
        overlap=prove_overlap(writers),
        masked=chosen.masked,
        schema_sql=taken.schema_sql,
        left_out=taken.left_out,
        incomplete=taken.incomplete,
        keys=len(detail.evidence),
    )
    files = tuple(sorted(render(incident, context).items()))
    return Ticket(identity, episode.id, invariant.name, episode.database, now, by, files)


def _check_promotable(
    invariant: Invariant, detail: AlertDetail, computed: Sequence[str] | None, cap: frozenset[str] | None
) -> None:
    """Refuse what cannot become a ticket; ``computed`` is None where nobody can tell with which columns the text computes."""
    if detail.first_run is not None and detail.first_run.definition != invariant.definition:
        raise PromotionRefused(
            f"{invariant.name} has another definition than when alert {detail.episode.id} opened, and its rows were taken"
            " under the former one",
            remedy="promote from the catalog as it was then, or the next violation under the new definition",
        )
    if invariant.returns is Returns.COUNT and invariant.rows_sql is None:
        raise PromotionRefused(
            f"{invariant.name} returns: count, and a number has no rows to keep",
            remedy="add to it: rows_sql: SELECT … (the rows that the number counts), with key: and base_rows:; "
            + _IN_FORCE,
        )
    if not invariant.base_rows:
        raise PromotionRefused(
            f"{invariant.name} does not say which rows stand behind a violation",
            remedy="add to it: base_rows: [{table: …, where: {column of the table: column of the violation}}]; "
            + _IN_FORCE,
        )
    if not any(one.evidence.rows for one in detail.evidence):
        reasons = sorted({one.evidence.incomplete for one in detail.evidence if one.evidence.incomplete})
        why = f": {'; '.join(reasons)}" if reasons else ", or it was kept too long ago"
        raise PromotionRefused(
            f"no rows were kept for alert {detail.episode.id}{why}",
            remedy="rows are kept by the first run that returns a key; they will be for the next violation",
        )
    captured = _captured(detail)
    unsafe = unsafe_columns(
        sorted(captured) if computed is None else computed, captured.__contains__, invariant.safe_within(cap)
    )
    if unsafe:
        capped = [name for name in unsafe if invariant.is_safe(name)]
        where = f"; and to safe_columns of the database: [{', '.join(capped)}]" if capped else ""
        lines = ", ".join(f"{one}: safe" for one in unsafe)
        how = "computes with" if computed is not None else "cannot be inspected, and may compute with"
        raise PromotionRefused(
            f"{invariant.name} {how} columns that are not declared safe, and stand-ins would change what it finds",
            remedy=f"if they hold nothing personal, add to it: columns: {{{lines}}}{where}; {_IN_FORCE}, and {_NEXT}",
        )


def _captured(detail: AlertDetail) -> frozenset[str]:
    """The table columns that were kept (``refunds.state``)."""
    # Evidence writes a table with its schema only where the search path does not reach; the text may do either.
    return frozenset(
        f"{row.table.rpartition('.')[2]}.{name}"
        for one in detail.evidence
        for row in one.evidence.rows
        for name in row.columns
    )


def _as_captured(computed: Sequence[str], captured: frozenset[str]) -> tuple[str, ...]:
    """The names that the text computes with, written as the database writes them: SQLite and MariaDB ignore their case."""
    written = {name.casefold(): name for name in captured}
    return tuple(name if name in captured else written.get(name.casefold(), name) for name in computed)


def _as_they_were(
    invariant: Invariant, detail: AlertDetail, computed: Sequence[str] | None
) -> tuple[KeptEvidence, ...]:
    """What was kept with the true values of every column that decides; a column may have been declared safe only since."""
    decides: dict[str, None] = {}
    whole: list[KeptEvidence] = []
    for one in detail.evidence:
        if not one.evidence.rows:
            continue
        stand_ins = {".".join(name.split(".")[-2:]) for name in one.evidence.pseudonymised}
        lost = sorted(stand_ins if computed is None else stand_ins.intersection(computed))
        decides.update(dict.fromkeys(lost))
        if not lost:
            whole.append(one)
    if not whole:
        raise PromotionRefused(
            f"stand-ins were kept for {', '.join(decides)} when the rows of alert {detail.episode.id} were taken, and"
            f" {invariant.name} computes with them: a test made of these rows could not break the rule",
            remedy=f"declaring a column safe does not bring its values back; {_NEXT}: promote that one",
        )
    return tuple(whole)


def _choose(kept: Sequence[KeptEvidence], invariant: Invariant, computed: Sequence[str], salt: bytes) -> _Chosen:
    """The violation with the most writers in its window, then the most complete one, then the first."""
    made = [_assembled(one, invariant, computed, salt) for one in kept if one.evidence.rows]

    def tells(one: _Chosen) -> tuple[int, int, int]:
        observed = sum(len(table.rows) for table in one.assembled.observed)
        return (len({row.xid for row in one.assembled.written}), -bool(one.kept.evidence.incomplete), min(observed, 2))

    return max(made, key=tells)


def _assembled(kept: KeptEvidence, invariant: Invariant, computed: Sequence[str], salt: bytes) -> _Chosen:
    evidence = kept.evidence
    hashed = frozenset(evidence.pseudonymised)
    rows = tuple(_stood_in(_as_base_row(row, invariant), hashed, salt) for row in evidence.rows)
    masked = tuple(
        sorted({f"{row.table}.{name}" for row in rows for name in row.columns if f"{row.table}.{name}" in hashed})
    )
    assembled = assemble(rows, kept.last_good, pattern=recognise(invariant.sql), sql=invariant.sql, computed=computed)
    assembled = replace(assembled, marked=(*assembled.marked, *_perhaps_older(evidence.rows, assembled)))
    return _Chosen(kept, rows, assembled, masked)


def _as_base_row(row: EvidenceRow, invariant: Invariant) -> EvidenceRow:
    """A declared base row that others refer to is a parent, unless the text reads its table: then it may be what broke it."""
    bare = row.table.rpartition(".")[2]
    declared = any(one.table.rpartition(".")[2] == bare for one in invariant.base_rows)
    read = any(one.rpartition(".")[2] == bare for one in invariant.tables)
    return replace(row, is_parent=False) if row.is_parent and declared and read else row


def _perhaps_older(kept: Sequence[EvidenceRow], assembled: Assembled) -> tuple[str, ...]:
    """Tables whose row others refer to and that is no part of the seed: the race may have updated it, not inserted it."""
    parents = {row.table for row in kept if row.is_parent}
    seeded = {one.table for one in assembled.seed}
    lacking = dict.fromkeys(one.table for one in assembled.observed if one.table in parents - seeded)
    return tuple(f"{table}: the seed has no row of it; insert it if it was there before the race" for table in lacking)


def _stood_in(row: EvidenceRow, hashed: frozenset[str], salt: bytes) -> EvidenceRow:
    """The row with fresh stand-ins for hashed columns: equal for equal values in every table, and of no use elsewhere."""
    types = row.types or ("",) * len(row.columns)
    return replace(
        row,
        values=tuple(
            pseudonym(value, type_name, salt, _length(type_name)) if f"{row.table}.{name}" in hashed else value
            for name, type_name, value in zip(row.columns, types, row.values, strict=True)
        ),
    )


def _length(type_name: str) -> int | None:
    found = _DECLARED.search(type_name)
    return int(found.group(1)) if found else None


def _writers(written: Sequence[EvidenceRow]) -> tuple[Writer, ...]:
    """Who wrote the observed rows, in the order in which they began; rows are named by table and place in ``observed``."""
    places: dict[str, int] = {}
    rows: dict[int | None, list[str]] = {}
    when: dict[int | None, datetime | None] = {}
    for row in written:
        place = places[row.table] = places.get(row.table, 0) + 1
        rows.setdefault(row.xid, []).append(f"{row.table} row {place}")
        when[row.xid] = row.committed_at
    if set(rows) == {None}:
        return tuple(Writer(None, None, (name,)) for name in rows[None])
    ordered = sorted(rows, key=lambda xid: -1 if xid is None else xid)
    return tuple(Writer(xid, when[xid], tuple(rows[xid])) for xid in ordered)


def _page(catalog: Catalog, alert: int) -> str:
    return f"{catalog.config.external_url.rstrip('/')}/alerts/{alert}" if catalog.config.external_url else ""
