"""How long the store takes to save healthy, unchanged runs, in microseconds a run.

    python bench/store_save.py [--runs 1000] [--batch 100] [--rounds 5] [--postgres]

Each round claims and saves the same entries again, so every span is lengthened and every ledger stays as it is: what a
service does nearly all of the time. The numbers are this machine's; compare only with numbers of the same minute.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from holdtrue.model import Claim, Decision, Health, Interval, Invariant, Outcome, Position, Run, Situation
from holdtrue.store import Entry, Finished, Store, open_store

EVERY = timedelta(minutes=15)
DATABASE = "payments"


def entries(count: int, now: datetime) -> list[Entry]:
    """Entries that are due a minute ago."""
    due = now - timedelta(minutes=1)
    return [Entry(f"rule_{n}", DATABASE, "d1", "every 900s", due, due + EVERY) for n in range(count)]


def decide(finished: Finished, situation: Situation, now: datetime) -> Decision:  # noqa: ARG001
    """What a healthy run means."""
    run = finished.run
    standing = replace(
        situation.standing, health=Health.OK, good_run=run.id, good_at=run.started_at, good_outcome=run.outcome
    )
    return Decision(standing)


def finished(claim: Claim, invariant: Invariant) -> Finished:
    """A healthy run of this claim."""
    now = datetime.now(UTC)
    position = Position("r1", now, "standby", "7312", 1, "0/16B3748", "741:741:", (), timedelta(0), True)
    run = Run(
        claim.invariant,
        claim.database,
        claim.definition,
        claim.due_at,
        now,
        Outcome.HELD,
        token=claim.token,
        position=position,
        statement=timedelta(milliseconds=1),
        duration=timedelta(milliseconds=2),
    )
    return Finished(claim, run, invariant, claim.due_at + timedelta(seconds=1), ("oncall",), secret_id="s1")  # noqa: S106 - a name


@dataclass(frozen=True)
class Round:
    """Microseconds a run: claiming and saving by the wall's clock, and saving in this process's own CPU time."""

    claim: float
    save: float
    save_cpu: float


def measure(store: Store, runs: int, batch: int, rounds: int) -> list[Round]:
    """One warm-up and then ``rounds`` rounds."""
    store.upgrade()
    number = store.catalogs.install(
        {}, "h", "bench", entries(runs, datetime.now(UTC)), withdraw=lambda _situation, _now: None, notifiers=()
    ).number
    invariant = Invariant("rule", "SELECT 1", (DATABASE,), Interval(EVERY), "d1")
    made = []
    for _ in range(rounds + 1):
        began = time.perf_counter()
        claims: Sequence[Claim] = store.leases.acquire(
            instance="bench", free={DATABASE: runs}, limit=runs, ttl=timedelta(minutes=5), generation=number
        )
        claimed = time.perf_counter()
        assert len(claims) == runs, len(claims)
        work = [finished(claim, invariant) for claim in claims]
        save_began, cpu_began = time.perf_counter(), time.process_time()
        for start in range(0, runs, batch):
            answers = store.runs.save(work[start : start + batch], decide)
            assert not any(answer.dropped for answer in answers)
        save_ended, cpu_ended = time.perf_counter(), time.process_time()
        made.append(
            Round(*(each / runs * 1e6 for each in (claimed - began, save_ended - save_began, cpu_ended - cpu_began)))
        )
    return made[1:]


def report(kind: str, batch: int, made: list[Round]) -> None:
    """One line of the result."""
    claim, save, cpu = (statistics.median(getattr(one, name) for one in made) for name in ("claim", "save", "save_cpu"))
    saves = [one.save for one in made]
    print(
        f"{kind:<11} batch {batch:>4}: claim {claim:6.1f} us a run, save {save:6.1f} us a run"
        f" ({min(saves):.1f} to {max(saves):.1f} in {len(saves)} rounds), of which own CPU {cpu:6.1f}"
    )


def main() -> None:
    """Measure SQLite in a scratch folder and, if asked, a PostgreSQL server started for the purpose."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--postgres", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdtrue-bench-") as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'store.db'}")
        report("sqlite", chosen.batch, measure(store, chosen.runs, chosen.batch, chosen.rounds))
        store.close()
    if chosen.postgres:
        # Only this measurement needs a server.
        from holdtrue.embedded import EmbeddedPostgres, scratch_folder

        server = EmbeddedPostgres(scratch_folder("holdtrue-bench-"))
        try:
            server.start()
            store = open_store(server.url("postgres"))
            report("postgresql", chosen.batch, measure(store, chosen.runs, chosen.batch, chosen.rounds))
            store.close()
        finally:
            server.remove()


if __name__ == "__main__":
    main()
