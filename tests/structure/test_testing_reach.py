"""The tables of the testing kit's page are what there is: the adapters, each cell held by a test, and the fixtures."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from holdtrue.testing import plugin
from holdtrue.testing.adapters import ADAPTERS
from holdtrue.testing.adapters.reach import NOT_HELD

ROOT = Path(__file__).parents[2]
SERVER = "anything else, other processes, other languages"
# How it is held; what is not seen.
HELD_BY = {
    "SQLAlchemy": (
        "test_race_points.py::test_engines_of_another_driver_are_held_alike",
        "test_raw_idioms.py::test_what_happens_inside_of_the_server_is_one_statement",
    ),
    "Django": (
        "test_django_parties.py::test_a_bug_is_found_at_every_boundary_each_time_by_the_same_trace",
        "test_django_parties.py::test_a_test_inside_a_transaction_is_refused_with_the_fixture_to_use",
    ),
    "psycopg 3": (
        "test_raw_idioms.py::test_psycopg_is_held_once_for_each_statement",
        "test_testing_wirings.py::test_whatever_tests_nothing_or_breaks_the_rule_fails_and_says_why",
    ),
    "psycopg 3 in coroutines": (
        "test_race_async_drivers.py::test_every_way_to_send_a_statement_through_psycopg_is_held",
        "test_race_coroutine_faults.py::test_a_thread_that_lost_its_party_is_named_and_to_thread_is_held",
    ),
    "asyncpg": (
        "test_race_async_drivers.py::test_every_way_to_send_a_statement_through_asyncpg_is_held",
        "test_race_coroutine_faults.py::test_a_thread_that_lost_its_party_is_named_and_to_thread_is_held",
    ),
    "psycopg2": (
        "test_raw_idioms.py::test_psycopg2_is_held_once_for_each_statement",
        "test_raw_idioms.py::test_a_connection_that_was_opened_before_is_no_pass",
    ),
    "sqlite3": (
        "test_raw_idioms.py::test_sqlite3_is_held_once_for_each_statement",
        "test_raw_idioms.py::test_a_connect_that_was_imported_by_name_is_no_pass",
    ),
    "PyMySQL": (
        "test_race_mariadb.py::test_a_bug_in_pymysql_is_found_at_every_boundary_each_time_by_the_same_trace",
        "test_race_mariadb.py::test_unread_rows_of_pymysql_are_not_lost_and_their_commit_is_not_held",
    ),
    SERVER: (
        "test_server_holds.py::test_a_bug_between_processes_is_found_each_time_by_the_same_trace",
        "test_server_holds.py::test_a_party_that_only_reads_cannot_be_held",
    ),
}
CELLS = [(name, test) for name, tests in HELD_BY.items() for test in tests]


def rows() -> list[str]:
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    table = text.partition("| code that speaks through |")[2].partition("\n\n")[0]
    return re.findall(r"^\| ([^|-][^|]*?) \|", table, re.MULTILINE)


@cache
def functions_of(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))


def test_the_rows_are_the_adapters_and_the_server() -> None:
    assert sorted(rows()) == sorted([*(one.name for one in ADAPTERS), SERVER])
    assert sorted(HELD_BY) == sorted(rows())


def test_a_report_names_every_adapter() -> None:
    assert [one.name for one in ADAPTERS if one.name.partition(" in ")[0] not in NOT_HELD] == []


@pytest.mark.parametrize(("name", "test"), CELLS)
def test_a_cell_is_held_by_a_test_that_is_there(name: str, test: str) -> None:
    file, _, function = test.partition("::")
    assert function in functions_of(ROOT / "tests" / "integration" / file), name


def test_the_table_of_fixtures_is_the_fixtures_of_the_plugin() -> None:
    """Those whose names begin with an underscore are its own."""
    there = {name for name, one in vars(plugin).items() if isinstance(one, type(plugin.barrier_db))}
    text = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    table = text.partition("| fixture | what it is |")[2].partition("\n\n")[0]
    listed = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    assert sorted(listed) == sorted(name for name in there if not name.startswith("_"))
