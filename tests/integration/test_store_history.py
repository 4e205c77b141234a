from __future__ import annotations

from datetime import datetime, timedelta

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdtrue.model import Claim, Outcome
from holdtrue.store import open_store
from stores import DATABASE, EVERY, TTL, Clock, House, entry

INSTANCES = ("one", "two")
moves = st.lists(
    st.one_of(
        st.tuples(st.just("claim"), st.sampled_from(INSTANCES), st.integers(1, 3)),
        st.tuples(st.just("save"), st.lists(st.integers(0, 9), min_size=1, max_size=4)),
        st.tuples(st.just("renew"), st.integers(0, 9)),
        st.tuples(st.just("release"), st.integers(0, 9)),
        st.tuples(st.just("ask")),
        st.tuples(st.just("pass"), st.sampled_from([TTL / 3, TTL * 1.1, EVERY, 3 * EVERY])),
        st.tuples(st.just("reload"), st.sampled_from(["d1", "d2"]), st.sampled_from(["every 900s", "every 60s"])),
    ),
    min_size=5,
    max_size=40,
)
outcomes = [Outcome.HELD, Outcome.VIOLATED, Outcome.ERRORED, Outcome.HELD]


class History:
    """Two instances on one store, with every answer it gave them."""

    def __init__(self, url: str) -> None:
        self.clock = Clock()
        self.house = House(open_store(url, clock=self.clock), self.clock, url)
        self.house.generation = self.house.store.catalogs.number()
        self.rules = [f"rule_{self.house.generation}_{n}" for n in range(2)]
        self.held: list[Claim] = []
        self.recorded: list[tuple[str, datetime]] = []
        self.next_due: dict[str, datetime] = {}
        self.reload("d1", "every 900s")

    def reload(self, definition: str, key: str) -> None:
        upcoming = self.clock.now + (EVERY if key == "every 900s" else timedelta(minutes=1))
        self.house.install(
            *(entry(rule, definition=definition, schedule_key=key, upcoming_due=upcoming) for rule in self.rules)
        )
        self.next_due = {}  # a changed schedule may come earlier, never at a finished due time: see ``check``

    def claim(self, instance: str, limit: int) -> None:
        self.held += self.house.claim(instance, limit=limit)

    def save(self, numbers: list[int]) -> None:
        chosen = [self.held[number % len(self.held)] for number in numbers if self.held]
        batch = [
            self.house.finished(claim, outcomes[number % 4], next_due=max(claim.due_at, self.clock.now) + EVERY)
            for number, claim in zip(numbers, chosen, strict=False)
        ]
        for answer in self.house.save(*batch):
            if not answer.dropped:
                self.recorded.append((answer.claim.invariant, answer.claim.due_at))

    def check(self) -> None:
        """What holds after every move."""
        assert len(self.recorded) == len(set(self.recorded))
        for row in self.house.store.reads.overview():
            rule, due = row.standing.invariant, row.next_due
            assert due is not None
            assert due >= self.next_due.get(rule, due)
            assert (rule, due) not in self.recorded
            self.next_due[rule] = due

    def check_runs(self) -> None:
        for rule in self.rules:
            dues = [run.due_at for run in self.house.store.reads.runs(rule, DATABASE, limit=1000)]
            assert sorted(dues) == sorted(due for one, due in self.recorded if one == rule)
            spans = self.house.store.reads.spans(
                rule, DATABASE, datetime.min.replace(tzinfo=self.clock.now.tzinfo), self.clock.now
            )
            assert sum(span.runs for span in spans) == len(dues)
            cost = self.house.store.reads.costs(rule, DATABASE)
            assert sum(day.runs for day in cost) == len(dues)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(moves)
def test_no_history_of_claims_and_saves_records_a_due_time_twice(
    sqlite_url: str, history: list[tuple[object, ...]]
) -> None:
    """semantics 8.1: whatever is claimed, lost, saved late, released, asked for and reloaded, in any order."""
    told = History(sqlite_url)
    try:
        for kind, *given_values in history:
            if kind == "claim":
                told.claim(str(given_values[0]), int(str(given_values[1])))
            elif kind == "save":
                told.save(given_values[0])  # type: ignore[arg-type]
            elif kind == "renew" and told.held:
                told.house.store.leases.renew([told.held[int(str(given_values[0])) % len(told.held)]], TTL)
            elif kind == "release" and told.held:
                told.house.store.leases.release([told.held[int(str(given_values[0])) % len(told.held)]])
            elif kind == "ask":
                told.house.store.leases.ask(told.rules[0], DATABASE)
            elif kind == "pass":
                told.clock.forward(given_values[0])  # type: ignore[arg-type]
            elif kind == "reload":
                told.reload(str(given_values[0]), str(given_values[1]))
            told.check()
        told.check_runs()
    finally:
        told.house.store.close()
