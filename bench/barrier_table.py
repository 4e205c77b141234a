"""Play every bug, right fix and wrong fix many times and print what each schedule found.

    python bench/barrier_table.py [--repeats 50]

Prints a Markdown table: per code, in how many of the repeats the rule was broken under each schedule, how many different
traces each schedule had at most, and the median time of a schedule with the database set back before it. Exit code 1 if any
cell is neither 0 nor all, or a schedule had two traces, or a right fix broke the rule, or a wrong one never did.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import Engine

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from holdtrue.testing import BarrierDatabase, Race
from holdtrue.testing.barrier_databases import BarrierServer
from holdtrue.testing.plans import Schedule
from holdtrue.testing.policies import Hold, Step
from holdtrue.testing.rules import Rule
from holdtrue.testing.verdicts import Verdict
from racy import duplicate, lost_update, schema

Code = Callable[[Engine], None]


def measure(code: Code, sql: str, database: BarrierDatabase, repeats: int) -> tuple[list[int], int, float]:
    """How often each boundary broke the rule, the most traces of one schedule, and the median milliseconds."""
    broken: dict[int, int] = defaultdict(int)
    traces: dict[int, set[object]] = defaultdict(set)
    times: list[float] = []
    database.control.keep_baseline()
    for _ in range(repeats):
        race = Race(
            works=dict.fromkeys("AB", lambda: code(database.engine)),
            rule=Rule("rule", sql),
            set_back=database.control.set_back,
            control=database.control,
            expected=database.sqlalchemy_url,
        )
        for number in range(1, 100):
            policy = Hold("A", Step(number), ("B",))
            started = time.perf_counter()
            one = race.play_one(Schedule(f"A{number}", "", policy))
            if not policy.reached:
                break
            times.append((time.perf_counter() - started) * 1000)
            broken[number] += one.verdict is Verdict.VIOLATED
            traces[number].add(one.played.lines)
    database.control.set_back()
    return [broken[number] for number in sorted(traces)], max(map(len, traces.values())), statistics.median(times)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=50)
    repeats = parser.parse_args().repeats
    server = BarrierServer()
    plain = BarrierDatabase("postgresql", schema.build, server.url)
    unique = BarrierDatabase("postgresql", schema.build_unique, server.url)
    rows: list[tuple[str, Code, str, bool]] = [
        *(("duplicate", code, schema.ONE_SETTLED, True) for code in duplicate.RIGHT),
        *(("duplicate", code, schema.ONE_SETTLED, False) for code in duplicate.WRONG),
        *(("lost update", code, schema.BALANCE, True) for code in lost_update.RIGHT),
        *(("lost update", code, schema.BALANCE, False) for code in lost_update.WRONG),
    ]
    wrong = 0
    print(f"| bug | code | broken of {repeats}, per boundary | traces | median ms |\n|---|---|---|---|---|")
    try:
        for bug, code, sql, right in rows:
            database = unique if code in duplicate.NEEDS_UNIQUE else plain
            cells, most, median = measure(code, sql, database, repeats)
            clean = all(cell in (0, repeats) for cell in cells) and most == 1 and any(cells) is not right
            wrong += not clean
            shown = ", ".join(map(str, cells))
            print(
                f"| {bug} | {code.__name__} | {shown} | {most} | {median:.1f} |{'' if clean else ' NOT AS IT MUST BE'}"
            )
    finally:
        plain.close()
        unique.close()
        server.close()
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
