"""Every shipped invariant is proven by its examples on SQLite, PostgreSQL and MariaDB, and a broken twin of each is caught."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdtrue.cli import run
from holdtrue.demo.place import REPLICA_VARIABLE, Place
from servers.mariadb import ADMIN, MariadbPrimary
from servers.postgres import PostgresPrimary

ROOT = Path(__file__).parents[2]
STARTER = ROOT / "app" / "holdtrue" / "catalog" / "starter"
DEMO = ROOT / "app" / "holdtrue" / "demo" / "invariants" / "refunds.yaml"
URLS = {
    "sqlite": "sqlite:///absent.db",
    "postgresql": "postgresql://nobody@127.0.0.1:1/absent",
    "mysql": "mysql://nobody@127.0.0.1:1/absent",
}
SHIPPED = {"refunds.yaml": ("payments", "refunds.sql"), "starter.yaml": ("app", "starter.sql")}


Tested = Callable[..., tuple[int, dict[str, dict[str, Any]]]]


@pytest.fixture
def holdtrue_test(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    postgres_primary: PostgresPrimary,
    mariadb_primary: MariadbPrimary,
) -> Tested:
    """Run ``holdtrue test`` in a folder: its exit code, and its answers by invariant."""
    for name in [one for one in os.environ if one.startswith("HOLDTRUE_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOLDTRUE_SCRATCH_URL", postgres_primary.url())
    monkeypatch.setenv("HOLDTRUE_SCRATCH_MYSQL_URL", mariadb_primary.url(user=ADMIN))
    monkeypatch.setenv(REPLICA_VARIABLE, URLS["postgresql"])

    def tested(folder: Path) -> tuple[int, dict[str, dict[str, Any]]]:
        monkeypatch.chdir(folder)
        capsys.readouterr()
        code = run(["test", "--require-examples", "--format", "json"])
        said = capsys.readouterr()
        assert said.out, said.err
        return code, {one["invariant"]: one for one in json.loads(said.out)["tested"]}

    return tested


def place(folder: Path, name: str, dialect: str) -> Path:
    """A folder with one shipped file, its schema file, and a database of this dialect that nobody can reach."""
    database, schema = SHIPPED[name]
    (folder / "invariants").mkdir()
    shutil.copy(ROOT / "invariants" / name, folder / "invariants" / name)
    ddl = (ROOT / "schemas" / schema).read_text()
    # MariaDB and MySQL take `key` for a word of their own where it stands alone.
    (folder / schema).write_text(ddl.replace("    key varchar", "    `key` varchar") if dialect == "mysql" else ddl)
    settings = {
        "replicas": [{"name": "r", "url": URLS[dialect]}],
        "schema_file": schema,
        **({"allow_primary": True} if dialect == "sqlite" else {}),
    }
    (folder / "holdtrue.yaml").write_text(json.dumps({"databases": {database: settings}}))
    return folder


@pytest.mark.parametrize("dialect", URLS)
@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_invariant_is_proven(tmp_path: Path, holdtrue_test: Tested, name: str, dialect: str) -> None:
    code, answers = holdtrue_test(place(tmp_path, name, dialect))
    assert {one["result"] for one in answers.values()} == {"proven"}
    assert code == 0
    for one in answers.values():
        assert {example["kind"] for example in one["examples"]} == {"violating", "healthy"}


def test_every_file_that_ships_is_proven_here() -> None:
    assert {path.name for path in (ROOT / "invariants").iterdir()} == set(SHIPPED)
    assert {path.name for path in (ROOT / "schemas").glob("*.sql")} == {schema for _, schema in SHIPPED.values()}


@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
def test_the_demos_invariants_are_proven_on_the_demos_own_tables(
    tmp_path: Path, holdtrue_test: Tested, dialect: str
) -> None:
    Place(tmp_path).write(replica_url=URLS["postgresql"] if dialect == "postgresql" else "")
    code, answers = holdtrue_test(tmp_path)
    assert (code, len(answers)) == (0, 4)


def test_what_init_writes_is_proven_at_once(tmp_path: Path, holdtrue_test: Tested) -> None:
    assert run(["init", str(tmp_path)]) == 0
    code, answers = holdtrue_test(tmp_path)
    assert (code, [one["result"] for one in answers.values()]) == (0, ["proven"])


def test_copies_are_the_same() -> None:
    assert DEMO.read_bytes() == (ROOT / "invariants" / "refunds.yaml").read_bytes()
    assert (STARTER / "schema.sql").read_bytes() == (ROOT / "schemas" / "starter.sql").read_bytes()


TWINS = {
    "one_settled_refund_per_dispute": [("state = 'settled'", "state = 'Settled'"), ("count(*) > 1", "count(*) > 2")],
    "credit_balance_equals_its_log": [("LEFT JOIN credit_log", "JOIN credit_log"), (">= 0.005", ">= 500")],
    "every_receipt_has_one_invoice": [
        ("HAVING count(i.id) <> 1", "HAVING count(i.id) > 1"),
        ("LEFT JOIN invoices i", "JOIN invoices i"),
        ("WHERE r.key IS NULL", "WHERE r.key = i.receipt_key AND 1 = 0"),
    ],
    "no_job_left_in_progress": [
        ("(lease_until IS NULL OR lease_until < CURRENT_TIMESTAMP)", "(lease_until < CURRENT_TIMESTAMP)"),
        ("state = 'in_progress' AND ", ""),
    ],
    "no_paid_order_without_a_positive_total": [("total_cents IS NULL OR", ""), ("state = 'paid' AND", "")],
}


# On MariaDB and MySQL the first twin says the same: their texts are equal whatever the case of a letter.
@pytest.mark.parametrize("dialect", ["sqlite", "postgresql"])
@pytest.mark.parametrize("name", SHIPPED)
def test_a_weakened_or_a_stricter_text_is_caught(
    tmp_path: Path, holdtrue_test: Tested, name: str, dialect: str
) -> None:
    """The likely slips: each is written as an invariant of its own, with the shipped examples, and must fail."""
    folder = place(tmp_path, name, dialect)
    path = folder / "invariants" / name
    head, *blocks = re.split(r"^  - name: ", path.read_text(), flags=re.MULTILINE)
    twins = []
    for block in blocks:
        original = block.partition("\n")[0]
        for number, (before, after) in enumerate(TWINS[original], 1):
            assert before in block
            twins.append(block.replace(original, f"{original[:50]}_{number}", 1).replace(before, after))
    path.write_text(head + "".join(f"  - name: {twin.rstrip()}\n" for twin in twins))
    code, answers = holdtrue_test(folder)
    assert code == 1
    assert len(answers) == len(twins)
    assert {twin: one["result"] for twin, one in answers.items() if one["result"] != "failed"} == {}
