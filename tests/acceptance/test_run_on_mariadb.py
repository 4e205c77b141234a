"""`holdtrue check` and `holdtrue run` on MariaDB as a person meets them: a real process, a real replica, an exit code."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from servers.mariadb import FreshMariadb
from servers.postgres import wait_until

INVARIANTS = """
version: 1
defaults: {database: shop, owner: shop-oncall}
invariants:
  - name: one_refund
    sql: SELECT dispute_id, note FROM refunds WHERE state = 'doubled' ORDER BY dispute_id
    key: [dispute_id]
    columns: {dispute_id: safe}
  - name: no_negative
    sql: SELECT dispute_id FROM refunds WHERE amount < 0
    population: SELECT count(*) FROM refunds
  - name: late
    returns: count
    timeout: 1s
    sql: SELECT count(*) FROM refunds WHERE SLEEP(20) = 0
"""
MARKER = "private-4711"


@pytest.fixture
def shop(mariadb_database: FreshMariadb, tmp_path: Path) -> Path:
    """A folder with a catalog on the replica: one violated, one held, one that never ends."""
    mariadb_database.execute(
        [
            "CREATE TABLE refunds(dispute_id varchar(20), state varchar(20), amount int, note text)",
            f"INSERT INTO refunds VALUES ('dsp_1', 'doubled', 1, '{MARKER}'), ('dsp_2', 'doubled', 1, '{MARKER}')",
        ]
    )
    (tmp_path / "invariants").mkdir()
    (tmp_path / "invariants" / "shop.yaml").write_text(INVARIANTS, encoding="utf-8")
    replica = {"name": "r1", "url": "${SHOP_URL}"}
    config = {"databases": {"shop": {"dialect": "mysql", "replicas": [replica]}}}
    (tmp_path / "holdtrue.yaml").write_text(json.dumps(config), encoding="utf-8")
    return tmp_path


def environ(database: FreshMariadb) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDTRUE_")}
    return {**kept, "SHOP_URL": database.replica_url}


def command(folder: Path, database: FreshMariadb, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdtrue", *arguments],
        cwd=folder,
        env=environ(database),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_catalog_for_mariadb_is_checked_without_a_word_about_it(shop: Path, mariadb_database: FreshMariadb) -> None:
    done = command(shop, mariadb_database, "check")
    assert done.returncode == 0, done.stderr
    assert "not offered" not in done.stdout + done.stderr


def test_what_holds_and_what_is_violated_is_told_by_the_exit_code(shop: Path, mariadb_database: FreshMariadb) -> None:
    held = command(shop, mariadb_database, "run", "no_negative")
    assert held.returncode == 0, held.stdout + held.stderr
    done = command(shop, mariadb_database, "run", "one_refund", "no_negative", "--format", "json")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "dsp_1" in done.stdout
    assert MARKER not in done.stdout + done.stderr
    assert MARKER in command(shop, mariadb_database, "run", "one_refund", "--raw").stdout


def test_a_run_that_could_not_look_is_exit_3_and_nothing_runs_on(shop: Path, mariadb_database: FreshMariadb) -> None:
    done = command(shop, mariadb_database, "run", "late")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "timeout after 1 s" in done.stdout
    running = "SELECT count(*) FROM information_schema.processlist WHERE user = 'holdtrue'"
    wait_until(lambda: mariadb_database.replica.value(running) == 0, "no session is left")


def test_ctrl_c_cancels_on_the_server(shop: Path, mariadb_database: FreshMariadb) -> None:
    text = (shop / "invariants" / "shop.yaml").read_text(encoding="utf-8").replace("timeout: 1s", "timeout: 60s")
    (shop / "invariants" / "shop.yaml").write_text(text, encoding="utf-8")
    process = subprocess.Popen(
        [sys.executable, "-m", "holdtrue", "run", "late"],
        cwd=shop,
        env=environ(mariadb_database),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    running = "SELECT count(*) FROM information_schema.processlist WHERE user = 'holdtrue' AND state = 'User sleep'"
    try:
        wait_until(lambda: mariadb_database.replica.value(running) == 1, "the statement runs")
        process.send_signal(signal.SIGINT)
        assert process.wait(20) != 0
        wait_until(lambda: mariadb_database.replica.value(running) == 0, "it was cancelled")
    finally:
        process.kill()
        process.wait()


def test_a_text_that_writes_a_file_is_refused_before_the_server_sees_it(
    shop: Path, mariadb_database: FreshMariadb
) -> None:
    text = INVARIANTS.replace("WHERE amount < 0", "INTO OUTFILE '/tmp/x'")
    (shop / "invariants" / "shop.yaml").write_text(text, encoding="utf-8")
    done = command(shop, mariadb_database, "run", "no_negative")
    assert done.returncode == 2
    assert "writes what it selects (INTO)" in done.stdout + done.stderr
