"""Another kind of database as a person meets it: a real process, a DuckDB file, what is offered and what is not."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import duckdb
import pytest

from servers.service import holdtrue

INVARIANTS = """
version: 1
defaults: {database: shop, owner: shop-oncall}
invariants:
  - name: one_refund
    sql: SELECT dispute_id, note FROM refunds WHERE state LIKE 'dou%' ORDER BY dispute_id
    key: [dispute_id]
    columns: {dispute_id: safe}
    examples: {violating: [{refunds: [{dispute_id: a, state: doubled}]}]}
  - name: no_negative
    sql: SELECT dispute_id FROM refunds WHERE amount < 0
    population: SELECT count(*) FROM refunds
"""
MARKER = "private-4711"


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """A folder with a catalog on a DuckDB file: one violated, one held."""
    with duckdb.connect(str(tmp_path / "shop.duckdb")) as connection:
        connection.execute("CREATE TABLE refunds (dispute_id VARCHAR, state VARCHAR, amount INTEGER, note VARCHAR)")
        connection.execute(f"INSERT INTO refunds VALUES ('dsp_1', 'doubled', 1, '{MARKER}')")
    (tmp_path / "invariants").mkdir()
    (tmp_path / "invariants" / "shop.yaml").write_text(INVARIANTS, encoding="utf-8")
    write(tmp_path, f"duckdb:///{tmp_path}/shop.duckdb?access_mode=READ_ONLY")
    return tmp_path


def write(folder: Path, url: str, **settings: object) -> None:
    database = {"replicas": [{"name": "r1", "url": url}], "allow_primary": True, **settings}
    (folder / "holdtrue.yaml").write_text(json.dumps({"databases": {"shop": database}}), encoding="utf-8")


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return holdtrue(*arguments, cwd=folder, timeout=60)


def test_it_is_checked_and_run_and_every_answer_says_that_freshness_is_not_proven(shop: Path) -> None:
    checked = command(shop, "check")
    assert checked.returncode == 0, checked.stderr
    assert "not offered" not in checked.stdout + checked.stderr
    done = command(shop, "run")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "dsp_1" in done.stdout
    assert MARKER not in done.stdout + done.stderr
    assert done.stdout.count("freshness not proven") == 2
    assert MARKER in command(shop, "run", "one_refund", "--raw").stdout


def test_two_forms_are_compared_and_no_snapshot_is_claimed(shop: Path) -> None:
    """Whether a transaction of this kind of database sees one snapshot, nobody told us."""
    for arguments in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *arguments], cwd=shop, check=True, capture_output=True)
    path = shop / "invariants" / "shop.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace("'dou%'", "'trebled%'"), encoding="utf-8")
    done = command(shop, "diff", "one_refund")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "in one transaction; whether that sees one snapshot, nobody knows" in done.stdout
    (one,) = json.loads(command(shop, "diff", "one_refund", "--format", "json").stdout)["databases"]
    assert one["one_snapshot"] is False


def test_what_is_not_offered_says_so(shop: Path) -> None:
    tested = command(shop, "test", "one_refund")
    assert (tested.returncode, "not offered" in tested.stdout) == (3, True), tested.stdout
    pulled = command(shop, "pull-schema", "shop")
    assert (pulled.returncode, "not offered" in pulled.stderr) == (3, True), pulled.stderr


def test_a_missing_driver_is_named_with_the_package_at_check_and_at_run(shop: Path) -> None:
    write(shop, "oracle://holdtrue@127.0.0.1:1/shop")
    for arguments, code in ((("check",), 0), (("run", "no_negative"), 3)):
        done = command(shop, *arguments)
        assert done.returncode == code, done.stdout + done.stderr
        assert "no driver for oracle is installed here: pip install oracledb" in done.stdout + done.stderr


def test_a_replica_cannot_be_told_from_a_primary_so_it_must_be_said(shop: Path) -> None:
    write(shop, f"duckdb:///{shop}/shop.duckdb", allow_primary=False)
    done = command(shop, "check")
    assert done.returncode == 2
    assert "write `allow_primary: true`" in done.stdout + done.stderr
