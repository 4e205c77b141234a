"""A scaffold wired in every honest and dishonest way, by a real pytest on a real server: only right fixes pass."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

import pytest

from holdtrue.model import TableRows
from holdtrue.scaffolding import TicketContext, render
from racy import schema
from racy.promoted import REFUND, TWO_REFUNDS
from servers.postgres import PostgresPrimary

TESTS = Path(__file__).parents[1]
PYTEST = (sys.executable, "-m", "pytest", "-q", "--import-mode=importlib", "-p", "no:cacheprovider")
FAILED = TableRows("refunds", REFUND, (("1", "dsp_1", "40.00", "failed"),))
INCIDENT = replace(TWO_REFUNDS, id="refunds_7", seed=(*TWO_REFUNDS.seed, FAILED))
CONFTEST = """
import pathlib
import pytest
from holdtrue.testing import schema_from_sql_file

@pytest.fixture
def barrier_schema():
    return schema_from_sql_file(pathlib.Path(__file__).with_name("schema.sql"))
"""
CODE = {
    "buggy": "from racy import duplicate; duplicate.buggy(db.engine)",
    "no_op": "pass",
    "dropped_coroutine": "import asyncio; dropped = asyncio.sleep(0); dropped.close()",
    "raising": "raise RuntimeError('always')",
    "skipping": "import pytest; pytest.skip('not today')",
    "sleep": "from racy import duplicate; duplicate.wrong_sleep(db.engine)",
    "not_exists": "from racy import duplicate; duplicate.wrong_not_exists(db.engine)",
    "lock": "from racy import duplicate; duplicate.right_lock_parent(db.engine)",
    "awaited_buggy": "from racy import awaited; return awaited.buggy(db.async_engine)",
    "awaited_lock": "from racy import awaited; return awaited.right_lock_parent(db.async_engine)",
    "serializable": "from racy import duplicate; duplicate.right_serializable(db.engine)",
    "unique_index": "from racy import duplicate; duplicate.right_unique_index(db.engine)",
    "reading_only": "from sqlalchemy import text\n    with db.engine.begin() as c: c.execute(text('SELECT 1 FROM refunds'))",
    "not_listened_to": "from psycopg import pq\n    c = pq.PGconn.connect(db.libpq_url.encode()); c.exec_("
    "b\"INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'failed')\"); c.finish()",
    "another_thread": "import threading; from racy import duplicate\n"
    "    t = threading.Thread(target=duplicate.buggy, args=(db.engine,)); t.start(); t.join()",
    "one_connection": "from racy import duplicate; from sqlalchemy import create_engine\n"
    "    global E; E = globals().get('E') or create_engine(db.url, pool_size=1, max_overflow=0); duplicate.buggy(E)",
    "elsewhere": "from racy import duplicate; from sqlalchemy import create_engine, NullPool\n"
    "    duplicate.buggy(create_engine(db.sqlalchemy_url.set(database='postgres'), poolclass=NullPool))",
    "left_open": "from racy import duplicate; duplicate.right_lock_parent(db.engine)\n"
    "    from sqlalchemy import text; c = db.engine.connect(); c.execute(text('SELECT * FROM refunds'))\n"
    "    globals().setdefault('OPEN', []).append(c)",
}


@dataclass(frozen=True)
class Ran:
    """How one test of the subprocess ended."""

    outcome: str
    message: str


@pytest.fixture(scope="module")
def ran(postgres_primary: PostgresPrimary, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ran]:
    """Every wiring in a folder of its own, all run by one pytest process with the plugin that is installed."""
    root = tmp_path_factory.mktemp("wirings")
    (root / "schema.sql").write_text(schema.POSTGRESQL, encoding="utf-8")
    (root / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (root / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    for name in ("unwired", "edited", "without_schema", "moved_on", *CODE):
        folder = root / name
        folder.mkdir()
        files = render(INCIDENT, TicketContext(7, datetime(2026, 11, 29, tzinfo=UTC), "ana"))
        for path, text in files.items():
            (folder / path).write_text(text, encoding="utf-8")
        test = folder / f"test_incident_{INCIDENT.id}.py"
        body = CODE.get("buggy" if name in ("edited", "moved_on") else name)
        if body is not None:
            lines = test.read_text(encoding="utf-8").splitlines()
            wired = [f"    {body}" if "raise NotWired(" in line else line for line in lines]
            test.write_text("\n".join(wired), encoding="utf-8")
    edited = root / "edited" / "incident.json"
    edited.write_text(edited.read_text(encoding="utf-8").replace("count(*) > 1", "count(*) > 2"), encoding="utf-8")
    (root / "without_schema" / "conftest.py").write_text(
        "from holdtrue.testing.plugin import barrier_schema  # noqa: F401\n", encoding="utf-8"
    )
    for name, sql in (
        ("unique_index", schema.POSTGRESQL + schema.UNIQUE),
        ("moved_on", schema.POSTGRESQL + "ALTER TABLE refunds RENAME COLUMN state TO status"),
    ):
        (root / name / "conftest.py").write_text(CONFTEST, encoding="utf-8")
        (root / name / "schema.sql").write_text(sql, encoding="utf-8")
    environ = {**os.environ, "HOLDTRUE_BARRIER_URL": postgres_primary.url(), "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [*PYTEST, "--continue-on-collection-errors", "--junitxml=r.xml", "--durations=8"],
        cwd=root,
        env=environ,
        capture_output=True,
        check=False,
        timeout=110,
    )
    print(done.stdout[-1500:].decode())  # pytest shows it only where a test fails
    return read(root / "r.xml")


def read(report: Path) -> dict[str, Ran]:
    outcomes = {}
    for case in ElementTree.parse(report).getroot().iter("testcase"):  # noqa: S314  pytest wrote it just now
        name = (case.get("classname") or case.get("name") or "").split(".")[0]
        kinds = {child.tag: (child.get("message") or "") + (child.text or "") for child in case}
        outcome = next((kind for kind in ("failure", "error", "skipped") if kind in kinds), "passed")
        outcomes[name] = Ran(outcome, kinds.get(outcome, ""))
    return outcomes


def test_every_wiring_was_run(ran: dict[str, Ran]) -> None:
    assert set(ran) == {"unwired", "edited", "without_schema", "moved_on", *CODE}


@pytest.mark.parametrize("name", ["lock", "awaited_lock", "serializable", "unique_index"])
def test_a_right_fix_passes(name: str, ran: dict[str, Ran]) -> None:
    assert ran[name].outcome == "passed", ran[name].message


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("unwired", "wire run_a to the code that wrote"),
        ("without_schema", "no barrier_schema"),
        ("buggy", "violated: one_settled_refund_per_dispute returned 1 row"),
        ("awaited_buggy", "violated: one_settled_refund_per_dispute returned 1 row"),
        ("sleep", "violated: "),
        ("not_exists", "violated: "),
        ("no_op", "run_a sent no statement that could be held"),
        ("dropped_coroutine", "a coroutine neither returned nor awaited?"),
        ("raising", "run_a alone failed with RuntimeError"),
        ("skipping", "run_a alone failed with Skipped"),
        ("reading_only", "run_a alone changed nothing in accounts, disputes, refunds"),
        ("not_listened_to", "run_a sent no statement that could be held"),
        ("another_thread", "a thread that no party owns"),
        ("one_connection", "pool_size=2"),
        ("elsewhere", "not to the barrier database; give it db.url, or bind its sessions to db.engine"),
        ("left_open", "left a transaction open"),
        ("moved_on", "schema moved on: the seed no longer loads: refunds has no column state"),
    ],
)
def test_whatever_tests_nothing_or_breaks_the_rule_fails_and_says_why(
    name: str, says: str, ran: dict[str, Ran]
) -> None:
    """semantics 9: unwired, a no-op, an always-raising operation, wrong fixes; a failure, never a skip."""
    assert ran[name].outcome == "failure", ran[name]
    assert says in ran[name].message


def test_an_edited_frozen_block_errors_before_anything_runs(ran: dict[str, Ran]) -> None:
    """semantics 9.6."""
    assert ran["edited"].outcome == "error"
    assert "was edited" in ran["edited"].message


def test_a_failure_shows_the_schedule_in_time_order_and_the_line_that_replays_it(ran: dict[str, Ran]) -> None:
    message = ran["buggy"].message
    assert "schedule A1: A is held after its step 1, B runs whole, then A" in message
    assert "A  SELECT refunds" in message
    assert "B  INSERT refunds" in message
    assert message.index("B  COMMIT") < message.index("A  INSERT refunds")
    assert f"pytest buggy/test_incident_{INCIDENT.id}.py::test_incident_{INCIDENT.id} --holdtrue-schedule A1" in message
