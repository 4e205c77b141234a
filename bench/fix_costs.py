"""What each right fix of the two bugs costs: how long locks are held with nobody in the way, and how long the other one waits.

    python bench/fix_costs.py [--repeats 20]

Prints a Markdown table of medians in milliseconds: locks held by one call alone (schedule AB), and the longest wait and the
longest time of locks in the whole sweep. A wait has what the scheduler needs to notice it in it, 5 to 10 ms.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from holding import setting_back
from holdtrue.testing import BarrierDatabase, race
from holdtrue.testing.barrier_databases import BarrierServer
from racy import schema, table


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20)
    repeats = parser.parse_args().repeats
    server = BarrierServer()
    plain = BarrierDatabase("postgresql", schema.build, server.url)
    unique = BarrierDatabase("postgresql", schema.build_unique, server.url)
    try:
        with setting_back(plain) as back_plain, setting_back(unique) as back_unique:
            print("| code | locks held alone | longest wait | longest locks |\n|---|---|---|---|")
            for row in (*table.BUGS, *table.RIGHT):
                database, set_back = (unique, back_unique) if row.unique else (plain, back_plain)

                def run(database: BarrierDatabase = database, row: table.Row = row) -> None:
                    row.code(database.engine)

                found = []
                for _ in range(repeats):
                    costs = race(a=run, b=run, invariant=row.rule, db=database, reset=set_back).play().costs()
                    found.append((costs.schedules["AB"]["A"].held, costs.longest.waited, costs.longest.held))
                medians = (f"{statistics.median(column) * 1000:.1f}" for column in zip(*found, strict=True))
                print(f"| {row} | {' | '.join(medians)} |", flush=True)
    finally:
        plain.close()
        unique.close()
        server.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
