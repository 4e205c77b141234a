"""Holds a party at one boundary again and again, as the table of bugs and fixes asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

import psycopg

from holdtrue.testing import BarrierDatabase, Limits, Race, Verdict
from holdtrue.testing.plans import held
from holdtrue.testing.played import Line
from holdtrue.testing.rules import Rule
from racy.table import Row

SET_BACK = "DELETE FROM refunds; DELETE FROM credit_log; UPDATE accounts SET credit_balance_eur = 0, version = 0"


@dataclass
class Cell:
    """What came of one boundary; ``seconds`` of a schedule, with the database set back before it."""

    verdicts: list[Verdict] = field(default_factory=list)
    traces: set[tuple[Line, ...]] = field(default_factory=set)
    seconds: list[float] = field(default_factory=list)

    @property
    def broken(self) -> int:
        return self.verdicts.count(Verdict.VIOLATED)


@contextmanager
def setting_back(database: BarrierDatabase) -> Iterator[Callable[[], None]]:
    """What the parties of the table may change is set back by one message, which is quicker than what any schema needs."""
    with psycopg.connect(database.libpq_url, autocommit=True) as connection:

        def set_back() -> None:
            connection.execute(SET_BACK)

        yield set_back
        set_back()


def hold_at_every_boundary(
    row: Row, database: BarrierDatabase, set_back: Callable[[], None], *, role: str, repeats: int, limits: Limits | None
) -> list[Cell]:
    """A cell for each boundary that ``role`` has while the other party runs whole, each held so many times."""
    cells: list[Cell] = []
    race = Race(
        works=dict.fromkeys("AB", lambda: row.code(database.engine)),
        rule=Rule("rule", row.rule),
        set_back=set_back,
        control=database.control,
        expected=database.sqlalchemy_url,
        limits=limits or Limits(),
    )
    while True:
        cell = Cell()
        for _ in range(repeats):
            (schedule,) = held(role, "AB", None, len(cells) + 1)
            started = perf_counter()
            one = race.play_one(schedule)
            if not one.played.reached:
                return cells
            cell.seconds.append(perf_counter() - started)
            cell.verdicts.append(one.verdict)
            cell.traces.add(one.played.lines)
        cells.append(cell)
