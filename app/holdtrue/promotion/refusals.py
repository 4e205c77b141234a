"""decides what cannot become a ticket, and which lines would make it one"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdtrue.catalog import unsafe_columns
from holdtrue.catalog.pasting import pasted, safe_columns_line
from holdtrue.errors import PromotionRefused
from holdtrue.model import Invariant, Returns
from holdtrue.store.records import AlertDetail, KeptEvidence

_IN_FORCE: Final = "the catalog in force must have it (reload: SIGHUP or POST /-/reload, with the token or its Origin)"
NEXT: Final = "the next new violation, of another key or in another alert, is kept as it is"


def check_promotable(
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
    captured = captured_columns(detail)
    unsafe = unsafe_columns(
        sorted(captured) if computed is None else computed, captured.__contains__, invariant.safe_within(cap)
    )
    if unsafe:
        capped = [name for name in unsafe if invariant.is_safe(name)]
        where = f"; and to safe_columns of the database: [{', '.join(map(pasted, capped))}]" if capped else ""
        how = "computes with" if computed is not None else "cannot be inspected, and may compute with"
        raise PromotionRefused(
            f"{invariant.name} {how} columns that are not declared safe, and stand-ins would change what it finds",
            remedy=f"if they hold nothing personal, add to it: {safe_columns_line(unsafe, 500)}{where}; "
            f"{_IN_FORCE}, and {NEXT}",
        )


def captured_columns(detail: AlertDetail) -> frozenset[str]:
    """The table columns that were kept (``refunds.state``)."""
    # Evidence writes a table with its schema only where the search path does not reach; the text may do either.
    return frozenset(
        f"{row.table.rpartition('.')[2]}.{name}"
        for one in detail.evidence
        for row in one.evidence.rows
        for name in row.columns
    )


def as_captured(computed: Sequence[str], captured: frozenset[str]) -> tuple[str, ...]:
    """The names that the text computes with, written as the database writes them: SQLite and MariaDB ignore their case."""
    written = {name.casefold(): name for name in captured}
    return tuple(name if name in captured else written.get(name.casefold(), name) for name in computed)


def as_they_were(invariant: Invariant, detail: AlertDetail, computed: Sequence[str] | None) -> tuple[KeptEvidence, ...]:
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
            remedy=f"declaring a column safe does not bring its values back; {NEXT}: promote that one",
        )
    return tuple(whole)
