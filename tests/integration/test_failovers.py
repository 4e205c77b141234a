"""Failovers on real servers: what the new primary lacks, and a standby that has heard of it before it has replayed so far."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from holdtrue.model import Failure, FailureReason, Freshness, Outcome
from servers.invariants import ask, good, invariant, postgres_config
from servers.postgres import PostgresPrimary, PostgresStandby, started, wait_for_replay, wait_until

RULE = invariant("SELECT id FROM t", timeout=timedelta(seconds=30))
HOUR = timedelta(hours=1)
QUICK = {"wal_retrieve_retry_interval": "200ms"}


@pytest.fixture
def servers() -> Iterator[tuple[PostgresPrimary, PostgresStandby, PostgresStandby]]:
    """A primary and two standbys of this test alone, with an empty table."""
    with started(QUICK) as primary:
        first, second = primary.standby(), primary.standby()
        primary.execute("CREATE TABLE t(id int)")
        for standby in (first, second):
            wait_for_replay(standby)
        yield primary, first, second


def promote(standby: PostgresStandby) -> None:
    assert standby.value("SELECT pg_promote(true, 60)") is True
    wait_until(lambda: standby.value("SELECT pg_is_in_recovery()") is False, "the standby is promoted")


def test_transactions_that_a_failover_lost_are_not_waited_for(
    servers: tuple[PostgresPrimary, PostgresStandby, PostgresStandby], opened: Any
) -> None:
    """Semantics 2.3: the new primary stands behind the newest good run, and is the truth all the same."""
    primary, first, second = servers
    first.cut()
    primary.execute("INSERT INTO t VALUES (1)")
    wait_for_replay(second)
    newest = good(ask(opened(postgres_config(second.url())), RULE))
    assert newest.outcome is Outcome.VIOLATED
    primary.stop()
    promote(first)
    answer = good(ask(opened(postgres_config(first.url(), allow_primary=True)), RULE, newest_good=newest.position))
    assert (answer.outcome, answer.position.timeline) == (Outcome.HELD, newest.position.timeline + 1)
    # The standby that was ahead is on the old timeline: no run goes back to it.
    old = ask(opened(postgres_config(second.url(), max_lag=HOUR)), RULE, newest_good=answer.position)
    assert isinstance(old, Failure)


def test_a_standby_that_has_not_replayed_up_to_the_failover_is_merely_behind_and_passed_over(
    servers: tuple[PostgresPrimary, PostgresStandby, PostgresStandby], opened: Any
) -> None:
    """Semantics 2.3: it says the old timeline until it has replayed all of it, so that nothing takes it for the new truth."""
    primary, first, second = servers
    # Without a slot: the new primary has none for it.
    second.configure(primary_slot_name="")
    second.follow(first.port)
    second.configure(recovery_min_apply_delay="1h")
    primary.execute("INSERT INTO t VALUES (1)")
    wait_for_replay(first)
    newest = good(ask(opened(postgres_config(first.url())), RULE)).position
    promote(first)
    first.execute("INSERT INTO t VALUES (2)")
    late = opened(postgres_config(second.url(), freshness=Freshness.NONE))
    position = good(ask(late, RULE)).position
    assert (position.timeline, position.role) == (newest.timeline, "standby")
    failure = ask(late, RULE, newest_good=newest)
    assert isinstance(failure, Failure)
    assert failure.reason is FailureReason.WENT_BACK
    second.reset()
    wait_until(lambda: second.value("SELECT count(*) FROM t") == 2, "it has replayed everything")
    answer = good(ask(late, RULE, newest_good=newest))
    assert (answer.tallied.counted, answer.position.timeline) == (2, newest.timeline + 1)
