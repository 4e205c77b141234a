"""One more try elsewhere on MariaDB: sessions that are killed, a link that breaks, and one that falls silent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest

from holdtrue.databases import Databases, Examined
from holdtrue.model import Failure, FailureReason, Outcome
from servers.invariants import ask, good, invariant, mysql_config
from servers.mariadb import FreshMariadb
from servers.network import Proxy
from servers.postgres import wait_until

SLEEP = "SELECT 1 AS id FROM t WHERE id = 1 AND sleep(60) = 2"
AT_WORK = "SELECT id FROM information_schema.processlist WHERE user = 'holdtrue' AND state = 'User sleep'"


@pytest.fixture
def shop(mariadb_database: FreshMariadb) -> FreshMariadb:
    mariadb_database.execute(["CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t VALUES (1)"])
    return mariadb_database


@pytest.fixture
def proxy(shop: FreshMariadb) -> Iterator[Proxy]:
    """A way to the replica that can fail; it has another one that does not."""
    between = Proxy(shop.replica.port)
    yield between
    between.close()


@pytest.fixture
def both(shop: FreshMariadb, proxy: Proxy) -> Iterator[Databases]:
    """One database with two replicas: r1 by the way that can fail, r2 directly."""
    databases = Databases(environ={}, application_name="holdtrue-second")
    through = shop.replica_url.replace(f":{shop.replica.port}/", f":{proxy.port}/")
    databases.configure([mysql_config(through, shop.replica_url)])
    yield databases
    databases.interrupt_all()
    databases.close()


@contextmanager
def asleep(databases: Databases, shop: FreshMariadb, timeout: timedelta) -> Iterator[tuple[list[Any], int]]:
    """Within: one look sleeps on the server, in this session; its answer when it has ended."""
    answers: list[Any] = []
    rule = invariant(SLEEP, timeout=timeout)
    thread = threading.Thread(target=lambda: answers.append(ask(databases, rule)))
    thread.start()
    try:
        wait_until(lambda: len(shop.replica.query(AT_WORK)) == 1, "the look sleeps")
        yield answers, shop.replica.query(AT_WORK)[0][0]
        thread.join(90)
        assert not thread.is_alive()
    finally:
        databases.interrupt_all()
        thread.join(30)


def ask_each(databases: Databases) -> None:
    """Ask until both replicas have answered once."""
    seen: set[str] = set()

    def asked() -> bool:
        seen.add(good(ask(databases, invariant("SELECT id FROM t WHERE id < 0"))).position.replica)
        return len(seen) == 2

    wait_until(asked, "each replica answers")


def test_a_killed_session_is_followed_by_one_more_try_within_the_runs_time(shop: FreshMariadb, both: Databases) -> None:
    """Semantics 2.4: once more, in another session; a stop ends that one too, on the server."""
    with asleep(both, shop, timedelta(minutes=2)) as (answers, session):
        where = shop.replica.query(AT_WORK)
        shop.replica.execute(f"KILL CONNECTION {session}")
        wait_until(lambda: shop.replica.query(AT_WORK) not in ([], where), "it is asked once more")
        second = shop.replica.query(AT_WORK)[0][0]
        assert second != session
        both.interrupt_all()
    failure = answers[0] if isinstance(answers[0], Failure) else answers[0].failure
    assert failure.reason is FailureReason.INTERRUPTED
    wait_until(lambda: not shop.replica.query(AT_WORK), "nothing goes on on the server")


def test_a_broken_link_is_followed_by_an_answer_of_the_other_replica(
    shop: FreshMariadb, both: Databases, proxy: Proxy
) -> None:
    """Semantics 2.4: a lost connection, then a refused one."""
    ask_each(both)
    proxy.close()
    for _ in range(4):
        answer = good(ask(both, invariant("SELECT id FROM t")))
        assert (answer.outcome, answer.position.replica) == (Outcome.VIOLATED, "r2")


def test_a_link_that_fell_silent_takes_neither_the_runs_time_nor_the_answer(
    shop: FreshMariadb, both: Databases, proxy: Proxy
) -> None:
    """Semantics 2.2 and 2.4: nothing is sent and nothing refused, and the other replica answers within the run's time."""
    ask_each(both)
    proxy.silence()
    for _ in range(3):
        answer = good(ask(both, invariant("SELECT id FROM t", timeout=timedelta(seconds=20))))
        assert (answer.outcome, answer.position.replica) == (Outcome.VIOLATED, "r2")


def test_a_server_that_hangs_under_the_only_replica_is_a_failure_and_never_good_news(
    shop: FreshMariadb, proxy: Proxy
) -> None:
    """Semantics 0 and 3.4: not knowing is never green; the text is cancelled on the server once it can be reached."""
    databases = Databases(environ={}, application_name="holdtrue-second")
    databases.configure([mysql_config(shop.replica_url.replace(f":{shop.replica.port}/", f":{proxy.port}/"))])
    try:
        with asleep(databases, shop, timedelta(seconds=4)) as (answers, _):
            proxy.silence()
        failure = answers[0] if isinstance(answers[0], Failure) else answers[0].failure
        assert failure.reason in (FailureReason.TIMEOUT, FailureReason.LOST, FailureReason.REFUSED)
        assert not isinstance(answers[0], Examined) or answers[0].outcome is Outcome.ERRORED
        wait_until(lambda: not shop.replica.query(AT_WORK), "the server's own limit ends the text")
    finally:
        databases.close()
