"""asks the former and the edited form of an invariant side by side, in one snapshot (diff)"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from holdtrue.catalog import nearest
from holdtrue.databases import Databases, Look, examine_invariant
from holdtrue.errors import NotFound, Refused
from holdtrue.inspection.differences import Difference, Side, difference
from holdtrue.ledger import KeyHasher
from holdtrue.model import Catalog, DatabaseConfig, Dialect, Failure, Invariant, Position


@dataclass(frozen=True, slots=True)
class Pair:
    """The two forms of one invariant; one of them may not be there, and ``note`` says what became of it."""

    former: Invariant | None
    edited: Invariant | None
    note: str = ""

    @property
    def name(self) -> str:
        """What it is called now, or was."""
        one = self.edited or self.former
        return one.name if one is not None else ""

    @property
    def databases(self) -> tuple[str, ...]:
        """Where either is asked."""
        both = [*(self.edited.databases if self.edited else ()), *(self.former.databases if self.former else ())]
        return tuple(dict.fromkeys(both))


@dataclass(frozen=True, slots=True)
class Compared:
    """Both forms on one database.

    ``together`` is False where one failed and the other was asked apart from it; ``one_snapshot`` also where nobody knows
    whether a transaction of this kind of database sees one.
    """

    database: str
    former: Side | None
    edited: Side | None
    together: bool
    one_snapshot: bool
    duration: timedelta
    difference: Difference

    @property
    def position(self) -> Position | None:
        """Where the replica stood."""
        for side in (self.edited, self.former):
            if side is not None and side.examined is not None:
                return side.examined.position
        return None


def pair_of(name: str, former: Catalog, edited: Catalog, label: str) -> Pair:
    """Both forms of an invariant by its name, now or then.

    Raises:
        NotFound: neither has one of this name.
    """
    now = edited.invariant(name) or next((one for one in edited.invariants if one.renamed_from == name), None)
    if now is not None:
        then = former.invariant(now.name)
        if then is None and now.renamed_from is not None:
            then = former.invariant(now.renamed_from)
            if then is not None:
                return Pair(then, now, f"renamed: it was {then.name} at {label}")
        return Pair(then, now, "" if then is not None else f"new: {label} has no invariant of this name")
    then = former.invariant(name)
    if then is None:
        known = {one.name for one in (*edited.invariants, *former.invariants)}
        meant = nearest(name, known)
        raise NotFound(
            f"there is no invariant {name!r} here nor at {label}", remedy=f"did you mean {meant!r}?" if meant else ""
        )
    return Pair(then, None, f"removed: the catalog has it no more, {label} has")


def databases_of(pair: Pair, edited: Catalog, wanted: str | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The databases to ask both forms of, and those that left the catalog and cannot be asked any more.

    Raises:
        Refused: neither form is asked of the one that is wanted.
    """
    if wanted is not None and wanted not in pair.databases:
        raise Refused(f"{pair.name} is not asked of {wanted}", remedy=f"its databases: {', '.join(pair.databases)}")
    chosen = (wanted,) if wanted is not None else pair.databases
    there = {one.name for one in edited.config.databases}
    return tuple(one for one in chosen if one in there), tuple(one for one in chosen if one not in there)


def diff_now(databases: Databases, pair: Pair, config: DatabaseConfig, hasher: KeyHasher) -> Compared:
    """Ask both forms in one look, so that they see the same rows; nothing is saved.

    Where the first one fails, its transaction may be of no use any more: the other is then asked in a look of its own.
    """
    database, timezone = config.name, config.timezone
    forms = _forms(pair, database)
    limit = max(one.timeout for one in forms)

    def examine(look: Look) -> tuple[Side, ...]:
        sides: list[Side] = []
        for one in forms:
            if all(side.failure is None for side in sides):
                found = examine_invariant(look, one, hasher=hasher, timezone=timezone, ask_population=False)
                sides.append(Side(one, found, found.failure))
        return tuple(sides)

    started = time.monotonic()
    answer = databases.look(database, time_limit=limit, newest_good=None, examine=examine)
    sides = tuple(Side(one, None, answer) for one in forms) if isinstance(answer, Failure) else answer
    together = len(sides) == len(forms)
    if not together:
        sides = (*sides, _alone(databases, forms[-1], database, hasher, timezone))
    former = sides[0] if pair.former is not None and database in pair.former.databases else None
    edited = sides[-1] if pair.edited is not None and database in pair.edited.databases else None
    return Compared(
        database,
        former,
        edited,
        together,
        together and config.dialect is not Dialect.OTHER,
        timedelta(seconds=time.monotonic() - started),
        difference(former, edited),
    )


def _alone(databases: Databases, one: Invariant, database: str, hasher: KeyHasher, timezone: str) -> Side:
    answer = databases.look(
        database,
        time_limit=one.timeout,
        newest_good=None,
        examine=lambda look: examine_invariant(look, one, hasher=hasher, timezone=timezone, ask_population=False),
    )
    if isinstance(answer, Failure):
        return Side(one, None, answer)
    return Side(one, answer, answer.failure)


def _forms(pair: Pair, database: str) -> Sequence[Invariant]:
    """The forms that are asked of a database, the former one first; what either hides, both hide."""
    there = [one for one in (pair.former, pair.edited) if one is not None and database in one.databases]
    safe = frozenset.intersection(*(one.columns for one in there))
    # The rows behind a number change no count, and no count is what they are asked for here.
    return [replace(one, columns=safe, rows_sql=None) for one in there]
