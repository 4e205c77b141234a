"""Values of every type survive, from the evidence of a real look through the frozen block into a barrier database."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest

from holdtrue.databases import Databases
from holdtrue.model import BaseRows, Incident
from holdtrue.testing import BarrierDatabase
from scenes.promoting import RULE, SCRATCH, catalog, incident_of, look, opened_house, promote, save
from servers.invariants import postgres_config, sqlite_config
from servers.postgres import FreshDatabase, PostgresPrimary
from stores import House

HOSTILE = "E'\\'\"\\\\ %s %(x)s :x $$ \\u2028 \\U0001F4A5 \\t\\n\\r \\x01 NULL'"
PREPARING = (
    "CREATE SCHEMA aside",
    "CREATE EXTENSION hstore",
    "CREATE EXTENSION citext",
    'CREATE SCHEMA "odd "" schema"',
    "CREATE TYPE mood AS ENUM ('sad', 'o''k', 'a \"b\"', 'ü')",
    "CREATE DOMAIN euros AS numeric(12,2) CHECK (VALUE >= 0)",
    'CREATE TYPE pair AS ("a b" int, label text)',
    "CREATE TYPE nest AS (p pair, m mood, at timestamptz)",
    "CREATE DOMAIN pairs AS pair[]",
    'CREATE TYPE "odd "" schema"."odd type" AS ENUM (\'x\')',
    "CREATE TYPE float_range AS RANGE (subtype = float8, subtype_diff = float8mi)",
)
# Each type with three values, as SQL writes them.
TYPES: dict[str, tuple[str, str, str]] = {
    "smallint": ("-32768", "0", "32767"),
    "integer": ("-2147483648", "1", "2147483647"),
    "bigint": ("-9223372036854775808", "9007199254740993", "9223372036854775807"),
    "numeric": ("'NaN'", "'-Infinity'", "0.00000000000000000000123456789012345678901234567890"),
    "numeric(12,2)": ("'NaN'", "-0.10", "9999999999.99"),
    "real": ("'-0'", "'Infinity'", "1.1754944e-38"),
    "double precision": ("'-0'", "'NaN'", "0.1::float8 + 0.2"),
    "money": ("'-92233720368547758.08'", "0", "40"),
    "boolean": ("true", "false", "true"),
    "text": (HOSTILE, "''", "'NULL'"),
    "character varying(40)": (HOSTILE, "'  x  '", "'ß'"),
    "character(5)": ("'a'", "''", "'abcde'"),
    '"char"': ("'a'", "''", "'\\'"),
    "name": ("'n'", "'\"'", "''"),
    "bytea": ("'\\x'", "'\\x00ff275c'", "'\\xdeadbeef'"),
    "date": ("'infinity'", "'0044-03-15 BC'", "'5874897-12-31'"),
    "time": ("'24:00:00'", "'00:00'", "'23:59:59.999999'"),
    "time with time zone": ("'24:00:00-15:59'", "'00:00+15:59'", "'12:00:00.5+05:45'"),
    "timestamp": ("'-infinity'", "'4713-01-01 00:00 BC'", "'294276-12-31 23:59:59.999999'"),
    "timestamptz": ("'infinity'", "'0044-03-15 12:00:00+00 BC'", "'2026-11-29 01:30:00.000001+00'"),
    "interval": ("'-1 year 2 mons -3 days 04:05:06.789'", "'1 day -00:00:01'", "'178000000 years'"),
    "uuid": ("gen_random_uuid()", "'00000000-0000-0000-0000-000000000000'", "gen_random_uuid()"),
    "json": ('\'{"b" :1,  "a":[1.0e0,null],"a":2}\'', "'null'", "'\"\\u2028\"'"),
    "jsonb": ('\'{"b" :1, "a":[1.0,null], "n":1e400}\'', "'[]'", '\'"\\\\u0041 \\" x"\''),
    "integer[]": ("'{}'", "'{1,NULL,-3}'", "'[0:1]={5,6}'"),
    "text[]": ('\'{NULL,"NULL","","a,b","{}"}\'', f"ARRAY[{HOSTILE}]", "'{{a,b},{c,d}}'"),
    "numeric[]": ("'{NaN,Infinity,1e-10}'", "'{{{1},{2}},{{3},{4}}}'", "'{}'"),
    "timestamptz[]": ("'{infinity,\"0044-03-15 12:00:00+00 BC\"}'", "'{NULL}'", "'{}'"),
    "int4range": ("'empty'", "'(,)'", "'[1,5)'"),
    "numrange": ("'(1.5,NaN)'", "'[1.5,2.5]'", "'(,3)'"),
    "tstzrange": ("'[-infinity,infinity]'", "'[2026-01-01 00:00+00,)'", "'empty'"),
    "daterange": ("'[2026-01-01,2026-01-01]'", "'(,)'", "'empty'"),
    "int4multirange": ("'{}'", "'{[1,3),[7,9)}'", "'{(,1),[5,)}'"),
    "datemultirange": ("'{[2026-01-01,2026-02-01)}'", "'{}'", "'{(,)}'"),
    "mood": ("'sad'", "'o''k'", "'a \"b\"'"),
    "mood[]": ('\'{sad,"a \\"b\\"",NULL}\'', "'{}'", "'{{ü},{sad}}'"),
    "euros": ("0", "40.00", "9999999999.99"),
    "pair": (f"ROW(1, {HOSTILE})::pair", "ROW(NULL, NULL)::pair", "ROW(2, '')::pair"),
    "nest": (
        f"ROW(ROW(1, {HOSTILE})::pair, 'o''k', 'infinity')::nest",
        "ROW(NULL, NULL, NULL)::nest",
        "ROW(ROW(NULL, '()')::pair, 'ü', '2026-01-01')::nest",
    ),
    "pairs": ("ARRAY[ROW(1, 'a,b')::pair, NULL]", "'{}'", f"ARRAY[ROW(NULL, {HOSTILE})::pair]"),
    '"odd "" schema"."odd type"': ("'x'", "NULL", "'x'"),
    "float_range": ("'[0.1,Infinity]'", "'empty'", "'(,1e308)'"),
    "hstore": ('\'a=>NULL, "b c"=>"NULL"\'', "''", "hstore('q\"', E'\\'\\\\')"),
    "citext": ("'AbC'", "''", HOSTILE),
    "inet": ("'::1/64'", "'10.0.0.1/8'", "'2001:db8::ff'"),
    "cidr": ("'10.0.0.0/8'", "'::/0'", "'192.168.0.0/24'"),
    "macaddr": ("'08:00:2b:01:02:03'", "'ff:ff:ff:ff:ff:ff'", "'00:00:00:00:00:00'"),
    "macaddr8": ("'08:00:2b:01:02:03:04:05'", "'ff:ff:ff:ff:ff:ff:ff:ff'", "'08:00:2b:ff:fe:01:02:03'"),
    "bit(8)": ("B'10101010'", "B'00000000'", "B'11111111'"),
    "bit varying": ("B''", "B'101'", "B'0'"),
    "tsvector": ("'a:1A ''b c'':2,3B'", "''", "to_tsvector('simple', 'x y')"),
    "tsquery": ("'a & !(b:*A | c)'", "'a <2> b'", "''"),
    "jsonpath": ('\'$.a[*] ? (@ > 1 && @.b == "x\\"y")\'', "'strict $'", "'$'"),
    "pg_lsn": ("'16/B374D848'", "'0/0'", "'FFFFFFFF/FFFFFFFF'"),
    "point": ("'(1e-300,-0)'", "'(Infinity,NaN)'", "'(1,2)'"),
    "line": ("'{1,-1,0}'", "'{0,1,2}'", "'{1,0,0.1}'"),
    "lseg": ("'[(0,0),(1,1)]'", "'[(0.1,0),(1,1)]'", "'[(0,0),(0,0)]'"),
    "box": ("'(1,1),(0,0)'", "'(0.5,1),(0,0)'", "'(0,0),(0,0)'"),
    "path": ("'[(0,0),(1,1)]'", "'((0,0),(1,1))'", "'[(0,0)]'"),
    "polygon": ("'((0,0),(1,1),(1,0))'", "'((0,0))'", "'((0.1,0.2),(3,4))'"),
    "circle": ("'<(0,0),1>'", "'<(0.1,0),0>'", "'<(1,1),1e10>'"),
    "oid": ("4294967295", "0", "1"),
    "xid8": ("'18446744073709551615'", "'0'", "'3'"),
    "pg_snapshot": ("'10:20:10,14'", "'1:1:'", "'5:9:7'"),
}
NAMES = {kind: f'c{number} {kind} "%s" \') -- ; {{x}}'[:50] for number, kind in enumerate(TYPES)}
TABLE = 'every "%s" type; --'


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@pytest.fixture
def house(sqlite_url: str) -> Iterator[House]:
    with opened_house(sqlite_url) as made:
        yield made


def text_of(connection: psycopg.Connection[tuple[object, ...]], extra: str = "") -> list[tuple[object, ...]]:
    """Everything as the server writes it, and sixty-four bits of each value as the server hashes it, where it can."""
    cells = ", ".join(f"{quoted(name)}::text" for name in NAMES.values())
    return connection.execute(f"SELECT id::text, {cells}{extra} FROM {quoted(TABLE)} ORDER BY id".encode()).fetchall()


def test_a_value_of_every_postgresql_type_is_loaded_as_it_was(
    postgres_database: FreshDatabase, postgres_primary: PostgresPrimary, house: House, tmp_path: Path
) -> None:
    """semantics 9.1, 9.4: server text under pinned settings, read by the column's own input function."""
    assert len(TYPES) >= 40
    columns = ", ".join(f"{quoted(NAMES[kind])} {kind}" for kind in TYPES)
    postgres_database.execute(
        [
            *PREPARING,
            "CREATE SEQUENCE aside.numbers",
            f"CREATE TABLE {quoted(TABLE)} (id int PRIMARY KEY, broken boolean NOT NULL, {columns})",
            f'ALTER TABLE {quoted(TABLE)} ADD "made by the server" int GENERATED ALWAYS AS (id * 2) STORED',
            f"ALTER TABLE {quoted(TABLE)} ADD counted bigint DEFAULT nextval('aside.numbers')",
        ]
    )
    databases = Databases(environ={})
    databases.configure([postgres_config(postgres_database.standby_url, timezone="Asia/Kathmandu")])
    rule = replace(
        RULE,
        sql=f"SELECT broken::text AS kind, count(*) AS n FROM {quoted(TABLE)} WHERE broken GROUP BY broken HAVING count(*) > 2",
        key=("kind",),
        columns=frozenset({"kind", "n", *(f"{TABLE}.{name}" for name in ("id", "broken", "counted", *NAMES.values()))}),
        base_rows=(BaseRows(quoted(TABLE), (("broken", "kind"),)),),
    )
    save(house, look(databases, rule))
    with postgres_database.connect() as connection:
        for number in range(3):
            values = ", ".join(TYPES[kind][number] for kind in TYPES)
            names = ", ".join(quoted(NAMES[kind]) for kind in TYPES)
            connection.execute(
                f"INSERT INTO {quoted(TABLE)} (id, broken, {names}) VALUES ({number}, true, {values})".encode()
            )
    postgres_database.execute([])
    alert = save(house, look(databases, rule))
    databases.close()
    SCRATCH["HOLDTRUE_SCRATCH_URL"] = postgres_primary.url()
    ticket = promote(house, catalog(rule), alert, by="ana")
    files = dict(ticket.files)
    assert '"result": "breaks"' in files["ticket.json"], files["ticket.json"]
    incident: Incident = incident_of(ticket, tmp_path / "t").incident

    def build(url: str) -> None:
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute(files["incident_schema.sql"].encode())

    database = BarrierDatabase("postgresql", build, postgres_primary.url)
    pinned = "-c timezone=UTC -c extra_float_digits=1"
    try:
        assert database.control.put(incident.observed) is None
        with (
            psycopg.connect(postgres_database.primary_url, options=pinned) as was,
            psycopg.connect(database.libpq_url, options=pinned) as loaded,
        ):
            before, after = text_of(was), text_of(loaded)
            differing = [
                (kind, one, other)
                for row, there in zip(before, after, strict=True)
                for kind, one, other in zip(("id", *TYPES), row, there, strict=True)
                if one != other
            ]
            assert differing == []
            assert loaded.execute(
                f'SELECT "made by the server" FROM {quoted(TABLE)} ORDER BY id'.encode()
            ).fetchall() == [
                (0,),
                (2,),
                (4,),
            ]
    finally:
        database.close()


SQLITE: dict[str, tuple[str, str, str]] = {
    "INTEGER": ("-9223372036854775808", "9223372036854775807", "9007199254740993"),
    "REAL": ("-0.0", "9e999", "0.1 + 0.2"),
    "TEXT": ("'1'", "'1.0'", "''"),
    "BLOB": ("x''", "x'00ff275c'", "zeroblob(3)"),
    "NUMERIC": ("1", "1.5", "'NULL'"),
    "": ("1", "'1'", "x'31'"),
    "ANYTHING YOU LIKE": ("1.0", "'x'''' \" \\ %s :x ?1 $$'", "'\u2028\u202e💥' || char(0, 1, 10)"),
    "BOOLEAN": ("TRUE", "FALSE", "2"),
    "DATETIME": ("'2026-11-29 12:00:00.123'", "1764417600", "-4713.5"),
    "DECIMAL(12,2)": ("'0.10'", "1e300", "-5e-324"),
}


def test_a_value_of_every_sqlite_storage_class_is_loaded_as_it_was(tmp_path: Path, house: House) -> None:
    """semantics 9.1: the class of each cell, and its value, whatever the column was declared as."""
    path = tmp_path / "monitored.db"
    names = {kind: f'c{number} {kind} "%s" \')--'.replace('"', "'") for number, kind in enumerate(SQLITE)}
    columns = ", ".join(f"{quoted(names[kind])} {kind}" for kind in SQLITE)
    table = "every 'type'; --"
    rule = replace(
        RULE,
        sql=f"SELECT broken, count(*) AS n FROM {quoted(table)} WHERE broken GROUP BY broken HAVING count(*) > 2",
        key=("broken",),
        columns=frozenset({"broken", "n", *(f"{table}.{name}" for name in ("id", "broken", *names.values()))}),
        base_rows=(BaseRows(table, (("broken", "broken"),)),),
    )
    databases = Databases(environ={})
    databases.configure([config := sqlite_config(path)])
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(
            f"CREATE TABLE {quoted(table)} (id INTEGER PRIMARY KEY AUTOINCREMENT, broken INTEGER NOT NULL, {columns},"
            " doubled AS (id * 2), stored AS (id * 3) STORED)"
        )
        save(house, look(databases, rule))
        for number in range(3):
            values = ", ".join(SQLITE[kind][number] for kind in SQLITE)
            given = ", ".join(quoted(names[kind]) for kind in SQLITE)
            connection.execute(f"INSERT INTO {quoted(table)} (broken, {given}) VALUES (1, {values})")
        alert = save(house, look(databases, rule))
    databases.close()
    ticket = promote(house, catalog(rule, config), alert, by="ana")
    files = dict(ticket.files)
    assert '"result": "breaks"' in files["ticket.json"], files["ticket.json"]
    incident: Incident = incident_of(ticket, tmp_path / "t").incident

    def build(url: str) -> None:
        with contextlib.closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(files["incident_schema.sql"])

    database = BarrierDatabase("sqlite", build, lambda: "")
    cells = ", ".join(
        f"typeof({quoted(name)}), quote({quoted(name)})" for name in ("id", "doubled", "stored", *names.values())
    )
    text = f"SELECT {cells} FROM {quoted(table)} ORDER BY id"
    try:
        assert database.control.put(incident.observed) is None
        with contextlib.closing(sqlite3.connect(path)) as was:
            assert database.control.ask(text) == was.execute(text).fetchall()
    finally:
        database.close()


def test_text_that_is_no_utf8_is_named_and_not_passed_off_as_what_it_was(tmp_path: Path) -> None:
    """semantics 9.1: it cannot be written back, so the evidence is incomplete."""
    path = tmp_path / "monitored.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE refunds (dispute_id, state)")
        connection.execute(
            "INSERT INTO refunds VALUES ('d', 'settled'), ('d', 'settled'), ('d', CAST(x'61ff' AS TEXT))"
        )
    databases = Databases(environ={})
    databases.configure([sqlite_config(path)])
    (evidence,) = look(databases).evidence
    databases.close()
    assert evidence.incomplete == "refunds.state holds text that is not UTF-8, kept as it is shown"
