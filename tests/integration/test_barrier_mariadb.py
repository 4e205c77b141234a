"""A barrier database on MariaDB: set back whole, loaded with the server's own text, and honest where rows no longer fit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pymysql
import pytest

from holdtrue.databases.mysql_values import columns_of, row_reader
from holdtrue.model import TableRows
from holdtrue.testing import BadSeed, BarrierDatabase, schema_from_sql_file
from holdtrue.testing.mariadb import MariadbControl
from servers.mariadb import ADMIN, MariadbPrimary

SCHEMA = """
SET SESSION foreign_key_checks = 0;
CREATE TABLE parent (id int AUTO_INCREMENT PRIMARY KEY, name varchar(20) NOT NULL, UNIQUE KEY one_name (name));
CREATE TABLE child (id int PRIMARY KEY, parent_id int, amount int CHECK (amount > 0), seen datetime(6),
                    doubled int AS (amount * 2) STORED, CONSTRAINT of_parent FOREIGN KEY (parent_id) REFERENCES parent (id));
CREATE TABLE ring (id int PRIMARY KEY, next_id int NOT NULL, CONSTRAINT closes FOREIGN KEY (next_id) REFERENCES ring (id));
CREATE TABLE audit (id int AUTO_INCREMENT PRIMARY KEY, what varchar(40));
CREATE TABLE kept (id int PRIMARY KEY, note varchar(20)) WITH SYSTEM VERSIONING;
CREATE SEQUENCE numbers;
CREATE TRIGGER told AFTER INSERT ON parent FOR EACH ROW INSERT INTO audit (what) VALUES (concat('new ', NEW.name));
CREATE TRIGGER gone AFTER DELETE ON parent FOR EACH ROW INSERT INTO audit (what) VALUES ('gone');
INSERT INTO parent VALUES (1, 'one');
INSERT INTO kept VALUES (1, 'first');
INSERT INTO child (id, parent_id, amount, seen) VALUES (1, 1, 5, '2026-01-02 03:04:05.678901');
"""
TYPES = {
    "tinyint": "-128",
    "bigint unsigned": "18446744073709551615",
    "decimal(30,10)": "-12345678901234567890.0123456789",
    "double": "1.7976931348623157e308",
    "float": "0.5",
    "bit(12)": "b'101010101010'",
    "date": "'1000-01-01'",
    "datetime": "'0000-00-00 00:00:00'",
    "datetime(6)": "'9999-12-31 23:59:59.999999'",
    "timestamp(6)": "'2038-01-19 03:14:07.999999'",
    "time(6)": "'-838:59:59.999999'",
    "year": "1901",
    "char(10)": "'a '",
    "varchar(60)": "'it''s 50% \\\\\\\\ \"x\" :y %s 💶 \\n\\0'",
    "longtext": "''",
    "binary(4)": "x'00ff0a27'",
    "varbinary(9)": "x''",
    "longblob": "x'000102fffe27225c25'",
    "enum('1','0','a''b')": "'0'",
    "set('x','y','z')": "'x,z'",
    "json": '\'{"b": [1, null], "a": "é"}\'',
    "uuid": "'123e4567-e89b-12d3-a456-426614174000'",
    "inet6": "'2001:db8::ff00:42:8329'",
    "point": "ST_GeomFromText('POINT(1.5 -2)')",
}


@pytest.fixture(scope="module")
def made(mariadb_primary: MariadbPrimary, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarrierDatabase]:
    file = tmp_path_factory.mktemp("schema") / "schema.sql"
    file.write_text(SCHEMA, encoding="utf-8")
    database = BarrierDatabase("mysql", schema_from_sql_file(file), lambda: mariadb_primary.url(user=ADMIN))
    database.control.keep_baseline()
    yield database
    database.close()


@pytest.fixture
def control(made: BarrierDatabase) -> Iterator[MariadbControl]:
    assert isinstance(made.control, MariadbControl)
    yield made.control
    made.control.set_back()


def execute(made: BarrierDatabase, *statements: str) -> None:
    url = made.sqlalchemy_url
    with closing(
        pymysql.connect(
            host=url.host, port=url.port or 0, user=url.username, password=url.password or "", database=url.database
        )
    ) as connection:
        for statement in statements:
            connection.query(statement)
        connection.commit()


def test_everything_is_as_it_was_and_numbers_begin_again(made: BarrierDatabase, control: MariadbControl) -> None:
    tables = ("parent", "child", "ring", "audit", "kept")
    before = control.content(tables)
    for _ in range(2):
        execute(
            made,
            "INSERT INTO parent (name) VALUES ('two'), ('three')",
            "UPDATE child SET amount = 7",
            "UPDATE kept SET note = 'second'",
            "SELECT NEXTVAL(numbers)",
            "DELETE FROM child",
            "DELETE FROM parent WHERE id = 1",
        )
        assert control.ask("SELECT max(id) FROM parent") == [(3,)]
        assert control.ask("SELECT count(*) FROM audit") == [(4,)], "the one of the migration stands there as well"
        assert control.content(tables) != before
        control.set_back()
        assert control.content(tables) == before
        assert control.ask("SELECT count(*) FROM kept FOR SYSTEM_TIME ALL") == [(1,)]
    execute(made, "INSERT INTO parent (name) VALUES ('again')")
    assert control.ask("SELECT id FROM parent WHERE name = 'again'") == [(2,)]
    assert control.ask("SELECT NEXTVAL(numbers)") == [(1,)]
    triggers = "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY 1"
    assert control.ask(triggers) == [("gone",), ("told",)]


def test_values_of_every_type_are_unchanged_after_they_were_written_as_text_and_loaded(
    made: BarrierDatabase, control: MariadbControl
) -> None:
    """What evidence reads is what stands there afterwards: cell by cell as the server shows it, and by its own checksum."""
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(TYPES))
    values = ", ".join(TYPES.values())
    nothing = ", ".join("NULL" for _ in TYPES)
    execute(
        made,
        "SET SESSION sql_mode = ''",
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, {columns})" for name in ("wide", "loaded")),
        f"INSERT INTO wide VALUES (1, {values}), (2, {nothing})",
    )
    try:
        raw = read_raw(made, "wide")
        assert control.put([TableRows("loaded", raw[0], tuple(raw[1]), raw[2])]) is None
        assert read_raw(made, "loaded") == raw
        checksums = control.ask("CHECKSUM TABLE wide, loaded")
        assert checksums[0][1] == checksums[1][1]
    finally:
        execute(made, "DROP TABLE wide", "DROP TABLE loaded")


def read_raw(
    made: BarrierDatabase, table: str
) -> tuple[tuple[str, ...], list[tuple[str | None, ...]], tuple[str, ...]]:
    """The table as evidence reads it: the server's own text."""
    url = made.sqlalchemy_url
    with closing(
        pymysql.connect(
            host=url.host,
            port=url.port or 0,
            user=url.username,
            password=url.password or "",
            database=url.database,
            autocommit=None,
            use_unicode=False,
            conv={},
            charset="utf8mb4",
            init_command="SET SESSION time_zone = '+00:00'",
        )
    ) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT * FROM {table} ORDER BY id")
        result: Any = cursor._result
        found = columns_of(result.fields)
        rows = [row_reader(found)(row) for row in cursor.fetchall()]
    return tuple(one.name for one in found), rows, tuple(one.type_name for one in found)


def test_rows_are_put_all_or_none_in_any_order_and_no_trigger_runs(
    made: BarrierDatabase, control: MariadbControl
) -> None:
    child = TableRows("child", ("id", "parent_id", "amount", "doubled"), (("9", "8", "3", "6"),))
    parent = TableRows("payments.parent", ("id", "name"), (("8", "eight"), ("1", "renamed")))
    ring = TableRows("ring", ("id", "next_id"), (("1", "2"), ("2", "1")))
    before = control.ask("SELECT count(*) FROM audit")
    assert control.put([child, parent, ring]) is None
    assert control.ask("SELECT id, doubled FROM child ORDER BY id") == [(1, 10), (9, 6)]
    assert control.ask("SELECT name FROM parent ORDER BY id") == [("renamed",), ("eight",)], (
        "a key that is there is replaced"
    )
    assert control.ask("SELECT count(*) FROM audit") == before
    execute(made, "INSERT INTO parent (name) VALUES ('next')")
    assert control.ask("SELECT id FROM parent WHERE name = 'next'") == [(9,)]


@pytest.mark.parametrize(
    ("rows", "constraint", "says"),
    [
        (TableRows("parent", ("id", "name"), (("7", "one"),)), "one_name", "refuses a row"),
        (TableRows("parent", ("id", "name"), (("7", None),)), "NOT NULL of parent.name", "refuses NULL"),
        (TableRows("child", ("id", "amount"), (("7", "0"),)), "child.amount", "refuses a row"),
        (TableRows("child", ("id", "parent_id"), (("7", "secret"),)), "", "refused a row with error 1366"),
        (TableRows("child", ("id", "parent_id"), (("7", "99"),)), "of_parent", "refuses a row"),
        (TableRows("parent", ("id",), (("7",),)), "", "wants a value that the captured rows do not have"),
        (TableRows("parent", ("id", "nome"), (("7", "x"),)), "", "has no column nome"),
        (TableRows("parents", ("id",), (("7",),)), "", "there is no table parents"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_rows_that_no_longer_fit_are_refused_by_name_and_nothing_of_them_stays(
    rows: TableRows, constraint: str, says: str, control: MariadbControl
) -> None:
    tables = ("parent", "child")
    before = control.content(tables)
    refusal = control.put([TableRows("child", ("id", "amount"), (("50", "1"),)), rows])
    assert refusal is not None
    assert says in refusal.reason
    assert refusal.constraint == constraint
    assert "secret" not in refusal.reason
    assert control.content(tables) == before


def test_times_are_moved_by_what_has_passed(control: MariadbControl) -> None:
    rows = TableRows("child", ("id", "amount", "seen"), (("7", "1", "2026-01-01 11:59:00.5"),))
    assert control.put([rows], shift_from="2026-01-01T12:00:00+00:00") is None
    (found,) = control.ask("SELECT TIMESTAMPDIFF(MICROSECOND, seen, UTC_TIMESTAMP(6)) FROM child WHERE id = 7")
    assert 59_500_000 <= int(str(found[0])) < 120_000_000


def test_a_session_without_foreign_keys_leaves_a_row_that_refers_to_nothing(
    made: BarrierDatabase, control: MariadbControl
) -> None:
    assert control.dangling() == frozenset()
    execute(made, "SET SESSION foreign_key_checks = 0", "INSERT INTO child (id, parent_id) VALUES (70, 71)")
    assert control.dangling() == {("child", "parent")}


def test_a_text_that_does_not_run_here_is_no_answer(control: MariadbControl) -> None:
    with pytest.raises(BadSeed, match=r"does not run on this schema \(error 1146\)"):
        control.ask("SELECT 'secret' FROM nowhere")
    assert control.ask("SELECT '50%'") == [("50%",)]
