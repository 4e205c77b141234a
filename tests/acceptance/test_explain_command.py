"""`holdtrue explain` as a person meets it: a real process, real servers, an exit code."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from servers.postgres import FreshDatabase
from servers.service import holdtrue

RULES = """
defaults: {database: shop}
invariants:
  - {name: by_key, sql: SELECT id FROM refunds WHERE id = 7}
  - {name: all_of_it, sql: SELECT r.id FROM refunds AS r WHERE r.note = 'x'}
  - {name: broken, sql: SELECT absent FROM refunds}
"""


def command(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return holdtrue("explain", *arguments, cwd=folder, env=environ, timeout=100)


def told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.stdout, done.stderr
    (found,) = json.loads(done.stdout)["explained"]
    return dict(found)


def catalog(folder: Path, database: dict[str, object]) -> Path:
    (folder / "invariants").mkdir()
    (folder / "invariants" / "shop.yaml").write_text(RULES, encoding="utf-8")
    (folder / "holdtrue.yaml").write_text(json.dumps({"databases": {"shop": database}}), encoding="utf-8")
    return folder


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("CREATE TABLE refunds(id INTEGER PRIMARY KEY, note TEXT)")
    connection.executemany("INSERT INTO refunds VALUES (?, 'private-4711')", [(number,) for number in range(1, 301)])
    connection.commit()
    connection.close()
    replica = {"name": "file", "url": "sqlite:///shop.db"}
    return catalog(tmp_path, {"replicas": [replica], "allow_primary": True})


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["by_key"], 0),
        (["all_of_it"], 0),
        (["all_of_it", "--strict"], 0),
        (["all_of_it", "--big-table", "300"], 0),
        (["all_of_it", "--big-table", "300", "--strict"], 1),
        (["all_of_it", "--rows-per-second", "10", "--strict"], 1),
        (["by_key", "--big-table", "1", "--strict"], 0),
        (["broken"], 3),
        (["absent"], 2),
        (["by_key", "--database", "other"], 2),
        (["by_key", "--big-table", "0"], 2),
    ],
)
def test_the_exit_code_says_how_it_went(shop: Path, arguments: list[str], code: int) -> None:
    done = command(shop, *arguments)
    assert done.returncode == code, done.stdout + done.stderr


def test_people_read_the_plan_the_tables_and_the_warnings(shop: Path) -> None:
    done = command(shop, "all_of_it", "--big-table", "300", "--rows-per-second", "10")
    assert "planned in" in done.stdout
    assert "not executed" in done.stdout
    assert "SCAN r" in done.stdout
    assert "about 300" in done.stdout
    assert "all of refunds is read, about 300 rows" in done.stdout
    assert "some 30s at 10 rows a second; the time limit is 10s" in done.stdout
    assert "private-4711" not in done.stdout


def test_programs_read_the_same(shop: Path) -> None:
    found = told(command(shop, "all_of_it", "--big-table", "300", "--format", "json"))
    assert [one["kind"] for one in found["findings"]] == ["whole table"]
    assert found["tables"] == [{"table": "refunds", "rows": 300, "bytes": None}]
    assert (found["reads_rows"], found["reads_at_least"], found["time_limit_seconds"]) == (300, False, 10.0)
    failed = told(command(shop, "broken", "--format", "json"))
    assert failed["failure"]["reason"] == "query failed"
    assert failed["findings"] == []


def test_on_a_standby_the_plan_is_the_servers_own(postgres_database: FreshDatabase, tmp_path: Path) -> None:
    postgres_database.execute(
        [
            "CREATE TABLE refunds(id int PRIMARY KEY, note text)",
            "INSERT INTO refunds SELECT n, 'private-4711' FROM generate_series(1, 3000) AS n",
            "ANALYZE refunds",
        ]
    )
    folder = catalog(tmp_path, {"dialect": "postgresql", "replicas": [{"name": "r1", "url": "${SHOP_URL}"}]})
    done = command(folder, "all_of_it", "--big-table", "3000", SHOP_URL=postgres_database.standby_url)
    assert done.returncode == 0, done.stderr
    assert "asked r1 (standby)" in done.stdout
    assert "Seq Scan on refunds r" in done.stdout
    assert "all of refunds is read, about 3,000 rows" in done.stdout
    broken = command(folder, "broken", SHOP_URL=postgres_database.standby_url)
    assert broken.returncode == 3
    assert "SQLSTATE 42703" in broken.stdout
    assert "at character 8 of the text" in broken.stdout
