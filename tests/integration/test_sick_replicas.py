"""Replicas that are sick, each in its own way, on a real primary with two standbys and a cascaded one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from holdtrue.databases import Databases, pools
from holdtrue.model import Failure, FailureReason, Freshness, Invariant, Outcome
from servers.invariants import ask, invariant, postgres_config
from servers.network import never_answering, proxied
from servers.postgres import Topology, wait_for_replay, wait_until
from servers.sickness import HOUR, NAME, RULE, SLEEP, at_work, behind, cut, failed, good, of, paused, through

# What each sickness is called.


def test_a_standby_whose_receiver_is_dead_is_cut_off_and_well_again_when_it_follows(
    servers: Topology, opened: Any
) -> None:
    """Semantics 2.1, 2.2."""
    databases = opened(of(servers.first))
    assert good(ask(databases, RULE)).outcome is Outcome.HELD
    with cut(servers.first):
        failure = failed(ask(databases, RULE))
        assert (failure.reason, "no WAL receiver" in failure.sentence) == (FailureReason.CUT_OFF, True)
    assert good(ask(databases, RULE)).position.freshness_proven


def test_a_partition_without_a_word_is_cut_off(servers: Topology, opened: Any) -> None:
    """Semantics 2.1: no FIN and no RST, and everything that came was replayed; only the silence tells."""
    databases = opened(of(servers.second))
    with proxied(servers.primary.port) as proxy:
        try:
            servers.second.follow(proxy.port)
            assert good(ask(databases, RULE)).position.freshness_proven
            proxy.silence()
            servers.primary.execute("INSERT INTO t VALUES (1)", "sick")
            wait_until(lambda: isinstance(ask(databases, RULE), Failure), "the silence is noticed")
            assert failed(ask(databases, RULE)).reason is FailureReason.CUT_OFF
            proxy.resume()
            servers.second.wait_streaming()
            wait_for_replay(servers.second)
            assert good(ask(databases, RULE)).tallied.counted == 1
        finally:
            servers.second.follow()


def test_a_standby_beyond_max_lag_is_not_asked_and_one_that_is_idle_has_no_lag(servers: Topology, opened: Any) -> None:
    """Semantics 2.1, 2.2."""
    databases = opened(of(servers.second, max_lag=timedelta(milliseconds=500)))
    age = "SELECT now() - pg_last_xact_replay_timestamp() > interval '500 ms'"
    wait_until(lambda: servers.second.value(age), "nothing was committed for longer than max_lag")
    assert good(ask(databases, RULE)).position.lag == timedelta(0)
    with behind(servers.second):
        servers.primary.execute("INSERT INTO t VALUES (1)", "sick")
        wait_until(lambda: isinstance(ask(databases, RULE), Failure), "the commit is there and not replayed")
        failure = failed(ask(databases, RULE))
        assert failure.reason is FailureReason.LAGGING
        assert "max_lag 500ms" in failure.sentence
    assert good(ask(databases, RULE)).tallied.counted == 1


def test_several_replicas_that_are_each_sick_in_another_way_say_each_its_own_reason(
    servers: Topology, opened: Any
) -> None:
    """Semantics 2.2: no replica would do, and nobody has to guess which of them why."""
    dead = 1
    with paused(servers.first), cut(servers.second):
        databases = opened(of(servers.primary, servers.first, servers.second, dead))
        failure = failed(ask(databases, RULE))
        states = {one.replica: one for one in databases.replica_states()}
    assert failure.reason is FailureReason.REPLAY_PAUSED
    for says in (
        "r1: this server is a primary",
        "r2: replay is paused",
        "r3: no WAL receiver",
        "r4: connection refused",
    ):
        assert says in failure.sentence
        assert says[4:] in states[says[:2]].problem
        assert states[says[:2]].up is False


@contextmanager
def held_up(servers: Topology) -> Iterator[None]:
    """Within: replay on the second waits behind a lock of somebody's query there, which nothing cancels."""
    servers.execute("CREATE TABLE held(id int)", "sick")
    servers.second.configure(max_standby_streaming_delay="-1")
    try:
        with servers.second.connect("sick", autocommit=False) as query:
            query.execute("SELECT id FROM held")
            servers.primary.execute("TRUNCATE held", "sick")
            yield
            query.rollback()
    finally:
        servers.second.reset()
        servers.execute("DROP TABLE held", "sick")


@contextmanager
def unheard(servers: Topology) -> Iterator[None]:
    """Within: no byte of the primary comes to the second any more, and no connection ends."""
    with proxied(servers.primary.port) as proxy:
        servers.second.follow(proxy.port)
        try:
            proxy.silence()
            yield
        finally:
            servers.second.follow()


@pytest.mark.parametrize(("hanging", "reason"), [(held_up, "lagging"), (unheard, "cut off")])
def test_replication_that_hangs_without_an_error_is_found_by_status_and_by_heartbeat(
    servers: Topology, opened: Any, hanging: Any, reason: str
) -> None:
    """Semantics 0, 2.1, 2.2: the violation never arrives, and no answer is green once the limit is over."""
    servers.execute("CREATE TABLE heartbeat AS SELECT now() AS beat_at", "sick")
    limits = {"max_lag": timedelta(seconds=2)}
    beat = {"freshness": Freshness.HEARTBEAT, "heartbeat": "SELECT max(beat_at) FROM heartbeat"}
    asked = {reason: opened(of(servers.second, **limits)), "heartbeat": opened(of(servers.second, **beat, **limits))}
    try:
        with hanging(servers):
            servers.primary.execute(
                ["UPDATE heartbeat SET beat_at = clock_timestamp()", "INSERT INTO t VALUES (1)"], "sick"
            )
            for named, databases in asked.items():
                wait_until(lambda one=databases: isinstance(ask(one, RULE), Failure), f"{named}: it is found out")
                failure = failed(ask(databases, RULE))
                assert failure.reason.value == ("lagging" if named == "heartbeat" else reason)
                assert named != "heartbeat" or "the heartbeat on this server is" in failure.sentence
        servers.wait()
        assert good(ask(opened(of(servers.second)), RULE)).tallied.counted == 1
    finally:
        servers.execute("DROP TABLE heartbeat", "sick")


@pytest.mark.parametrize("sickness", [paused, cut, behind])
def test_a_sick_replica_is_passed_over_and_the_healthy_one_answers(
    servers: Topology, opened: Any, sickness: Any
) -> None:
    """Semantics 2.2."""
    databases = opened(of(servers.first, servers.second, max_lag=timedelta(milliseconds=300)))
    with sickness(servers.first):
        servers.primary.execute("INSERT INTO t VALUES (1)", "sick")
        wait_for_replay(servers.second)
        age = "SELECT now() - pg_last_xact_replay_timestamp() > interval '400 ms'"
        wait_until(lambda: servers.second.value(age), "the commit is older than max_lag")
        for _ in range(3):
            answer = good(ask(databases, RULE))
            assert (answer.position.replica, answer.tallied.counted) == ("r2", 1)


# Never going back.


def test_a_replica_behind_the_newest_good_run_is_passed_over_and_if_none_is_left_the_run_went_back(
    servers: Topology, opened: Any
) -> None:
    """Semantics 2.3, with two replicas of which one is behind, though within max_lag."""
    databases = opened(of(servers.first, servers.second, max_lag=HOUR))
    with behind(servers.first):
        servers.primary.execute("INSERT INTO t VALUES (1)", "sick")
        wait_for_replay(servers.second)
        newest = good(ask(opened(of(servers.second)), RULE)).position
        # Without a newest good run either may answer; with one only the second.
        wait_until(
            lambda: {good(ask(databases, RULE)).tallied.counted for _ in range(4)} == {0, 1}, "both are asked in turns"
        )
        for _ in range(4):
            answer = good(ask(databases, RULE, newest_good=newest))
            assert (answer.position.replica, answer.tallied.counted) == ("r2", 1)
        with cut(servers.second):
            failure = failed(ask(databases, RULE, newest_good=newest))
            assert failure.reason is FailureReason.WENT_BACK
            assert "r2: no WAL receiver" in failure.sentence
            assert failed(ask(opened(of(servers.first, max_lag=HOUR)), RULE, newest_good=newest)).reason is (
                FailureReason.WENT_BACK
            )
    assert good(ask(databases, RULE, newest_good=newest)).tallied.counted == 1


# One sick replica takes neither time nor places of the others.


@contextmanager
def running(databases: Databases, rule: Invariant, count: int) -> Iterator[list[Any]]:
    """Within: ``count`` looks of a rule are under way, each in a thread; their answers when they have ended."""
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(databases, rule))) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield answers
    finally:
        databases.interrupt_all()
        for thread in threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in threads)


def test_a_replica_that_never_answers_leaves_time_for_one_that_does(servers: Topology, opened: Any) -> None:
    """The run that finds it out is answered by the other within its own limit; the next ones do not ask it at all."""
    with never_answering() as port:
        databases = opened(of(servers.second, port))
        # It takes a second: what is left must be time, and not the grace at the end of it.
        rule = invariant(
            "SELECT 1 AS id FROM pg_sleep(1) AS slept(done) WHERE done IS NULL", timeout=timedelta(seconds=8)
        )
        # Unknown both, it is the second's turn first.
        assert good(ask(databases, rule)).position.replica == "r1"
        states = {one.replica: one for one in databases.replica_states()}
        assert (states["r1"].up, states["r2"].up) == (True, False)
        assert states["r2"].problem == "connection refused: no answer in time"
        for _ in range(5):
            assert good(ask(databases, rule)).position.replica == "r1"
        assert states["r2"] in databases.replica_states()


def test_a_connection_that_went_silent_between_two_looks_is_given_up_and_another_replica_answers(
    servers: Topology, opened: Any
) -> None:
    """A kept connection into a partition: nothing comes back, not even an error."""
    with proxied(servers.first.port) as proxy:
        databases = opened(postgres_config(through(proxy.port, servers.first), servers.second.url("sick")))
        rule = invariant("SELECT id FROM t", timeout=timedelta(seconds=10))
        wait_until(
            lambda: {good(ask(databases, rule)).position.replica for _ in range(4)} == {"r1", "r2"},
            "both are asked in turns",
        )
        proxy.silence()
        assert {good(ask(databases, rule)).position.replica for _ in range(3)} == {"r2"}
        assert {one.replica: one.up for one in databases.replica_states()} == {"r1": False, "r2": True}


def test_looks_on_a_hung_replica_take_no_place_of_the_healthy_one(servers: Topology, opened: Any) -> None:
    """Bounded concurrency on each: all of the other's places are used, and not one more."""
    with never_answering() as port:
        databases = opened(of(port, servers.second, concurrency=2))
        slow = invariant(SLEEP, timeout=timedelta(minutes=5))
        with running(databases, slow, 8) as answers:
            sleeping = (
                f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}' AND wait_event = 'PgSleep'"
            )
            wait_until(lambda: servers.second.value(sleeping) == 2, "both places of the healthy one are used")
            busy = {name: one.busy for name, one in databases._pools["db"]._replicas.items()}
            assert busy["r2"] == 2
            assert busy["r1"] <= 2
        wait_until(lambda: at_work(servers.second) == 0, "every statement was cancelled on the server")
    # Semantics 0: what runs, waits for a place or connects when Holdtrue stops is interrupted, and nothing else.
    failures = [one if isinstance(one, Failure) else one.failure for one in answers]
    assert [one.reason for one in failures if one is not None] == [FailureReason.INTERRUPTED] * 8


def test_one_hung_database_delays_no_other(servers: Topology, opened: Any) -> None:
    """Semantics 2, design 6: each database has places of its own."""
    with never_answering() as port:
        sick = replace(of(port), name="sick-one")
        databases = opened(of(servers.second), sick)
        waiting = [
            threading.Thread(
                target=lambda: databases.look(
                    "sick-one", time_limit=timedelta(seconds=20), newest_good=None, examine=lambda look: look.position
                )
            )
            for _ in range(12)
        ]
        for thread in waiting:
            thread.start()
        try:
            quick = invariant("SELECT id FROM t", timeout=timedelta(seconds=2))
            for _ in range(10):
                assert good(ask(databases, quick)).outcome is Outcome.HELD
            assert databases.free_places("db") == 4
        finally:
            databases.interrupt_all()
            for thread in waiting:
                thread.join(40)
        assert not any(thread.is_alive() for thread in waiting)


def test_a_replica_that_is_well_again_is_found_out_beside_the_runs(
    servers: Topology, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody asks a bad replica while a good one is there; it comes back by itself all the same."""
    monkeypatch.setattr(pools, "_CHECKED_AGAIN_AFTER", 0.0)
    databases = opened(of(servers.first, servers.second))
    with cut(servers.first):
        wait_until(
            lambda: (
                good(ask(databases, RULE)).position.replica == "r2"
                and {one.replica: one.up for one in databases.replica_states()} == {"r1": False, "r2": True}
            ),
            "the first is known to be cut off",
        )
        for _ in range(5):
            assert good(ask(databases, RULE)).position.replica == "r2"
    wait_until(
        lambda: {good(ask(databases, RULE)).position.replica for _ in range(4)} == {"r1", "r2"},
        "the first is asked again",
    )
