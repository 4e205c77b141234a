"""The field's cases about SQL and drivers, from YAML to a judged run, on a real MariaDB replica."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

import casebook
from holdtrue.errors import CatalogRefused
from holdtrue.model import Failure, FailureReason, Outcome
from servers.mariadb import FreshMariadb
from servers.stage import Played, Stage, unchecked

COUNTED = ["014", "015", "017", "025", "027", "029", "032", "067", "068"]
ASKED_APART = {"033", "034", "037"}


class _Mysql(Stage):
    """Cases on MariaDB alone."""

    def __init__(self, server: FreshMariadb, folder: Path) -> None:
        self.server = server
        self.folder = folder
        self._open = []

    def on(self, number: str, **invariant: object) -> Played:
        return self.mysql(casebook.case(number), self.server, **invariant)


@pytest.fixture
def stage(mariadb_database: FreshMariadb, tmp_path: Path) -> Iterator[_Mysql]:
    stage = _Mysql(mariadb_database, tmp_path)
    yield stage
    stage.close()


def test_every_case_for_mysql_is_played_here() -> None:
    found = {one.id for one in casebook.all_cases() if one.setup_sql("mysql")}
    assert found == {*COUNTED, *ASKED_APART}


@pytest.mark.parametrize("number", COUNTED)
def test_a_case_on_mariadb_gives_the_count_that_a_bare_driver_sees(stage: _Mysql, number: str) -> None:
    """Semantics 3.1: the text is run untouched."""
    examined = stage.on(number).run()
    assert examined.outcome is Outcome.VIOLATED
    assert examined.complete
    assert examined.tallied.counted == casebook.case(number).expect["count"]


def test_case_027_and_032_order_and_null_stay_on_mariadb(stage: _Mysql) -> None:
    assert [row[0] for row in stage.on("027").run().tallied.sample.rows] == ["2", "4"]
    examined = stage.on("032").run()
    assert sorted(examined.tallied.sample.rows, key=str) == [("7", None), (None, None)]


def test_case_029_both_columns_of_one_name_are_shown_on_mariadb(stage: _Mysql) -> None:
    played = stage.on("029", columns={"id": "safe", "id_2": "safe"})
    assert played.run().tallied.sample.columns == ("id", "id_2", "owner", "owner_2")
    assert played.rows == [("1", "1", "10", "11")]


def test_case_033_a_null_count_on_mariadb_says_what_to_write(stage: _Mysql) -> None:
    """Semantics 1.5."""
    examined = stage.on("033").run()
    assert examined.failure is not None
    assert examined.failure.reason is FailureReason.NULL_COUNT


def test_case_034_a_bare_count_for_mariadb_is_refused_and_as_a_count_it_holds(stage: _Mysql) -> None:
    """Semantics 1.5."""
    with pytest.raises(CatalogRefused) as refused:
        stage.on("034")
    assert any("returns: count" in str(one) for one in refused.value.problems)
    again = casebook.Case({**casebook.case("034").raw, "setup_sql": {}})
    examined = stage.mysql(again, stage.server, returns="count", columns=None).run()
    assert (examined.outcome, examined.tallied.counted) == (Outcome.HELD, 0)


def test_case_037_two_statements_are_refused_by_catalog_and_mariadb_alike(stage: _Mysql) -> None:
    """Semantics 3.2."""
    case = casebook.case("037")
    with pytest.raises(CatalogRefused):
        stage.on("037")
    harmless = casebook.Case(
        {**case.raw, "setup_sql": {}, "invariant": {**case.raw["invariant"], "sql": "SELECT 1 AS id FROM invoices"}}
    )
    examined = unchecked(stage.mysql(harmless, stage.server), case.sql("mysql")).run()
    assert examined.outcome is Outcome.ERRORED
    assert examined.tallied.returned == 0


def test_case_067_zero_and_partial_dates_are_shown_and_are_no_null(stage: _Mysql) -> None:
    played = stage.on("067")
    played.run()
    assert played.rows == [("1", "0000-00-00", "2016-00-00 00:00:00"), ("2", None, None)]


def test_case_068_odd_types_are_the_servers_own_text(stage: _Mysql) -> None:
    played = stage.on("068")
    played.run()
    shown = dict(zip(played.columns, played.rows[0], strict=True))
    assert shown == {
        "id": "1",
        "tm": "838:59:59",
        "b": "x'aa'",
        "v": "x'00ff'",
        "u": "18446744073709551615",
        "y": "2024",
        "s": "a,b",
    }


TYPES = {
    "tiny": ("tinyint", "-7", "-7"),
    "exact": ("decimal(30,10)", "12345678901234567890.1234567890", "12345678901234567890.1234567890"),
    "wide": ("double", "1e308", "1e308"),
    "moment": ("timestamp(6) NULL", "'2024-10-27 00:30:00.5'", "2024-10-27 00:30:00.500000"),
    "kept": ("datetime", "'2024-10-27 02:30:00'", "2024-10-27 02:30:00"),
    "back": ("time(3)", "'-838:59:58.5'", "-838:59:58.500"),
    "doc": ("json", """'{"k": [1, 1.10, null]}'""", '{"k": [1, 1.10, null]}'),
    "word": ("varchar(20) CHARACTER SET latin1", "'café'", "café"),
    "face": ("text", "'😀 \\0'", "😀 \0"),
    "choice": ("enum('a','b')", "'b'", "b"),
    "blobbed": ("blob", "x'f09f9880'", "x'f09f9880'"),
    "absent": ("int", "NULL", None),
    "empty": ("varchar(5)", "''", ""),
    "known": ("uuid", "'123e4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000"),
    "address": ("inet6", "'::1'", "::1"),
}


def test_every_other_type_is_the_servers_own_text_too(stage: _Mysql) -> None:
    """Cells are never converted: what the server says is what is shown and hashed."""
    made = ", ".join(f"{name} {kind}" for name, (kind, _, _) in TYPES.items())
    values = ", ".join(written for _, written, _ in TYPES.values())
    case = casebook.case("068")
    setup = ["DROP TABLE IF EXISTS odd", f"CREATE TABLE odd({made})", f"INSERT INTO odd VALUES ({values})"]
    played = stage.mysql(casebook.Case({**case.raw, "setup_sql": {"mysql": setup}}), stage.server, columns=None)
    played.run()
    assert dict(zip(played.columns, played.rows[0], strict=True)) == {
        name: shown for name, (_, _, shown) in TYPES.items()
    }


PASSWORD = "p@ss:w/o#rd?%41&x=1 {y} 'z' ü"


def test_case_074_a_password_for_mariadb_may_have_any_character(stage: _Mysql) -> None:
    case = casebook.case("074")
    server = stage.server
    doubled = PASSWORD.replace("'", "''")
    server.execute([f"CREATE USER '{server.name}'@'%' IDENTIFIED BY '{doubled}'"])
    server.execute([f"GRANT SELECT, SLAVE MONITOR ON *.* TO '{server.name}'@'%'"])
    address = f"127.0.0.1:{server.replica.port}/{server.name}"
    try:
        apart = {"name": "r1", "url": f"mysql://{server.name}@{address}", "password": "${WORD}"}
        inside = {"name": "r1", "url": f"mysql://{server.name}:${{ENCODED}}@{address}"}
        environ = {"WORD": PASSWORD, "ENCODED": quote(PASSWORD, safe="")}
        for replica in (apart, inside):
            config = json.dumps({"databases": {casebook.DATABASE: {"replicas": [replica]}}})
            played = stage.played(case, "mysql", config, environ, {})
            assert played.run().outcome is Outcome.HELD
            played.databases.close()
            wrong = stage.played(case, "mysql", config, {"WORD": "wrong", "ENCODED": "wrong"}, {}).look()
            assert isinstance(wrong, Failure)
            assert wrong.sentence == "connection refused: wrong user or password"
        broken = stage.played(case, "mysql", config.replace("${ENCODED}", "${BROKEN}"), {"BROKEN": PASSWORD}, {}).look()
        assert isinstance(broken, Failure)
        assert "w/o" not in repr(broken)
    finally:
        server.execute(f"DROP USER '{server.name}'@'%'")
