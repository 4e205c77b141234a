"""The line that a failure prints plays exactly that schedule again, by a real pytest (semantics 9.5)."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from pytesting import run_pytest
from servers.postgres import PostgresPrimary

TESTS = Path(__file__).parents[1]
CONFTEST = """
import pytest
from racy import schema

@pytest.fixture
def barrier_schema():
    return schema.build
"""
CODE = """
import pytest


@pytest.mark.parametrize("customer", ["it's $HOME `id`; a b"])
def test_sweep(barrier_db, customer):
    from holdtrue.testing import race
    from racy import duplicate, schema

    def run():
        duplicate.buggy(barrier_db.engine)

    race(a=run, b=run, c=run, invariant=schema.ONE_SETTLED, db=barrier_db).assert_holds()


def test_order(barrier_db):
    from holdtrue.testing import force_order, race
    from racy import duplicate, schema

    def run():
        duplicate.buggy(barrier_db.engine)

    order = force_order("A: SELECT refunds", "B: SELECT refunds", "A: INSERT refunds")
    race(a=run, b=run, invariant=schema.ONE_SETTLED, db=barrier_db, hold=order).assert_holds()


def test_infeasible(barrier_db):
    from holdtrue.testing import force_order
    from racy import duplicate

    def run():
        duplicate.wrong_not_exists(barrier_db.engine)

    order = force_order("A: SELECT refunds", "B: COMMIT")
    order.run(A=run, B=run)
    order.assert_reached()


def test_late(barrier_db):
    from holdtrue.testing import late_effect, race
    from racy import late, schema

    def run():
        late.buggy(barrier_db.engine)

    plan = late_effect("ask_provider", on_timeout=lambda: late.mark_failed(barrier_db.engine))
    race(a=run, b=run, invariant=schema.ONE_SETTLED, db=barrier_db, hold=plan).assert_holds()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where somebody starts pytest: a part of a larger project."""
    part = tmp_path / "backend"
    part.mkdir()
    (part / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (part / "test_them.py").write_text(CODE, encoding="utf-8")
    return part


def test_the_printed_line_plays_that_schedule_and_no_other(folder: Path, postgres_primary: PostgresPrimary) -> None:
    environ = {"HOLDTRUE_BARRIER_URL": postgres_primary.url(), "PYTHONPATH": str(TESTS)}

    def run(*arguments: str) -> str:
        done = run_pytest("--tb=short", *arguments, folder=folder, **environ)
        assert done.returncode == 1, done.stdout + done.stderr
        return done.stdout

    def played(output: str) -> list[str]:
        """Each schedule that is shown, whole."""
        return re.findall(r"schedule [\w.]+: .*?replay: [^\n]+", output.partition("short test summary")[0], re.DOTALL)

    first = played(run())
    lines = [shlex.split(one.rpartition("replay: pytest ")[2]) for one in first]
    assert [line[-2:] for line in lines] == [
        ["--holdtrue-schedule", name] for name in ("A1.BC", "order", "order", "late")
    ]
    for one, line in ((first[0], lines[0]), (first[-1], lines[-1])):
        assert played(run(*line)) == [one]
