"""examines one invariant through a look: counts its rows, judges them, and takes evidence of new ones"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from holdtrue.databases.looks import Answer, Examined, Look, Tracing
from holdtrue.ledger import NOTHING_BEFORE, Clock, Dispositions, KeyHasher, Past, Tally, judge
from holdtrue.model import (
    Column,
    Disposition,
    Evidence,
    Failure,
    FailureReason,
    Invariant,
    Outcome,
    Position,
    Returns,
    Row,
    Sample,
    Tallied,
)
from holdtrue.model.masking import excerpt, pseudonym

EVIDENCE_LIMIT = 20
_CELL_LIMIT = 4_000
_ROWS_LIMIT = 10_000
_SCANNED_LIMIT = 200_000
_NO_ROWS = Tallied(0, 0, 0, 0, {}, Sample((), ()), identified=False)

NeverSeen = Callable[[Tallied, bool], Sequence[str]]
"""``never_seen(tallied, complete)``: the keys of this run that no run returned before."""


def examine_invariant(
    look: Look,
    invariant: Invariant,
    *,
    hasher: KeyHasher,
    never_seen: NeverSeen | None = None,
    is_known: Callable[[str], bool] = lambda _key: False,
    past: Past = NOTHING_BEFORE,
    now: datetime | None = None,
    timezone: str = "UTC",
    evidence_limit: int = EVIDENCE_LIMIT,
    ask_population: bool = True,
    also: Callable[[tuple[Column, ...]], Callable[[Row, Disposition], None]] | None = None,
    since: Position | None = None,
) -> Examined:
    """Run the invariant's text once and judge what came (semantics 3.1, 3.4, 1.5).

    Evidence is taken, after the rows have ended, for at most ``evidence_limit`` keys that ``never_seen`` names (none
    without it); ``is_known`` tells while rows stream which keys need not be held ready for that. ``past``, ``now`` (the
    database's own if not given) and the database's ``timezone`` decide which rows settle and which are waived (semantics
    5.1). Writers of evidence are traced from ``since``, the newest good run, on. ``also`` sees every raw row and whether it
    counts, for a caller's own terminal alone.
    """
    moment = look.position.moment
    clock = Clock(now or moment, moment - (look.position.lag or timedelta(0)), ZoneInfo(timezone))
    tallies: list[Tally] = []
    candidates = _Candidates(invariant, hasher, is_known)
    limit = evidence_limit if never_seen is not None else 0

    def on_columns(columns: tuple[Column, ...]) -> Callable[[Row], None]:
        dispositions = None
        if invariant.returns is Returns.ROWS:
            dispositions = Dispositions(invariant, columns, hasher, past=past, clock=clock)
        tally = Tally(invariant, columns, hasher, safe_columns=look.safe_columns, dispositions=dispositions)
        tallies.append(tally)
        takers: list[Callable[[Row], None]] = [tally.add]
        if limit and invariant.returns is Returns.ROWS:
            takers.append(candidates.begin(columns, limit))
        if also is not None:
            seen = also(columns)
            takers.append(lambda row: seen(row, tally.last))
        return _all(takers)

    streamed = look.stream(invariant.sql, on_columns=on_columns, count_limit=invariant.count_limit)
    tallied = tallies[0].result() if tallies else None
    judgement = judge(invariant, tallied, failure=streamed.failure, complete=streamed.complete)
    examined = Examined(
        outcome=judgement.outcome,
        tallied=tallied if tallied is not None else _NO_ROWS,
        failure=judgement.failure,
        complete=judgement.complete,
        statement=streamed.statement,
        position=look.position,
    )
    if examined.outcome is Outcome.ERRORED:
        return examined
    if invariant.population is not None and ask_population and examined.tallied.returned == 0:
        return _with_population(look, invariant.population, examined)
    if invariant.returns is Returns.COUNT:
        if invariant.rows_sql is None or examined.outcome is not Outcome.VIOLATED:
            return examined
        as_rows = replace(invariant, returns=Returns.ROWS, sql=invariant.rows_sql)
        return _with_rows(look, as_rows, hasher, examined, never_seen=never_seen, limit=limit, since=since)
    if candidates.rows and never_seen is not None:
        wanted = never_seen(examined.tallied, examined.complete)
        return replace(examined, evidence=_evidence(look, invariant, hasher, candidates, wanted, since))
    return examined


def _all(takers: Sequence[Callable[[Row], None]]) -> Callable[[Row], None]:
    if len(takers) == 1:
        return takers[0]

    def take(row: Row) -> None:
        for one in takers:
            one(row)

    return take


class _Candidates:
    """Raw rows of the first keys that were not known before, held only until the run ends."""

    def __init__(self, invariant: Invariant, hasher: KeyHasher, is_known: Callable[[str], bool]) -> None:
        self.columns: tuple[Column, ...] = ()
        self.rows: dict[str, Row] = {}
        self._invariant = invariant
        self._hash = hasher.hash
        self._is_known = is_known
        self._limit = 0
        self._scanned = 0
        self._places: list[int] = []
        self._whole: frozenset[int] = frozenset()

    def begin(self, columns: tuple[Column, ...], limit: int) -> Callable[[Row], None]:
        """Take the rows of a result with these columns."""
        self.columns, self._limit, self._scanned = columns, limit, 0
        self.rows.clear()
        return self.take

    def _find_places(self) -> None:
        names = tuple(column.name for column in self.columns)
        key = self._invariant.key
        self._places = [names.index(name) for name in key] if all(name in names for name in key) else []
        needed = {ours for base in self._invariant.base_rows for _, ours in base.where}
        self._whole = frozenset(place for place, name in enumerate(names) if name in needed)

    def take(self, row: Row) -> None:
        if len(self.rows) >= self._limit or self._scanned >= _SCANNED_LIMIT:
            return
        if not self._scanned:
            # Not before there is a row: most runs have none.
            self._find_places()
        self._scanned += 1
        key = self._hash([row[place] for place in self._places] if self._places else row)
        if key not in self.rows and not self._is_known(key):
            # Huge cells are not held, but for those that find the base rows.
            self.rows[key] = tuple(
                value
                if value is None or len(value) <= _CELL_LIMIT or place in self._whole
                else excerpt(value, _CELL_LIMIT)
                for place, value in enumerate(row)
            )


def _evidence(  # noqa: PLR0917
    look: Look,
    invariant: Invariant,
    hasher: KeyHasher,
    candidates: _Candidates,
    wanted: Sequence[str],
    since: Position | None,
) -> tuple[Evidence, ...]:
    """Evidence of the candidates that are wanted; equal keys of one run (``…#2``) share their first row's."""
    keys = {key.partition("#")[0] for key in wanted}
    mask = evidence_mask(invariant, look.safe_columns, hasher)
    taken = tuple(
        look.evidence(
            key=key,
            columns=candidates.columns,
            row=row,
            base_rows=invariant.base_rows,
            reads=invariant.tables,
            mask=mask,
        )
        for key, row in candidates.rows.items()
        if key in keys
    )
    return _traced(look, taken, since) if taken and isinstance(look, Tracing) else taken


def _traced(look: Tracing, taken: Sequence[Evidence], since: Position | None) -> tuple[Evidence, ...]:
    """The writers of all of it traced at once, as soon as they are met: a server's log is kept for hours at most."""
    begins = int(since.snapshot.partition(":")[0] or 0) if since is not None else 0
    writers = [{row.xid for row in one.rows if row.xid is not None and row.xid >= begins} for one in taken]
    found = look.traces(frozenset[int]().union(*writers), since)
    return tuple(
        replace(one, traces=replace(found, writers=tuple(writer for writer in found.writers if writer.xid in own)))
        for one, own in zip(taken, writers, strict=True)
    )


def evidence_mask(
    invariant: Invariant, cap: frozenset[str] | None, hasher: KeyHasher
) -> Callable[[str, str, str, str | None], str | None]:
    """What may leave of a cell of evidence: itself if its column is safe, else a stand-in of its type (semantics 4.4).

    Stand-ins are equal for equal values in every table and in every run, so that rows taken at different times still fit
    together; the export draws new ones. With an empty table name the column is one of the result.
    """
    safe = invariant.safe_within(cap)
    secret = hasher.digest(b"evidence")

    def mask(table: str, column: str, type_name: str, value: str | None) -> str | None:
        if value is None:
            return None
        if (f"{table}.{column}" if table else column) in safe:
            return value
        stand_in = pseudonym(value, type_name, secret)
        return hasher.mask(value) if stand_in is None and not table else stand_in

    return mask


def _with_population(look: Look, population: str, examined: Examined) -> Examined:
    """Nothing was found: was there anything to find it in? One number, or rows; 0 or none is vacuous (semantics 3.1)."""
    answer = look.ask(population, limit=2)
    if isinstance(answer, Failure):
        sentence = f"population could not be asked: {answer.sentence}"
        failure = Failure(FailureReason.POPULATION, sentence, answer.sqlstate, answer.position, answer.raw)
        return replace(examined, outcome=Outcome.ERRORED, failure=failure)
    if is_populated(answer):
        return replace(examined, populated=True, population=_number_of(answer))
    failure = Failure(FailureReason.VACUOUS, "vacuous: the population is empty, so that nothing could break the rule")
    return replace(examined, outcome=Outcome.ERRORED, failure=failure)


def is_populated(answer: Answer) -> bool:
    """Whether an answer to ``population`` says that there is something: a number above 0, or any rows.

    One row with one cell is a number if it reads as one; NULL, 0 and a boolean that is false say that there is nothing.
    """
    if len(answer.rows) != 1 or len(answer.columns) != 1 or answer.more:
        return bool(answer.rows)
    cell = answer.rows[0][0]
    if cell is None or _is_false(answer.columns[0], cell):
        return False
    try:
        return float(cell) != 0
    except ValueError:
        return True


def _is_false(column: Column, cell: str) -> bool:
    """``SELECT EXISTS (…)`` has a row whatever the data; not every driver tells a type."""
    return (column.type_name in ("bool", "boolean") and cell in ("f", "false")) or (
        not column.type_name and cell == "false"
    )


def _number_of(answer: Answer) -> int | None:
    """The number that ``population`` answered with; None where it was rows."""
    if len(answer.rows) != 1 or len(answer.columns) != 1 or answer.more:
        return None
    cell = answer.rows[0][0] or ""
    return int(cell) if cell.isascii() and cell.isdigit() and len(cell) < 19 else None


def _with_rows(
    look: Look,
    as_rows: Invariant,
    hasher: KeyHasher,
    examined: Examined,
    *,
    never_seen: NeverSeen | None,
    limit: int,
    since: Position | None,
) -> Examined:
    """The rows behind a count: they give the sample and evidence, and never change the count (semantics 3.1, 9.1)."""
    answer = look.ask(as_rows.sql, limit=_ROWS_LIMIT)
    if isinstance(answer, Failure):
        return replace(examined, rows_note=f"rows_sql could not be asked: {answer.sentence}")
    tally = Tally(as_rows, answer.columns, hasher, safe_columns=look.safe_columns)
    candidates = _Candidates(as_rows, hasher, lambda _key: False)
    take = _all([tally.add, candidates.begin(answer.columns, limit)])
    for row in answer.rows:
        take(row)
    rows = tally.result()
    if rows.shape is not None:
        return replace(examined, rows_note=f"rows_sql: {rows.shape.sentence}")
    note = ""
    if rows.returned != examined.tallied.counted or answer.more:
        found = f"at least {rows.returned}" if answer.more else f"{rows.returned}"
        note = f"rows_sql disagrees: it returned {found} rows where the text counted {examined.tallied.counted}"
    evidence: tuple[Evidence, ...] = ()
    if limit and never_seen is not None:
        evidence = _evidence(look, as_rows, hasher, candidates, never_seen(rows, not answer.more), since)
    return replace(examined, tallied=replace(examined.tallied, sample=rows.sample), evidence=evidence, rows_note=note)
