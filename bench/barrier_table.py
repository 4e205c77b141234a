"""Play every bug, right fix and wrong fix many times and print what each schedule found.

    python bench/barrier_table.py [--repeats 50] [--free 300]

Prints a Markdown table: per code, in how many of the repeats the rule was broken at each boundary of A, then of B, how many
different traces a boundary had at most, and the median time of a schedule with the database set back before it. Below it, how
often the two bugs show without a scheduler: two threads behind one ``threading.Barrier``, and a second call 5 ms after the
first. Exit code 1 if any cell is not as the table of the tests says, or a boundary had two traces.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from holding import Cell, hold_at_every_boundary, setting_back
from holdtrue.testing import BarrierDatabase, Limits
from holdtrue.testing.barrier_databases import BarrierServer
from racy import schema, table

LATER = 0.005


def shown(row: table.Row, cells: dict[str, list[Cell]], repeats: int) -> tuple[str, bool]:
    """The row of the table, and whether it is as it must be."""
    every = [cell for of_role in cells.values() for cell in of_role]
    broken = "; ".join(f"{role} " + ", ".join(str(cell.broken) for cell in found) for role, found in cells.items())
    most = max(len(cell.traces) for cell in every)
    median = statistics.median(second for cell in every for second in cell.seconds) * 1000
    expected = [repeats * one for one in row.broken]
    right = all([cell.broken for cell in found] == expected for found in cells.values())
    verdicts = "/".join(sorted({verdict for cell in every for verdict in cell.verdicts}))
    right = right and (most == 1 or row is table.STALLED)
    note = "" if right else " NOT AS IT MUST BE"
    return f"| {row} | {broken} | {verdicts} | {most} | {median:.1f} |{note}", right


def free_running(
    row: table.Row, database: BarrierDatabase, set_back: Callable[[], None], runs: int, later: bool
) -> int:
    """In how many of the runs two plain threads break the rule."""
    broken = 0
    for _ in range(runs):
        set_back()
        start = threading.Barrier(2)

        def call(start: threading.Barrier, wait: float) -> None:
            start.wait()
            time.sleep(wait)
            row.code(database.engine)

        threads = [threading.Thread(target=call, args=(start, LATER * number * later)) for number in range(2)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        broken += bool(database.control.ask(row.rule))
    return broken


def main() -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=50)
    parser.add_argument("--free", type=int, default=300)
    options = parser.parse_args()
    server = BarrierServer()
    plain = BarrierDatabase("postgresql", schema.build, server.url)
    unique = BarrierDatabase("postgresql", schema.build_unique, server.url)
    wrong = 0
    try:
        with setting_back(plain) as back_plain, setting_back(unique) as back_unique:
            print(f"| code | broken of {options.repeats}, per boundary | verdicts | traces | median ms |")
            print("|---|---|---|---|---|")
            for row in (*table.BUGS, *table.RIGHT, *table.WRONG, table.STALLED):
                stand = (unique, back_unique) if row.unique else (plain, back_plain)
                limits = Limits(stall=0.02) if row is table.STALLED else None
                cells = {
                    role: hold_at_every_boundary(row, *stand, role=role, repeats=options.repeats, limits=limits)
                    for role in "AB"
                }
                line, right = shown(row, cells, options.repeats)
                wrong += not right
                print(line, flush=True)
            print(f"\n| bug, no scheduler | behind a threading.Barrier | second call {LATER * 1000:g} ms later |")
            print("|---|---|---|")
            for row in table.BUGS:
                rates = [free_running(row, plain, back_plain, options.free, later) for later in (False, True)]
                print(f"| {row} | " + " | ".join(f"{rate} of {options.free}" for rate in rates) + " |", flush=True)
    finally:
        plain.close()
        unique.close()
        server.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
