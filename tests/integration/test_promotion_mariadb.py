"""From a violation on a real MariaDB replica to a test that fails on the bug: rows split by column, and said to be."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pymysql
import pytest
from sqlalchemy import make_url

from holdtrue.databases import Databases
from holdtrue.model import BaseRows, Invariant, Ticket
from holdtrue.testing import BarrierDatabase, BarrierFailed, schema_from_sql_file
from racy import duplicate, schema
from scenes.promoting import RULE, SCRATCH, catalog, incident_of, look, opened_house, promote, save
from servers.invariants import mysql_config
from servers.mariadb import ADMIN, FreshMariadb, MariadbPrimary
from stores import House

ZONE = "Asia/Kathmandu"
TYPES = {
    "tinyint": "-128",
    "bigint unsigned": "18446744073709551615",
    "decimal(30,10)": "-12345678901234567890.0123456789",
    "double": "1.7976931348623157e308",
    "float": "-0.0",
    "bit(12)": "b'101010101010'",
    "date": "'1000-01-01'",
    "datetime": "'9999-12-31 23:59:59'",
    "datetime(6)": "'1000-01-01 00:00:00.000001'",
    "timestamp NULL": "'2038-01-19 03:14:07'",
    "timestamp(6) NULL": "'2026-10-25 00:30:00.999999'",
    "timestamp(3) NULL": "'1970-01-01 00:00:01.000'",
    "time(6)": "'-838:59:59.999999'",
    "year": "1901",
    "char(10)": "'a '",
    "varchar(60)": "'it''s 50% \\\\\\\\ \"x\" :y %s 💶 \\n\\0'",
    "varchar(61)": "'x''00ff'''",
    "longtext": "'NULL'",
    "binary(4)": "x'00ff0a27'",
    "varbinary(9)": "x''",
    "longblob": "x'000102fffe27225c25'",
    "enum('1','0','a''b')": "'a''b'",
    "set('x','y','z')": "'x,z'",
    "json": '\'{"b" :[1,  null], "a": "é"}\'',
    "uuid": "'123e4567-e89b-12d3-a456-426614174000'",
    "inet6": "'2001:db8::ff00:42:8329'",
    "point": "ST_GeomFromText('POINT(1.5 -2)')",
}
NAMES = {kind: f"c{number} `\"' %s -- {kind[:12]}" for number, kind in enumerate(TYPES)}


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@pytest.fixture
def house(sqlite_url: str) -> Iterator[House]:
    with opened_house(sqlite_url) as made:
        yield made


@pytest.fixture
def databases(mariadb_database: FreshMariadb, mariadb_primary: MariadbPrimary) -> Iterator[Databases]:
    SCRATCH["HOLDTRUE_SCRATCH_MYSQL_URL"] = mariadb_primary.url(user=ADMIN)
    if mariadb_database.value(f"SELECT CONVERT_TZ('2026-01-01', '+00:00', '{ZONE}')") is None:
        mariadb_database.execute(
            [
                "INSERT INTO mysql.time_zone (Time_zone_id, Use_leap_seconds) VALUES (4711, 'N')",
                f"INSERT INTO mysql.time_zone_name (Name, Time_zone_id) VALUES ('{ZONE}', 4711)",
                "INSERT INTO mysql.time_zone_transition_type VALUES (4711, 0, 20700, 0, 'NPT')",
                "INSERT INTO mysql.time_zone_transition VALUES (4711, -2147483648, 0)",
            ]
        )
    made = Databases(environ={})
    made.configure([mysql_config(mariadb_database.replica_url, timezone=ZONE)])
    yield made
    made.close()
    left = mariadb_primary.query(
        "SELECT schema_name FROM information_schema.schemata WHERE schema_name LIKE 'holdtrue_scratch%'"
    )
    assert left == []


def ticket_of(house: House, rule: Invariant, alert: int) -> Ticket:
    config = mysql_config("mysql://nowhere", timezone=ZONE)
    return promote(house, catalog(rule, config), alert, by="ana")


def test_values_of_every_type_survive_in_a_table_of_hostile_names(
    databases: Databases,
    mariadb_database: FreshMariadb,
    mariadb_primary: MariadbPrimary,
    house: House,
    tmp_path: Path,
) -> None:
    """semantics 9.1: a TIMESTAMP is one moment, in whatever zone the database is declared to be."""
    table = "every '\"%s type; --"
    columns = ", ".join(f"{quoted(NAMES[kind])} {kind}" for kind in TYPES)
    mariadb_database.execute(
        f"CREATE TABLE {quoted(table)} (id int AUTO_INCREMENT PRIMARY KEY, broken int NOT NULL, {columns},"
        " doubled int AS (broken * 2) STORED)"
    )
    rule = replace(
        RULE,
        sql=f"SELECT broken, count(*) AS n FROM {quoted(table)} WHERE broken = 1 GROUP BY broken HAVING count(*) > 1",
        key=("broken",),
        columns=frozenset({"broken", "n", *(f"{table}.{name}" for name in ("id", "broken", *NAMES.values()))}),
        base_rows=(BaseRows(table, (("broken", "broken"),)),),
    )
    save(house, look(databases, rule))
    given = ", ".join(quoted(NAMES[kind]) for kind in TYPES)
    insert = f"INSERT INTO {quoted(table)} (broken, {given}) VALUES "
    nothing = ", ".join("NULL" for _ in TYPES)
    values = ", ".join(TYPES.values())
    mariadb_database.execute([f"{insert} (1, {values})", f"{insert} (1, {nothing})"])
    ticket = ticket_of(house, rule, save(house, look(databases, rule)))
    files = dict(ticket.files)
    record = json.loads(files["ticket.json"])
    assert record["rehearsed"]["result"] == "breaks", record
    assert record["split"] == "by key, not by transaction"
    incident = incident_of(ticket, tmp_path).incident
    database = BarrierDatabase(
        "mysql", schema_from_sql_file(tmp_path / "incident_schema.sql"), lambda: mariadb_primary.url(user=ADMIN)
    )
    cells = ", ".join(f"HEX({quoted(name)}), {quoted(name)}" for name in ("id", "doubled", *NAMES.values()))
    text = f"SELECT {cells} FROM {quoted(table)} ORDER BY id"
    try:
        assert database.control.put(incident.observed) is None
        differing = [
            pair
            for was, loaded in zip(raw(mariadb_database.primary_url, text), raw(database.url, text), strict=True)
            for pair in zip(was, loaded, strict=True)
            if pair[0] != pair[1]
        ]
        assert differing == []
    finally:
        database.close()


def raw(url: str, text: str) -> list[tuple[Any, ...]]:
    """The server's own text, in UTC."""
    parsed = make_url(url)
    with (
        closing(
            pymysql.connect(
                host=parsed.host,
                port=parsed.port or 0,
                user=parsed.username,
                password=parsed.password or "",
                database=parsed.database,
                charset="utf8mb4",
                init_command="SET time_zone = '+00:00'",
            )
        ) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(text)
        return list(cursor.fetchall())


TIMED = (
    schema.MARIADB.replace("state varchar(20) NOT NULL", "state varchar(20) NOT NULL, at timestamp(6) DEFAULT NOW(6)")
    + ";INSERT INTO accounts VALUES ('acc_1', 0, 0);INSERT INTO disputes VALUES ('dsp_1', 'acc_1', 40);"
)


def test_rows_are_split_by_a_declared_time_and_the_test_made_of_them_races(
    databases: Databases,
    mariadb_database: FreshMariadb,
    mariadb_primary: MariadbPrimary,
    house: House,
    tmp_path: Path,
) -> None:
    """semantics 9.3: labelled, for a column tells when a row was written and not by which transaction."""
    assert "at timestamp" in TIMED
    mariadb_database.execute([one for one in TIMED.split(";") if one.strip()])
    old = "INSERT INTO refunds (dispute_id, amount_eur, state, at) VALUES ('dsp_1', 40, 'failed', NOW(6) - INTERVAL 1 DAY)"
    mariadb_database.execute(old)
    rule = replace(
        RULE,
        columns=RULE.columns | {"refunds.at", "disputes.id", "refunds.dispute_id"},
        base_rows=(BaseRows("refunds", (("dispute_id", "dispute_id"),), "at"),),
        tables=("refunds",),
    )
    save(house, look(databases, rule))
    mariadb_database.execute([duplicate.INSERT.replace(":d", "'dsp_1'")] * 2)
    ticket = ticket_of(house, rule, save(house, look(databases, rule)))
    files = dict(ticket.files)
    record = json.loads(files["ticket.json"])
    assert (record["split"], record["rehearsed"]["result"]) == ("by column, not by transaction", "breaks")
    assert record["rehearsed"]["sentence"].startswith("on a scratch MariaDB ")
    assert "- `by column, not by transaction`" in files["README.md"]
    frozen = incident_of(ticket, tmp_path)
    incident = frozen.incident
    rows = {one.table: [row[3] for row in one.rows] for one in incident.seed if one.table == "refunds"}
    assert rows == {"refunds": ["failed"]}
    assert [row[3] for one in incident.observed for row in one.rows] == ["settled", "settled"]
    (tmp_path / "schema.sql").write_text(TIMED.partition(";INSERT")[0], encoding="utf-8")
    database = BarrierDatabase(
        "mysql", schema_from_sql_file(tmp_path / "schema.sql"), lambda: mariadb_primary.url(user=ADMIN)
    )
    try:
        with pytest.raises(BarrierFailed, match="violated: one_settled_refund_per_dispute returned 1 row"):
            frozen.check(lambda db: duplicate.buggy(db.engine), lambda db: duplicate.buggy(db.engine), database)
        frozen.check(
            lambda db: duplicate.right_lock_parent(db.engine),
            lambda db: duplicate.right_lock_parent(db.engine),
            database,
        )
    finally:
        database.close()


def test_a_time_that_is_a_stand_in_tells_nothing_and_rows_are_split_by_key(
    databases: Databases, mariadb_database: FreshMariadb, house: House
) -> None:
    mariadb_database.execute([one for one in TIMED.split(";") if one.strip()])
    rule = replace(RULE, base_rows=(BaseRows("refunds", (("dispute_id", "dispute_id"),), "at"),), tables=("refunds",))
    save(house, look(databases, rule))
    mariadb_database.execute([duplicate.INSERT.replace(":d", "'dsp_1'")] * 2)
    ticket = ticket_of(house, rule, save(house, look(databases, rule)))
    record = json.loads(dict(ticket.files)["ticket.json"])
    assert record["split"] == "by key, not by transaction"
    assert "refunds.at is a stand-in and tells no time: declare it safe" in record["guessed"]
