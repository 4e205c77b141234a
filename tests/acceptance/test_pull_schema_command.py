"""`holdtrue pull-schema` on real databases: what it writes makes a scratch database on which `test` works."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdtrue.cli import run
from servers.mariadb import ADMIN, FreshMariadb
from servers.postgres import FreshDatabase, wait_for_replay

INVARIANTS = """
defaults: {database: shop}
invariants:
  - name: no_line_below_zero
    sql: SELECT id FROM sales.lines WHERE amount < 0
    key: [id]
    base_rows: [{table: sales.lines, where: {id: id}}]
    examples:
      violating: [{sales.lines: [{id: 1, order_id: 1, amount: -1, state: open, at: now}]}]
      healthy: [{sales.lines: [{id: 1, order_id: 1, amount: 1, state: open, at: now - 5m}]}]
"""
POSTGRES = [
    "CREATE SCHEMA sales",
    "CREATE TYPE sales.state AS ENUM ('open', 'sh''ut')",
    "CREATE TABLE customers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, email text NOT NULL UNIQUE)",
    (
        "CREATE TABLE sales.orders (id serial PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customers, parent int"
        " REFERENCES sales.orders)"
    ),
    (
        "CREATE TABLE sales.lines (id int PRIMARY KEY, order_id int NOT NULL REFERENCES sales.orders, amount numeric(10, 2)"
        " CHECK (amount > -100), state sales.state NOT NULL, at timestamptz NOT NULL DEFAULT now(), twice numeric"
        " GENERATED ALWAYS AS (amount * 2) STORED)"
    ),
    'CREATE INDEX "an index" ON sales.lines (amount) WHERE amount > 0',
    "CREATE TABLE elsewhere (id int)",
    "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "CREATE TRIGGER watch BEFORE INSERT ON sales.lines FOR EACH ROW EXECUTE FUNCTION nothing()",
    "INSERT INTO customers (email) VALUES ('private-4711@example.com')",
]
SQLITE = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers);
CREATE TABLE "lines" (id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL REFERENCES orders, amount REAL, state TEXT, at TEXT);
CREATE INDEX by_amount ON lines (amount);
CREATE TABLE elsewhere (id INTEGER);
CREATE TRIGGER watch AFTER INSERT ON lines BEGIN SELECT 1; END;
INSERT INTO customers VALUES (1, 'private-4711@example.com');
"""


@dataclass(frozen=True)
class Said:
    """What a command said, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


Holdtrue = Callable[..., Said]


@pytest.fixture
def holdtrue(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Holdtrue:
    """Run a command in the test's folder, in this process; keywords are the environment."""
    for name in [one for one in os.environ if one.startswith("HOLDTRUE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def run_it(*arguments: str, **environ: str) -> Said:
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        capsys.readouterr()
        code = run(arguments)
        said = capsys.readouterr()
        return Said(code, said.out, said.err)

    return run_it


def write(folder: Path, url: str, invariants: str = INVARIANTS, **settings: object) -> None:
    database = {"replicas": [{"name": "r", "url": url}], "schema_file": "shop.sql", **settings}
    (folder / "invariants").mkdir()
    (folder / "invariants" / "a.yaml").write_text(invariants)
    (folder / "holdtrue.yaml").write_text(json.dumps({"databases": {"shop": database}}))


def test_the_schema_of_a_replica_is_written_with_its_parents_and_makes_a_scratch_database(
    tmp_path: Path, holdtrue: Holdtrue, postgres_database: FreshDatabase
) -> None:
    postgres_database.execute(POSTGRES)
    wait_for_replay(postgres_database.replica)
    write(tmp_path, "${SHOP_URL}")
    (tmp_path / "holdtrue.yaml").write_text(
        (tmp_path / "holdtrue.yaml").read_text().replace('"schema_file"', '"dialect": "postgresql", "schema_file"')
    )
    said = holdtrue("pull-schema", "shop", "--out", "shop.sql", SHOP_URL=postgres_database.standby_url)
    assert (said.returncode, said.stdout) == (0, "wrote 3 tables to shop.sql: customers, sales.lines, sales.orders\n")
    assert said.stderr == "left out: trigger watch on lines\n"
    text = (tmp_path / "shop.sql").read_text()
    assert "-- Left out: trigger watch on lines\n" in text
    assert "elsewhere" not in text
    assert "private-4711" not in text
    for part in ("CREATE TYPE sales.state", "'sh''ut'", "GENERATED ALWAYS AS ((amount", 'CREATE INDEX "an index"'):
        assert part in text

    tested = holdtrue(
        "test", HOLDTRUE_SCRATCH_URL=postgres_database.primary.url(), SHOP_URL="postgresql://127.0.0.1:1/x"
    )
    assert tested.returncode == 0, tested.stdout
    assert "note: sales.lines refers to rows of sales.orders that the example leaves out" in tested.stdout


MARIADB = [
    "CREATE TABLE customers (id bigint PRIMARY KEY AUTO_INCREMENT, email varchar(100) NOT NULL UNIQUE)",
    (
        "CREATE TABLE orders (id int PRIMARY KEY, customer_id bigint NOT NULL, parent int,"
        " FOREIGN KEY (customer_id) REFERENCES customers (id), FOREIGN KEY (parent) REFERENCES orders (id))"
    ),
    (
        "CREATE TABLE `lines` (id int PRIMARY KEY, order_id int NOT NULL, amount decimal(10, 2) CHECK (amount > -100),"
        " state enum('open', 'sh''ut') NOT NULL, at timestamp(6) NOT NULL DEFAULT current_timestamp(6),"
        " twice decimal(12, 2) GENERATED ALWAYS AS (amount * 2) STORED, KEY `an index` (amount),"
        " CONSTRAINT of_order FOREIGN KEY (order_id) REFERENCES orders (id))"
    ),
    "CREATE TABLE elsewhere (id int)",
    "CREATE VIEW open_lines AS SELECT id FROM `lines` WHERE state = 'open'",
    "CREATE TRIGGER watch BEFORE INSERT ON `lines` FOR EACH ROW SET @x = 1",
    "INSERT INTO customers (email) VALUES ('private-4711@example.com'), ('private-4712@example.com')",
]


def test_the_schema_of_a_mariadb_replica_makes_a_scratch_database(
    tmp_path: Path, holdtrue: Holdtrue, mariadb_database: FreshMariadb
) -> None:
    mariadb_database.execute(MARIADB)
    invariants = INVARIANTS.replace("sales.lines", "`lines`", 1).replace("sales.lines", "lines")
    invariants += "  - {name: viewed, sql: SELECT id FROM open_lines WHERE id < 0}\n"
    write(tmp_path, "${SHOP_URL}", invariants, dialect="mysql")
    said = holdtrue("pull-schema", "shop", "--out", "shop.sql", SHOP_URL=mariadb_database.replica_url)
    assert (said.returncode, said.stdout) == (0, "wrote 3 tables to shop.sql: customers, lines, orders\n"), said.stderr
    assert said.stderr.splitlines() == [
        "left out: view open_lines, and the tables that it alone reads",
        "left out: triggers: this login may not see whether there are any (that takes the right TRIGGER)",
    ]
    seeing = mariadb_database.replica.url(mariadb_database.name, user=ADMIN)
    assert "left out: trigger watch on lines\n" in holdtrue("pull-schema", "shop", SHOP_URL=seeing).stderr
    text = (tmp_path / "shop.sql").read_text()
    assert "elsewhere" not in text
    assert "private-471" not in text
    assert "AUTO_INCREMENT=" not in text
    for part in (
        "enum('open','sh''ut')",
        "GENERATED ALWAYS AS",
        "CHECK (`amount` > -100)",
        "KEY `an index`",
        "`of_order`",
    ):
        assert part in text
    assert text.index("CREATE TABLE `customers`") < text.index("CREATE TABLE `lines`")

    tested = holdtrue(
        "test", HOLDTRUE_SCRATCH_MYSQL_URL=mariadb_database.primary.url(user=ADMIN), SHOP_URL="mysql://127.0.0.1:1/x"
    )
    assert tested.returncode == 0, tested.stdout
    assert "note: lines refers to rows of orders that the example leaves out" in tested.stdout


def test_the_schema_of_a_file_is_written_byte_for_byte_to_a_pipe(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(SQLITE)
    invariants = INVARIANTS.replace("sales.lines", "lines")
    write(tmp_path, "sqlite:///shop.db", invariants, allow_primary=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDTRUE_")}
    done = subprocess.run(
        [sys.executable, "-m", "holdtrue", "pull-schema", "shop"],
        cwd=tmp_path,
        env={**kept, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"left out: trigger watch on lines" in done.stderr
    text = done.stdout.decode()
    assert text.count("CREATE TABLE") == 3
    assert 'CREATE TABLE "lines" (id INTEGER PRIMARY KEY' in text
    assert "elsewhere" not in text
    assert "private-4711" not in text
    (tmp_path / "shop.sql").write_bytes(done.stdout)
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(text)


def test_what_was_pulled_from_a_file_makes_a_scratch_database(tmp_path: Path, holdtrue: Holdtrue) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(SQLITE)
    write(tmp_path, "sqlite:///shop.db", INVARIANTS.replace("sales.lines", "lines"), allow_primary=True)
    assert holdtrue("test").returncode == 2
    assert holdtrue("pull-schema", "shop", "-o", "shop.sql").returncode == 0
    assert holdtrue("test").returncode == 0


@pytest.mark.parametrize(
    ("arguments", "invariants", "expected"),
    [
        (["nowhere"], INVARIANTS, (2, "there is no database 'nowhere'")),
        (["shop", "--out", "holdtrue.yaml"], INVARIANTS.replace("sales.lines", "lines"), (2, "is there already")),
        (["shop", "--out", "absent/shop.sql"], INVARIANTS.replace("sales.lines", "lines"), (2, "cannot be written")),
        (["shop"], INVARIANTS.replace("sales.lines", "absent"), (3, "none of the tables was found: absent")),
        (
            ["shop"],
            INVARIANTS.replace("FROM sales.lines", "FROM absent JOIN lines ON true").replace("sales.lines", "lines"),
            (3, "not to be seen with this login: absent"),
        ),
        (
            ["shop"],
            "defaults: {database: shop}\ninvariants: [{name: a, sql: SELECT 1 AS id WHERE 1 = 0}]",
            (2, "no invariant"),
        ),
    ],
)
def test_what_cannot_be_told_is_said(
    tmp_path: Path, holdtrue: Holdtrue, arguments: list[str], invariants: str, expected: tuple[int, str]
) -> None:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(SQLITE)
    write(tmp_path, "sqlite:///shop.db", invariants, allow_primary=True)
    said = holdtrue("pull-schema", *arguments)
    assert said.returncode == expected[0], said.stderr
    assert expected[1] in said.stderr


def test_a_replica_that_does_not_answer_was_not_asked(tmp_path: Path, holdtrue: Holdtrue) -> None:
    write(tmp_path, "sqlite:///absent.db", allow_primary=True)
    said = holdtrue("pull-schema", "shop", "--out", "shop.sql")
    assert (said.returncode, said.stdout) == (3, "")
    assert not (tmp_path / "shop.sql").exists()


def test_a_hostile_name_stays_within_its_comment(tmp_path: Path, holdtrue: Holdtrue) -> None:
    """A trigger's name with a line break must not become SQL of the schema file."""
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.executescript(SQLITE)
        connection.execute('CREATE TRIGGER "x\nDROP TABLE lines; --" AFTER INSERT ON lines BEGIN SELECT 1; END')
        connection.commit()
    write(tmp_path, "sqlite:///shop.db", INVARIANTS.replace("sales.lines", "lines"), allow_primary=True)
    said = holdtrue("pull-schema", "shop", "--out", "shop.sql")
    assert said.returncode == 0
    assert "DROP TABLE lines" not in [line[:16] for line in (tmp_path / "shop.sql").read_text().splitlines()]
    assert "x\\nDROP TABLE lines; --" in said.stderr
    assert holdtrue("test").returncode == 0
