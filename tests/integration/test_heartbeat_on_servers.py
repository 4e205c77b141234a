"""A heartbeat on real servers: it finds what streaming cannot see, and an answer that proves nothing is no good news."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdtrue.databases import Examined
from holdtrue.model import Failure, FailureReason, Freshness, Outcome
from servers.invariants import ask, good, invariant, mysql_config, postgres_config
from servers.mariadb import FreshMariadb, wait_for_replica
from servers.postgres import FreshDatabase, Topology, wait_until
from servers.sickness import NAME

BEAT = "SELECT max(beat_at) FROM heartbeat"
RULE = invariant("SELECT id FROM t")
HOUR = timedelta(hours=1)


def heartbeat(text: str = BEAT, **changes: Any) -> dict[str, Any]:
    return {"freshness": Freshness.HEARTBEAT, "heartbeat": text, "max_lag": HOUR, **changes}


def failed(answer: Examined | Failure) -> Failure:
    assert isinstance(answer, Failure), answer
    return answer


def test_a_cascade_whose_upstream_was_cut_is_found_by_its_heartbeat_and_not_by_streaming(
    postgres_topology: Topology, opened: Any
) -> None:
    """Semantics 2.1: receive = replay, streaming, lag 0, and a committed violation is missed; the heartbeat tells."""
    servers = postgres_topology
    servers.primary.create_database("cascade")
    servers.execute(["CREATE TABLE t(id int)", "CREATE TABLE heartbeat(beat_at timestamptz)"], "cascade")
    servers.execute("INSERT INTO heartbeat VALUES (now())", "cascade")
    streaming = opened(postgres_config(servers.cascaded.url("cascade"), max_lag=timedelta(seconds=30)))
    beating = opened(postgres_config(servers.cascaded.url("cascade"), **heartbeat()))
    for databases in (streaming, beating):
        position = good(ask(databases, RULE)).position
        assert (position.role, position.freshness_proven) == ("standby", True)
    try:
        servers.first.cut()
        servers.primary.execute(
            ["INSERT INTO t VALUES (1), (2)", "UPDATE heartbeat SET beat_at = clock_timestamp()"], "cascade"
        )
        assert servers.primary.value("SELECT count(*) FROM t", "cascade") == 2
        # The link to its own sender goes on: keepalives come, and everything received is replayed.
        blind = good(ask(streaming, RULE))
        assert (blind.outcome, blind.position.lag, blind.position.freshness_proven) == (
            Outcome.HELD,
            timedelta(0),
            True,
        )
        impatient = opened(postgres_config(servers.cascaded.url("cascade"), **heartbeat(max_lag=timedelta(seconds=2))))
        wait_until(lambda: isinstance(ask(impatient, RULE), Failure), "the beat on the cascaded standby is too old")
        failure = failed(ask(impatient, RULE))
        assert failure.reason is FailureReason.LAGGING
        assert "the heartbeat on this server is" in failure.sentence
        assert failure.stood is not None
        assert failure.stood.lag is not None
        assert failure.stood.lag > timedelta(seconds=2)
    finally:
        servers.first.follow()
    servers.wait()
    assert good(ask(beating, RULE)).tallied.counted == 2
    servers.primary.drop_database("cascade")


@pytest.mark.parametrize(
    ("kind", "write"),
    [
        ("timestamptz", "now() - interval '10 min'"),
        ("timestamp", "now() AT TIME ZONE 'Europe/Berlin' - interval '10 min'"),
        ("text", "to_char(now() AT TIME ZONE 'Europe/Berlin' - interval '10 min', 'YYYY-MM-DD\"T\"HH24:MI:SS.US')"),
        ("numeric", "extract(epoch FROM now() - interval '10 min')"),
    ],
)
def test_the_lag_is_the_age_of_the_newest_beat_whatever_its_type(
    postgres_database: FreshDatabase, opened: Any, kind: str, write: str
) -> None:
    """Semantics 2.1: the database's now() minus the value, a time without zone in the declared zone."""
    postgres_database.execute(
        ["CREATE TABLE t(id int)", f"CREATE TABLE heartbeat(beat_at {kind})", f"INSERT INTO heartbeat VALUES ({write})"]
    )
    zone = {"timezone": "Europe/Berlin"}
    databases = opened(postgres_config(postgres_database.standby_url, **heartbeat(**zone)))
    position = good(ask(databases, RULE)).position
    assert position.lag is not None
    assert timedelta(minutes=10) <= position.lag < timedelta(minutes=15)
    assert position.freshness_proven
    strict = opened(postgres_config(postgres_database.standby_url, **heartbeat(max_lag=timedelta(minutes=9), **zone)))
    assert failed(ask(strict, RULE)).reason is FailureReason.LAGGING


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BEAT, "NULL"),
        ("SELECT beat_at FROM heartbeat", "no row"),
        ("SELECT now() FROM generate_series(1, 3)", "more than one row"),
        ("SELECT now(), now()", "2 columns"),
        ("SELECT 'soon'", "no time"),
        ("SELECT now() + interval '1 min'", "in the future"),
        ("SELECT beat_at FROM absent", "does not exist"),
        ("SELECT 1 / 0", "divided by zero"),
        ("SELECT nextval('s')", "tried to write"),
        ("DELETE FROM heartbeat", "no query"),
        ("SELECT now() FROM pg_sleep(30)", "timeout"),
    ],
)
def test_a_heartbeat_that_gives_no_time_is_an_honest_failure(
    postgres_database: FreshDatabase, opened: Any, text: str, says: str
) -> None:
    """Semantics 2.1 and 0, in the look's own read-only transaction; the invariant's text is not asked at all."""
    postgres_database.execute(
        ["CREATE TABLE t(id int)", "CREATE TABLE heartbeat(beat_at timestamptz)", "CREATE SEQUENCE s"]
    )
    databases = opened(postgres_config(postgres_database.standby_url, **heartbeat(text)))
    failure = failed(ask(databases, invariant("SELECT id FROM t", timeout=timedelta(seconds=1))))
    assert failure.reason is FailureReason.NO_HEARTBEAT
    assert "heartbeat" in failure.sentence or "no query" in failure.sentence
    assert says in failure.sentence
    assert failure.position is None
    left = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}' AND state <> 'idle'"
    wait_until(lambda: postgres_database.replica.value(left) == 0, "nothing is left at work")


def test_the_heartbeat_is_read_in_the_looks_own_snapshot(postgres_database: FreshDatabase, opened: Any) -> None:
    """Not a moment later: rows and beat are of one state of the database."""
    postgres_database.execute(
        [
            "CREATE TABLE t(id int)",
            "CREATE TABLE heartbeat AS SELECT now() AS beat_at, pg_current_snapshot() AS snapshot",
        ]
    )
    seen = "SELECT pg_current_snapshot()::text, (SELECT max(beat_at)::text FROM heartbeat)"
    databases = opened(postgres_config(postgres_database.standby_url, **heartbeat()))
    rows: list[Any] = []
    answer = good(ask(databases, invariant(seen), also=lambda columns: rows.append))
    assert rows[0][0] == answer.position.snapshot


def test_a_primary_is_held_to_its_heartbeat_too(postgres_database: FreshDatabase, opened: Any) -> None:
    """The old primary of a failover would look fresh for ever; nobody beats there any more."""
    postgres_database.execute(
        [
            "CREATE TABLE t(id int)",
            "CREATE TABLE heartbeat(beat_at timestamptz)",
            "INSERT INTO heartbeat VALUES (now() - interval '2 h')",
        ]
    )
    url = postgres_database.primary_url
    assert failed(ask(opened(postgres_config(url, **heartbeat())), RULE)).reason is FailureReason.IS_PRIMARY
    databases = opened(postgres_config(url, **heartbeat(allow_primary=True)))
    assert failed(ask(databases, RULE)).reason is FailureReason.LAGGING
    postgres_database.execute("UPDATE heartbeat SET beat_at = clock_timestamp()")
    position = good(ask(databases, RULE)).position
    assert (position.role, position.freshness_proven) == ("primary", True)


@pytest.mark.parametrize(
    ("kind", "write"),
    [
        ("timestamp(6)", "NOW(6) - INTERVAL 10 MINUTE"),
        ("datetime(6)", "UTC_TIMESTAMP(6) - INTERVAL 10 MINUTE"),
        ("varchar(26)", "DATE_FORMAT(UTC_TIMESTAMP(6) - INTERVAL 10 MINUTE, '%Y-%m-%dT%H:%i:%s.%f')"),
        ("decimal(20, 6)", "UNIX_TIMESTAMP(NOW(6)) - 600"),
    ],
)
def test_the_age_of_the_newest_beat_decides_on_mariadb_whatever_its_type(
    mariadb_database: FreshMariadb, opened: Any, kind: str, write: str
) -> None:
    """Semantics 2.1; a varchar(26) is what pt-heartbeat makes."""
    mariadb_database.execute(
        ["CREATE TABLE t(id int)", f"CREATE TABLE heartbeat(beat_at {kind})", f"INSERT INTO heartbeat VALUES ({write})"]
    )
    databases = opened(mysql_config(mariadb_database.replica_url, **heartbeat()))
    position = good(ask(databases, RULE)).position
    assert position.lag is not None
    assert timedelta(minutes=10) <= position.lag < timedelta(minutes=15)
    assert (position.role, position.freshness_proven) == ("standby", True)
    strict = opened(mysql_config(mariadb_database.replica_url, **heartbeat(max_lag=timedelta(minutes=9))))
    assert failed(ask(strict, RULE)).reason is FailureReason.LAGGING


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BEAT, "NULL"),
        ("SELECT beat_at FROM heartbeat", "no row"),
        ("SELECT NOW() UNION ALL SELECT NOW() - INTERVAL 1 HOUR", "more than one row"),
        ("SELECT '0000-00-00 00:00:00'", "no time"),
        ("SELECT NOW() + INTERVAL 1 MINUTE", "in the future"),
        ("SELECT beat_at FROM absent", "does not exist"),
        ("DO SLEEP(1)", "no query"),
        ("SELECT NOW() FROM heartbeat FOR UPDATE", "the text"),
        ("SELECT NOW() + INTERVAL SLEEP(30) SECOND", "timeout"),
    ],
)
def test_a_heartbeat_that_gives_no_time_is_an_honest_failure_on_mariadb(
    mariadb_database: FreshMariadb, opened: Any, text: str, says: str
) -> None:
    """Semantics 2.1 and 0."""
    mariadb_database.execute(["CREATE TABLE t(id int)", "CREATE TABLE heartbeat(beat_at timestamp NULL)"])
    databases = opened(mysql_config(mariadb_database.replica_url, **heartbeat(text)))
    failure = failed(ask(databases, invariant("SELECT id FROM t", timeout=timedelta(seconds=1))))
    assert failure.reason is FailureReason.NO_HEARTBEAT
    assert says in failure.sentence
    assert failure.position is None


def test_a_stopped_applier_is_found_by_the_heartbeat_and_a_login_needs_no_right_to_the_status(
    mariadb_database: FreshMariadb, opened: Any
) -> None:
    """Semantics 2.1: what the replica says of itself is not asked for."""
    shop = mariadb_database
    shop.execute(
        [
            "CREATE TABLE t(id int)",
            "CREATE TABLE heartbeat(id int PRIMARY KEY, beat_at timestamp(6))",
            "INSERT INTO heartbeat VALUES (1, NOW(6))",
            f"CREATE USER '{shop.name}'@'%' IDENTIFIED BY 'x'",
            f"GRANT SELECT ON `{shop.name}`.* TO '{shop.name}'@'%'",
        ]
    )
    databases = opened(mysql_config(shop.replica.url(shop.name, shop.name, "x"), **heartbeat(max_lag=HOUR)))
    impatient = opened(
        mysql_config(shop.replica.url(shop.name, shop.name, "x"), **heartbeat(max_lag=timedelta(seconds=2)))
    )
    try:
        assert good(ask(databases, RULE)).position.freshness_proven
        shop.replica.execute("STOP SLAVE SQL_THREAD")
        wait_until(lambda: isinstance(ask(impatient, RULE), Failure), "the beat on the replica is too old")
        assert failed(ask(impatient, RULE)).reason is FailureReason.LAGGING
        shop.replica.resume()
        shop.primary.execute("UPDATE heartbeat SET beat_at = NOW(6)", shop.name)
        wait_for_replica(shop.replica)
        assert good(ask(databases, RULE)).position.freshness_proven
    finally:
        if shop.replica.status()["Slave_SQL_Running"] != "Yes":
            shop.replica.resume()
        shop.execute(f"DROP USER '{shop.name}'@'%'")
