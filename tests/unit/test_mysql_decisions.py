"""What Holdtrue decides about MariaDB and MySQL without asking them: positions, freshness, texts, values, errors, URLs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.databases.freshness import Fresh, check_position
from holdtrue.databases.looks import Limits
from holdtrue.databases.mysql_errors import explain, explain_refusal
from holdtrue.databases.mysql_evidence import literal, quote
from holdtrue.databases.mysql_freshness import Channel, Standing, decide_replica, read_channels
from holdtrue.databases.mysql_gtid import contains, read_gtid_set, system_of
from holdtrue.databases.mysql_opening import (
    Flavour,
    limit_statement,
    read_flavour,
    settings_statement,
    standing_statement,
    status_statement,
)
from holdtrue.databases.mysql_text import refuse_unless_reading
from holdtrue.databases.mysql_values import columns_of, row_reader, type_name
from holdtrue.model import Failure, FailureReason, Freshness, Position
from servers.invariants import mysql_config

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
MARIADB = Flavour("mariadb", (10, 11, 6))
MYSQL8 = Flavour("mysql", (8, 0, 36))
SECOND = timedelta(seconds=1)
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

# Positions (semantics 2.3).

numbers = st.integers(min_value=1, max_value=30)
intervals = st.lists(st.tuples(numbers, numbers).map(lambda two: (min(two), max(two))), min_size=1, max_size=4)
sources = st.sampled_from([UUID, UUID.replace("3", "4"), f"{UUID}:blue"])
mysql_sets = st.dictionaries(sources, intervals, max_size=3)
mariadb_sets = st.dictionaries(st.integers(0, 3), st.tuples(numbers, numbers), max_size=3)


def written(found: dict[str, list[tuple[int, int]]]) -> str:
    return ",\n".join(
        f"{name}:" + ":".join(f"{a}-{b}" if a != b else f"{a}" for a, b in parts) for name, parts in found.items()
    )


def members(found: dict[str, list[tuple[int, int]]]) -> set[tuple[str, int]]:
    return {(name, one) for name, parts in found.items() for first, last in parts for one in range(first, last + 1)}


@given(mysql_sets, mysql_sets)
def test_a_mysql_set_contains_another_when_each_transaction_is_in_it(
    one: dict[str, list[tuple[int, int]]], other: dict[str, list[tuple[int, int]]]
) -> None:
    """Semantics 2.3, against sets of single transactions."""
    assert contains(read_gtid_set(written(one)), read_gtid_set(written(other))) == (members(other) <= members(one))


@given(mariadb_sets, mariadb_sets)
def test_a_mariadb_position_contains_another_when_no_domain_is_behind(
    one: dict[int, tuple[int, int]], other: dict[int, tuple[int, int]]
) -> None:
    """Semantics 2.3: whichever server wrote the domain's newest transaction."""

    def text(found: dict[int, tuple[int, int]]) -> str:
        return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in found.items())

    expected = all(domain in one and one[domain][1] >= number for domain, (_, number) in other.items())
    assert contains(read_gtid_set(text(one)), read_gtid_set(text(other))) == expected


@given(mysql_sets, mysql_sets, mysql_sets)
def test_containing_is_an_order(one: Any, other: Any, third: Any) -> None:
    a, b, c = (read_gtid_set(written(found)) for found in (one, other, third))
    assert contains(a, a)
    assert not (contains(a, b) and contains(b, c)) or contains(a, c)


def at(gtid: str, *, surely: str | None = None, flavour: str = "mariadb") -> Position:
    return Position(
        "r1",
        NOW,
        role="standby",
        system=system_of(flavour, gtid),
        log_position=gtid,
        snapshot=gtid if surely is None else surely,
    )


def reason(found: Failure | None) -> FailureReason | None:
    return found.reason if found is not None else None


@pytest.mark.parametrize(
    ("here", "newest", "expected"),
    [
        ("0-1-5", "0-1-5", None),
        ("0-2-6", "0-1-5", None),
        ("0-1-4", "0-1-5", FailureReason.WENT_BACK),
        ("0-1-9,1-1-1", "0-1-5,1-1-2", FailureReason.WENT_BACK),
        ("7-1-100", "0-1-5", FailureReason.ANOTHER_SERVER),
        ("", "0-1-5", FailureReason.ANOTHER_SERVER),
        ("0-1-5", "", None),
    ],
)
def test_a_replica_that_lacks_a_transaction_of_the_newest_good_run_is_passed_over(
    here: str, newest: str, expected: FailureReason | None
) -> None:
    """Semantics 2.3."""
    assert reason(check_position(at(here), at(newest), None)) == expected


def test_only_what_was_there_before_the_snapshot_is_surely_seen() -> None:
    """Semantics 2.3: a transaction that arrived while the snapshot was taken may be missing in it."""
    assert reason(check_position(at("0-1-6", surely="0-1-4"), at("0-1-5"), None)) is FailureReason.WENT_BACK
    assert check_position(at("0-1-9"), at("0-1-6", surely="0-1-4"), None) is None


def test_another_server_is_accepted_by_name_and_mysql_is_not_mariadb() -> None:
    mine, theirs = at("0-1-5"), at(f"{UUID}:1-5", flavour="mysql")
    assert reason(check_position(theirs, mine, None)) is FailureReason.ANOTHER_SERVER
    assert check_position(theirs, mine, theirs.system) is None
    assert reason(check_position(at("0-1-5"), Position("r", NOW, system="7000", log_position="0/1"), None)) is (
        FailureReason.ANOTHER_SERVER
    )


# Freshness (semantics 2.1).

GOOD = Channel("", receives=True, applies=True, behind=timedelta(0))


def decide(standing: Standing, freshness: Freshness = Freshness.STREAMING, *, allow: bool = False) -> Fresh | Failure:
    return decide_replica(standing, freshness=freshness, max_lag=timedelta(seconds=30), allow_primary=allow)


def test_an_idle_replica_with_both_threads_at_work_has_no_lag() -> None:
    assert decide(Standing(True, (GOOD,))) == Fresh("standby", timedelta(0), proven=True)


@pytest.mark.parametrize(
    ("channel", "expected", "says"),
    [
        (Channel("", False, True, timedelta(0)), FailureReason.CUT_OFF, "receiver"),
        (Channel("", True, False, timedelta(0)), FailureReason.CUT_OFF, "applier"),
        (Channel("b", True, True, None), FailureReason.CUT_OFF, "channel b"),
        (Channel("", True, True, timedelta(seconds=31)), FailureReason.LAGGING, "31s behind"),
    ],
)
def test_a_channel_that_will_not_do_is_refused_beside_a_good_one(
    channel: Channel, expected: FailureReason, says: str
) -> None:
    """Semantics 2.1, 2.2: each source counts."""
    found = decide(Standing(True, (GOOD, channel)))
    assert isinstance(found, Failure)
    assert found.reason is expected
    assert says in found.sentence


def test_the_lag_is_the_greatest_of_all_channels_and_unknown_if_one_is() -> None:
    slow = Channel("", True, True, timedelta(seconds=9))
    assert Standing(True, (GOOD, slow)).lag == timedelta(seconds=9)
    assert Standing(True, (GOOD, Channel("", True, True, None))).lag is None


def test_what_cannot_be_seen_is_never_proven() -> None:
    """Not knowing is no good news: without the right to see the status a replica is cut off."""
    found = decide(Standing(True, visible=False))
    assert isinstance(found, Failure)
    assert "SLAVE MONITOR" in found.sentence
    assert decide(Standing(False, visible=False), allow=True) == Fresh("primary", None, proven=False)
    assert decide(Standing(True, visible=False), Freshness.NONE) == Fresh("standby", None, proven=False)
    patient = Standing(True, (GOOD,), silence=timedelta(hours=1))
    assert decide(patient) == Fresh("standby", timedelta(0), proven=False)


def test_a_read_only_server_that_follows_nobody_is_cut_off_unless_it_may_be_the_primary() -> None:
    found = decide(Standing(True))
    assert isinstance(found, Failure)
    assert (found.reason, Standing(True).role) == (FailureReason.CUT_OFF, "standby")
    assert decide(Standing(True), allow=True) == Fresh("primary", timedelta(0), proven=True)


def test_a_primary_must_be_allowed() -> None:
    found = decide(Standing(False))
    assert isinstance(found, Failure)
    assert found.reason is FailureReason.IS_PRIMARY
    assert decide(Standing(False), allow=True) == Fresh("primary", timedelta(0), proven=True)


@pytest.mark.parametrize(
    "standing",
    [
        Standing(True, (GOOD,)),
        Standing(True),
        Standing(True, visible=False),
        Standing(True, (Channel("", False, False, None),)),
    ],
)
def test_where_a_heartbeat_decides_the_status_does_not_and_nothing_is_proven_yet(standing: Standing) -> None:
    """Semantics 2.1."""
    assert decide(standing, Freshness.HEARTBEAT) == Fresh("standby", None, proven=False)


def test_a_primary_that_may_be_asked_is_held_to_its_heartbeat_too() -> None:
    for standing in (Standing(False), Standing(True)):
        assert decide(standing, Freshness.HEARTBEAT, allow=True) == Fresh("primary", None, proven=False)
    assert isinstance(decide(Standing(False), Freshness.HEARTBEAT), Failure)


def test_both_servers_words_for_a_status_are_read() -> None:
    maria = {"Connection_name": "a", "Slave_IO_Running": "Yes", "Slave_SQL_Running": "No", "Seconds_Behind_Master": "3"}
    mysql = {"Channel_Name": "b", "Replica_IO_Running": "Connecting", "Replica_SQL_Running": "Yes"}
    assert read_channels([maria, {**mysql, "Seconds_Behind_Source": None}]) == (
        Channel("a", True, False, timedelta(seconds=3)),
        Channel("b", False, True, None),
    )


# The opening.


def test_a_server_tells_what_it_is_at_its_door() -> None:
    assert read_flavour("5.5.5-10.11.19-MariaDB-0+deb12u1-log") == Flavour("mariadb", (10, 11, 19))
    assert read_flavour("8.0.36") == Flavour("mysql", (8, 0, 36))
    assert read_flavour("8.4.0-commercial") == Flavour("mysql", (8, 4, 0))


def test_each_server_is_asked_in_its_own_words() -> None:
    """Semantics 3.3: the limit is a session setting, and never a prefix."""
    assert status_statement(MARIADB) == "SHOW ALL SLAVES STATUS"
    assert status_statement(MYSQL8) == "SHOW REPLICA STATUS"
    assert status_statement(Flavour("mysql", (5, 7, 44))) == "SHOW SLAVE STATUS"
    assert limit_statement(MARIADB, 0.25 * SECOND) == "SET SESSION max_statement_time = 0.250"
    assert limit_statement(MYSQL8, 0.25 * SECOND) == "SET SESSION max_execution_time = 250"
    assert "@@global.gtid_executed" in standing_statement(MYSQL8)
    config, limits = mysql_config("mysql://h/d", timezone="Europe/Berlin"), Limits.within(4 * SECOND, 4 * SECOND)
    text = settings_statement(MARIADB, config, limits)
    assert "time_zone = 'Europe/Berlin'" in text
    assert "lock_wait_timeout = 2," in text
    assert "time_zone = '+00:00'" in settings_statement(MARIADB, mysql_config("mysql://h/d"), limits)


# Texts (semantics 3.2, 1.6).


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "  (SELECT 1)",
        "# why\nSELECT 1",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "VALUES (1)",
        "TABLE t",
        "SELECT 'go into \\' for update' FROM t",
        'SELECT "into" , `into` FROM t',
        "SELECT 1 -- into outfile\nFROM t",
        "SELECT 1 /* into */ FROM t",
        "SELECT for_update, t.into_what FROM t",
        "SELECT @n := @n + 1 FROM t",
    ],
)
def test_a_text_that_only_reads_passes(sql: str) -> None:
    assert refuse_unless_reading(sql) is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 INTO OUTFILE '/tmp/x'",
        "SELECT 'x'INTO DUMPFILE '/tmp/x'",
        "SELECT 1.INTO @a",
        "SELECT 1 /*! INTO OUTFILE '/tmp/x' */",
        "SELECT 1 /*M!100000 FOR UPDATE */",
        "/*!50000 DELETE FROM t */",
        "SELECT 1 FROM t FOR UPDATE",
        "SELECT 1 FROM t FOR\n SHARE",
        "SELECT 1 FROM t LOCK IN SHARE MODE",
        *("SET SESSION x = 1", "CALL p()", "HANDLER t OPEN", "LOCK TABLES t WRITE", "FLUSH TABLES", "DO SLEEP(1)"),
        *("BEGIN NOT ATOMIC SELECT 1; END", "EXECUTE IMMEDIATE 'x'", "LOAD DATA INFILE 'x' INTO TABLE t", "EXPLAIN t"),
        "-- a\nDELETE FROM t",
        "1",
    ],
)
def test_a_text_that_does_more_than_reading_is_refused(sql: str) -> None:
    found = refuse_unless_reading(sql)
    assert found is not None
    assert found.reason is FailureReason.WRITES


def test_a_text_without_statement_says_so_and_backslashes_are_read_as_the_server_reads_them() -> None:
    for sql in ("", " ", "-- x", "/* x */", "SELECT \0"):
        assert reason(refuse_unless_reading(sql)) is FailureReason.QUERY
    sql = "SELECT '\\' INTO OUTFILE 'x'"
    assert refuse_unless_reading(sql, escapes=True) is None  # an open quote: the server calls it a syntax error
    assert reason(refuse_unless_reading(sql, escapes=False)) is FailureReason.WRITES


# Values.


@dataclass
class Sent:
    """What a server says of a column."""

    name: str
    type_code: int
    charsetnr: int = 45
    flags: int = 0


def test_cells_are_the_servers_text_and_bytes_are_shown_as_bytes() -> None:
    fields = [Sent("a", 8, 63, 32), Sent("b", 16, 63), Sent("c", 253, 63), Sent("d", 253), Sent("d", 254, 45, 256)]
    assert [type_name(one) for one in fields] == ["bigint unsigned", "bit", "varbinary", "varchar", "enum"]
    columns = columns_of(fields)
    assert [one.name for one in columns] == ["a", "b", "c", "d", "d_2"]
    cells = (b"18446744073709551615", b"\xaa", b"\x00\xff", "ü".encode(), None)
    assert row_reader(columns)(cells) == ("18446744073709551615", "x'aa'", "x'00ff'", "ü", None)


def test_text_that_is_no_utf_8_is_marked_and_kept() -> None:
    read = row_reader(columns_of([Sent("a", 253)]))
    assert read((b"caf\xe9",)) == ("caf\\xe9 (not valid UTF-8)",)


@given(st.text())
def test_a_literal_holds_any_text_without_a_quote_that_could_be_closed(text: str) -> None:
    made = literal(text)
    assert made.startswith("_utf8mb4 x'")
    assert bytes.fromhex(made[11:-1]).decode("utf-8", "surrogatepass") == text
    assert quote(text)[1:-1].replace("``", "").count("`") == 0


def test_bytes_that_we_show_are_bytes_again_for_a_column_of_bytes_alone() -> None:
    assert literal("x'00ff'", "varbinary(8)") == "x'00ff'"
    assert literal("x'00ff'", "varchar(8)") != "x'00ff'"
    assert literal("x'00' OR 1=1", "varbinary(8)") != "x'00' OR 1=1"


# Errors (semantics 3.5).


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (1969, FailureReason.TIMEOUT),
        (3024, FailureReason.TIMEOUT),
        (1205, FailureReason.LOCK_WAIT),
        (1213, FailureReason.CONFLICT),
        (1412, FailureReason.CONFLICT),
        (1317, FailureReason.QUERY),
        (2006, FailureReason.LOST),
        (2013, FailureReason.LOST),
        (1927, FailureReason.LOST),
        (1142, FailureReason.FORBIDDEN),
        (1792, FailureReason.WRITES),
        (1064, FailureReason.QUERY),
        (9999, FailureReason.QUERY),
        (None, FailureReason.LOST),
    ],
)
def test_an_error_number_has_a_reason_and_our_own_sentence(number: int | None, expected: FailureReason) -> None:
    found = explain(number, limit=SECOND, interrupted=False, overdue=False, sqlstate="HY000")
    assert found.reason is expected
    assert found.sentence
    assert found.raw is None


def test_what_we_ended_ourselves_is_told_by_why_we_did() -> None:
    for number in (1317, 2013, None):
        assert explain(number, limit=SECOND, interrupted=True, overdue=False).reason is FailureReason.INTERRUPTED
        assert explain(number, limit=SECOND, interrupted=False, overdue=True).sentence == "timeout after 1 s"
    assert explain(1064, limit=SECOND, interrupted=True, overdue=True).reason is FailureReason.QUERY


def test_a_refused_connection_says_why_and_nothing_of_the_drivers_message() -> None:
    assert explain_refusal(1045, "Access denied for user 'secret'@'h'").sentence.endswith("wrong user or password")
    assert explain_refusal(2003, "Can't connect to 'h' ([Errno 111] Connection refused)").sentence.endswith(
        "this address"
    )
    assert explain_refusal(None, "certificate verify failed").sentence.endswith("certificate was not accepted")
    assert explain_refusal(4999, "secret").sentence == "connection refused"
