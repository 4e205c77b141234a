"""MariaDB servers as they really are: logins, replication that stands still, failover, and a name that leads elsewhere."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from holdtrue.databases import Databases, Examined
from holdtrue.databases.looks import Limits
from holdtrue.databases.mysql import MysqlDriver, MysqlLink
from holdtrue.model import DatabaseConfig, Failure, FailureReason, Freshness, Invariant, Outcome, Position, Secret
from servers.invariants import ask, failed, good, invariant, mysql_config
from servers.mariadb import FreshMariadb, started, wait_for_replica
from servers.postgres import wait_until

SECOND = timedelta(seconds=1)
NAME = "holdtrue-mysql"


def opened(*configs: DatabaseConfig) -> Databases:
    databases = Databases(environ={}, application_name=NAME)
    databases.configure(list(configs))
    return databases


@pytest.fixture
def shop(mariadb_database: FreshMariadb) -> FreshMariadb:
    """Two rows on primary and replica."""
    mariadb_database.execute(
        ["CREATE TABLE t(id int PRIMARY KEY, note text)", "INSERT INTO t VALUES (1, 'a'), (2, 'b')"]
    )
    return mariadb_database


def test_a_login_without_the_right_to_a_table_is_forbidden(shop: FreshMariadb) -> None:
    shop.execute(
        [
            f"CREATE USER '{shop.name}'@'%' IDENTIFIED BY 'x'",
            f"GRANT SELECT (id) ON `{shop.name}`.t TO '{shop.name}'@'%'",
            f"GRANT SLAVE MONITOR ON *.* TO '{shop.name}'@'%'",
        ]
    )
    databases = opened(mysql_config(shop.replica.url(shop.name, shop.name, "x")))
    try:
        assert good(ask(databases, invariant("SELECT id FROM t"))).tallied.counted == 2
        failure = failed(ask(databases, invariant("SELECT note FROM t")))
        assert failure.reason is FailureReason.FORBIDDEN
        assert failed(ask(databases, invariant("SELECT id FROM other"))).reason is FailureReason.FORBIDDEN
        shop.execute(f"REVOKE SLAVE MONITOR ON *.* FROM '{shop.name}'@'%'")
        databases.close()
        failure = failed(
            ask(opened(mysql_config(shop.replica.url(shop.name, shop.name, "x"))), invariant("SELECT id FROM t"))
        )
        assert failure.reason is FailureReason.CUT_OFF
        assert "SLAVE MONITOR" in failure.sentence
    finally:
        databases.close()
        shop.execute(f"DROP USER '{shop.name}'@'%'")


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://holdtrue:wrong@127.0.0.1:{port}/d", "wrong user or password"),
        ("mysql://{login}@127.0.0.1:{port}/absent", "there is no such database"),
        ("mysql://{login}@127.0.0.1:1/d", "nobody listens at this address"),
        ("mysql://{login}@nowhere.invalid:{port}/d", "the host name is unknown"),
        ("mysql://{login}@127.0.0.1:{port}/d?ssl_ca=/absent.pem", "a file that the URL names is not there"),
        ("mysql://{login}@127.0.0.1:{port}/d?ssl_mode=verify_identity", "no encrypted connection could be agreed on"),
        ("mysql://{login}@127.0.0.1:{port}/d?ssl=yes", "the URL of this replica cannot be read"),
    ],
)
def test_a_connection_that_does_not_come_about_says_why_in_our_words(shop: FreshMariadb, url: str, says: str) -> None:
    server = shop.replica
    login = f"holdtrue:{server.reader_password}"
    failure = failed(ask(opened(mysql_config(url.format(port=server.port, login=login))), invariant()))
    assert failure.reason is FailureReason.REFUSED
    assert failure.sentence == f"connection refused: {says}"
    assert server.reader_password not in repr(failure)


def test_the_declared_zone_decides_and_an_unknown_one_is_an_error(shop: FreshMariadb) -> None:
    """A named zone needs the server's time zone tables; UTC never does."""
    sql = "SELECT id FROM t WHERE @@session.time_zone = '+00:00' AND FROM_UNIXTIME(0) = '1970-01-01'"
    assert good(ask(opened(mysql_config(shop.replica_url)), invariant(sql))).tallied.counted == 2
    failure = failed(ask(opened(mysql_config(shop.replica_url, timezone="Europe/Berlin")), invariant(sql)))
    assert failure.reason is FailureReason.QUERY
    assert "time zone tables" in failure.sentence
    shop.replica.execute(
        [
            "SET SESSION sql_log_bin = 0",
            "INSERT INTO mysql.time_zone (Use_leap_seconds) VALUES ('N')",
            "SET @zone = LAST_INSERT_ID()",
            "INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('Europe/Berlin', @zone)",
            "INSERT INTO mysql.time_zone_transition_type VALUES (@zone, 0, 3600, 0, 'CET')",
        ]
    )
    zoned = "SELECT id FROM t WHERE FROM_UNIXTIME(0) = '1970-01-01 01:00:00'"
    databases = opened(mysql_config(shop.replica_url, timezone="Europe/Berlin"))
    assert good(ask(databases, invariant(zoned))).tallied.counted == 2
    databases.close()


def going_back(rule: Invariant, databases: Databases, newest: Position | None) -> Examined | Failure:
    return ask(databases, rule, newest_good=newest)


def test_replication_that_stands_still_is_never_good_news_and_going_back_is_refused() -> None:
    """Semantics 2.1, 2.2, 2.3, on servers of this test's own: stopped threads, a lag, a primary, another family."""
    rule = invariant("SELECT id FROM shop.t")
    with started(replicas=2) as primary, started({"gtid-domain-id": "7"}) as stranger:
        first, second = primary.replicas
        primary.create_database("shop")
        primary.execute(["CREATE TABLE t(id int PRIMARY KEY)", "INSERT INTO t VALUES (1)"], "shop")
        for replica in (first, second):
            wait_for_replica(replica)
        both = opened(mysql_config(first.url(), second.url()))
        alone = opened(mysql_config(first.url()))

        first.execute("STOP SLAVE SQL_THREAD")
        failure = failed(ask(alone, rule))
        assert (failure.reason, "applier" in failure.sentence) == (FailureReason.CUT_OFF, True)
        first.resume()
        first.execute("STOP SLAVE IO_THREAD")
        failure = failed(ask(alone, rule))
        assert (failure.reason, "receiver" in failure.sentence) == (FailureReason.CUT_OFF, True)

        primary.execute("INSERT INTO shop.t VALUES (2)")
        wait_for_replica(second)
        newest = good(ask(both, rule))
        assert (newest.position.replica, newest.tallied.counted) == ("r2", 2)
        # A login that does not ask for proof would take the stale replica, were it not behind.
        careless = opened(mysql_config(first.url(), freshness=Freshness.NONE))
        assert good(going_back(rule, careless, None)).position.freshness_proven is False
        assert failed(going_back(rule, careless, newest.position)).reason is FailureReason.WENT_BACK
        first.resume()
        assert good(going_back(rule, careless, newest.position)).tallied.counted == 2

        first.execute(["STOP SLAVE", "CHANGE MASTER TO MASTER_DELAY = 3600", "START SLAVE"])
        first.wait_running()
        primary.execute("INSERT INTO shop.t VALUES (3)")
        late = opened(mysql_config(first.url(), max_lag=timedelta(0)))
        wait_until(
            lambda: failed_reason(ask(late, rule)) is FailureReason.LAGGING, "the delayed replica says that it lags"
        )
        assert ask(both, rule).position.replica == "r2"  # type: ignore[union-attr]

        third = opened(mysql_config(primary.url()))
        assert failed(ask(third, rule)).reason is FailureReason.IS_PRIMARY
        allowed = opened(mysql_config(primary.url(), allow_primary=True))
        on_primary = good(going_back(rule, allowed, newest.position))
        assert (on_primary.position.role, on_primary.tallied.counted) == ("primary", 3)

        stranger.execute(["CREATE DATABASE shop", "CREATE TABLE shop.t(id int)"])
        other = opened(mysql_config(stranger.url(), allow_primary=True))
        assert failed(going_back(rule, other, newest.position)).reason is FailureReason.ANOTHER_SERVER
        accepted = ask(other, rule, newest_good=newest.position, accepted_system="mariadb:domain 7")
        assert good(accepted).outcome is Outcome.HELD

        second.stop()
        answer = good(ask(opened(mysql_config(second.url(), primary.url(), allow_primary=True)), rule))
        assert answer.position.replica == "r2"
        primary.execute("INSERT INTO shop.t VALUES (4)")
        second.start()
        second.wait_running()
        wait_for_replica(second)
        assert good(ask(both, rule)).tallied.counted == 4
        for databases in (both, alone, careless, late, third, allowed, other):
            databases.close()


def failed_reason(answer: Examined | Failure) -> FailureReason | None:
    failure = answer if isinstance(answer, Failure) else answer.failure
    return failure.reason if failure is not None else None


def test_a_replica_whose_primary_is_gone_is_cut_off() -> None:
    """Semantics 2.1: with its last answer at hand it would look idle."""
    rule = invariant("SELECT 1 AS id FROM mysql.db WHERE 1 = 0")
    with started(replicas=1) as primary:
        (replica,) = primary.replicas
        databases = opened(mysql_config(replica.url()))
        assert good(ask(databases, rule)).outcome is Outcome.HELD
        primary.stop()
        wait_until(lambda: replica.status()["Slave_IO_Running"] != "Yes", "the replica notices")
        assert failed(ask(databases, rule)).reason is FailureReason.CUT_OFF
        databases.close()


def test_a_killed_statement_is_looked_for_on_its_own_server_alone(shop: FreshMariadb) -> None:
    """A name may lead to several servers: the other's session of the same number must not be killed."""

    config = mysql_config(shop.replica_url)
    link = MysqlDriver(NAME).connect(config, config.replicas[0], environ={}, within=5 * SECOND)
    assert isinstance(link, MysqlLink)
    assert link.open(Limits.within(5 * SECOND, 5 * SECOND), config, keep_raw=False) is None
    elsewhere = replace(config.replicas[0], url=Secret(shop.primary_url))
    other = MysqlDriver(NAME).connect(config, elsewhere, environ={}, within=5 * SECOND)
    assert isinstance(other, MysqlLink)
    link._wire._reach = other._wire._reach
    shop.primary.execute(["SET GLOBAL log_output = 'FILE'", "SET GLOBAL general_log = ON"])
    try:
        link.interrupt()
    finally:
        shop.primary.execute("SET GLOBAL general_log = OFF")
    log = (shop.primary.log_file.parent / "general.log").read_text(encoding="utf-8", errors="replace")
    assert "KILL QUERY" not in log
    assert "CONCAT_WS" in log
    link.close()
    other.close()
