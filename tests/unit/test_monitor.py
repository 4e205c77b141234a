"""A claimed run is made only for what was claimed (semantics 1.3, 8.1)."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from holdtrue.databases import Databases
from holdtrue.errors import StoreUnreachable
from holdtrue.ledger import KeyHasher
from holdtrue.metrics import Counters
from holdtrue.model import (
    CANARY_NAME,
    Catalog,
    Claim,
    DatabaseConfig,
    Dialect,
    FailureReason,
    Interval,
    Invariant,
    LedgerBefore,
    Outcome,
    ReplicaConfig,
    Secret,
    ServiceConfig,
    Standing,
)
from holdtrue.monitoring import Monitor
from holdtrue.monitoring.former import Wanted
from holdtrue.store.records import Before, Finished

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
INVARIANT = Invariant("one", "SELECT 1 AS id WHERE 1 = 0", ("payments",), Interval(timedelta(minutes=15)), "d1")
DATABASE = DatabaseConfig("payments", Dialect.SQLITE, (ReplicaConfig("file", Secret("sqlite:///no-such-file")),))
CLAIM = Claim("one", "payments", NOW, 1, NOW + timedelta(seconds=30), "d1", 1)


class Handed:
    """Takes what would be saved, and says what the past was."""

    def __init__(self) -> None:
        self.finished: list[Finished] = []
        self.asked_for_the_past = 0
        self.surprise: Exception | None = None

    def before(self, invariant: str, database: str) -> Before:
        self.asked_for_the_past += 1
        if self.surprise is not None:
            raise self.surprise
        return Before(LedgerBefore({}), Standing(invariant, database, since=NOW), None, None)

    def record(self, finished: Finished) -> None:
        self.finished.append(finished)

    def monitor(
        self, *invariants: Invariant, databases: Databases | None = None, database: DatabaseConfig = DATABASE
    ) -> Monitor:
        catalog = Catalog(invariants, ServiceConfig(databases=(database,)), (), "hash")
        if databases is None:
            databases = Databases(environ={})
            databases.configure((DATABASE,))
        return Monitor(
            instance="here",
            databases=databases,
            before=self.before,
            record=self.record,
            catalog=lambda: catalog,
            notifiers=lambda: ("oncall",),
            former=lambda *_: Wanted(""),
            hasher=KeyHasher(b"a secret for tests"),
            now=lambda: NOW,
            observer=Counters(version="test"),
        )


@pytest.mark.parametrize(
    "in_force", [(replace(INVARIANT, definition="d2"),), (replace(INVARIANT, name="another"),), ()], ids=str
)
def test_what_changed_or_left_since_the_claim_is_not_asked_at_all(in_force):
    """Semantics 1.3: another text must never answer under the claimed one's definition."""
    handed = Handed()
    assert handed.monitor(*in_force).perform(CLAIM).result(0).dropped == "definition changed"
    assert (handed.asked_for_the_past, handed.finished) == (0, [])


def test_a_surprise_while_looking_is_an_errored_run_that_people_see():
    """Semantics 0: a fault of ours is no silence; its text, which may hold values, goes nowhere."""

    class Broken(Databases):
        def look(self, *_args, **_more):
            raise ZeroDivisionError("dsp_9")

    handed = Handed()
    handed.monitor(INVARIANT, databases=Broken(environ={})).perform(CLAIM)
    (finished,) = handed.finished
    assert (finished.run.outcome, finished.run.complete) == (Outcome.ERRORED, False)
    assert finished.run.failure.reason is FailureReason.SURPRISE
    assert "dsp_9" not in finished.run.failure.sentence


def test_without_the_past_nothing_is_asked_and_nothing_is_handed_over():
    """The lease runs out, and the run is made again."""
    handed = Handed()
    handed.surprise = StoreUnreachable("the store did not answer")
    with pytest.raises(StoreUnreachable):
        handed.monitor(INVARIANT).perform(CLAIM)
    assert handed.finished == []


def looked_with(invariant: Invariant, database: DatabaseConfig, claim: Claim, before: Before) -> dict[str, object]:
    """What a run of this claim, after this past, tells whoever picks the replica."""
    seen: dict[str, object] = {}

    class Listening(Databases):
        def look(self, _database, **more):
            seen.update(more)
            raise ZeroDivisionError

    handed = Handed()
    handed.before = lambda *_: before
    handed.monitor(invariant, databases=Listening(environ={}), database=database).perform(claim)
    return seen


def test_the_newest_good_position_goes_to_whoever_picks_the_replica():
    """Semantics 2.3: runs never go back, nor to a server that nobody accepted."""
    position = object()
    before = replace(Handed().before("one", "payments"), newest_good=position, accepted_system="7312")
    seen = looked_with(INVARIANT, DATABASE, CLAIM, before)
    assert (seen["newest_good"], seen["accepted_system"]) == (position, "7312")


def test_the_canary_goes_on_where_our_own_store_was_restored_on_another_server():
    """Semantics 7.7: nobody has to accept what holds the catalog itself."""
    own = replace(INVARIANT, databases=(CANARY_NAME,))
    before = replace(Handed().before("one", CANARY_NAME), newest_good=object())
    seen = looked_with(own, replace(DATABASE, name=CANARY_NAME), replace(CLAIM, database=CANARY_NAME), before)
    assert seen["newest_good"] is None
