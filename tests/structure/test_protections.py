"""The table of what protects each dialect promises nothing that no test holds."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "databases.md").read_text(encoding="utf-8")

PG, MY, LITE, OTHER = (
    f"tests/integration/test_databases_{name}.py" for name in ("postgresql", "mysql", "sqlite", "other")
)
REPLICAS = "tests/integration/test_mysql_replicas.py"
DECIDED = "tests/unit/test_mysql_decisions.py"
TEXTS = "tests/unit/test_catalog_sql.py"
FOREIGN = "tests/unit/test_catalog_other.py"
ALIKE = "tests/integration/test_flat_looks.py"
TESTED = "tests/acceptance/test_test_command.py"
PULLED = "tests/acceptance/test_pull_schema_command.py"
PROMOTED = "tests/integration/test_promotion.py"
ON_MARIADB = "tests/integration/test_promotion_mariadb.py"
RACES = "test_rows_are_split_by_a_declared_time_and_the_test_made_of_them_races"
EVIDENCE = "tests/integration/test_databases_evidence.py"
WRITES = "test_whatever_writes_is_refused_and_nothing_changes"
UNREADABLE = "test_a_text_that_the_parser_cannot_read_is_a_warning_where_the_server_refuses_writes"
SNAPSHOT = f"{ALIKE}::test_everything_asked_in_one_look_sees_one_snapshot"
MEMORY = f"{ALIKE}::test_memory_does_not_grow_with_the_rows"
STANDS_STILL = f"{REPLICAS}::test_replication_that_stands_still_is_never_good_news_and_going_back_is_refused"
IN_ITS_OWN_WORDS = f"{DECIDED}::test_each_server_is_asked_in_its_own_words"
PG_LOCK = "tests/integration/test_sql_cases.py::test_case_049_a_wait_for_a_lock_is_told_apart_from_a_slow_query"
LITE_LOCK = "tests/integration/test_driver_cases.py::test_case_077_a_locked_file_is_busy_and_not_violated"
DOUBTS = f"{FOREIGN}::test_what_may_be_more_than_one_query_there_is_refused_until_a_person_has_read_it"

HELD: dict[tuple[str, str], tuple[str, ...]] = {
    ("one statement", "PostgreSQL"): (f"{PG}::{WRITES}",),
    ("one statement", "MariaDB"): (f"{MY}::test_the_text_reaches_the_server_byte_for_byte_and_alone",),
    ("one statement", "SQLite"): (f"{LITE}::{WRITES}",),
    ("one statement", "other"): (DOUBTS, f"{FOREIGN}::test_what_writes_for_sure_is_refused_even_then"),
    ("read-only", "PostgreSQL"): (f"{PG}::{WRITES}",),
    ("read-only", "MariaDB"): (
        f"{MY}::test_the_session_itself_refuses_to_define_tables",
        f"{MY}::test_nothing_but_reading_passes_even_for_a_login_that_may_do_everything",
    ),
    ("read-only", "SQLite"): (f"{LITE}::{WRITES}",),
    ("read-only", "other"): (
        f"{OTHER}::test_what_is_no_query_never_reaches_the_driver",
        f"{OTHER}::test_whatever_a_text_does_is_rolled_back",
    ),
    ("a text that our parser cannot read", "PostgreSQL"): (f"{TEXTS}::{UNREADABLE}",),
    ("a text that our parser cannot read", "MariaDB"): (f"{TEXTS}::{UNREADABLE}",),
    ("a text that our parser cannot read", "SQLite"): (f"{TEXTS}::{UNREADABLE}",),
    ("a text that our parser cannot read", "other"): (DOUBTS,),
    ("one snapshot", "PostgreSQL"): (SNAPSHOT,),
    ("one snapshot", "MariaDB"): (SNAPSHOT,),
    ("one snapshot", "SQLite"): (SNAPSHOT,),
    ("time limit", "PostgreSQL"): (f"{PG}::test_rows_that_arrived_before_the_time_limit_are_proof",),
    ("time limit", "MariaDB"): (
        f"{MY}::test_a_time_limit_ends_the_statement_on_the_server",
        f"{MY}::test_the_limit_holds_while_slow_rows_stream_and_what_arrived_counts",
    ),
    ("time limit", "MySQL"): (IN_ITS_OWN_WORDS,),
    ("time limit", "SQLite"): (f"{LITE}::test_a_time_limit_ends_the_statement",),
    ("time limit", "other"): (f"{OTHER}::test_a_time_limit_ends_the_statement",),
    ("cancel", "PostgreSQL"): (f"{PG}::test_interrupting_cancels_on_the_server",),
    ("cancel", "MariaDB"): (f"{MY}::test_a_run_is_interrupted_on_the_server",),
    ("cancel", "SQLite"): (f"{LITE}::test_interrupting_stops_the_statement",),
    ("cancel", "other"): (
        f"{OTHER}::test_interrupting_stops_the_statement",
        f"{OTHER}::test_a_driver_that_does_not_come_back_is_left_behind_and_counted",
    ),
    ("waiting for a lock told apart", "PostgreSQL"): (PG_LOCK,),
    ("waiting for a lock told apart", "MariaDB"): (f"{MY}::test_a_wait_for_a_lock_is_told_apart_from_a_slow_query",),
    ("waiting for a lock told apart", "SQLite"): (LITE_LOCK,),
    ("lag", "PostgreSQL"): (
        f"{PG}::test_a_replica_that_is_behind_is_passed_over",
        f"{PG}::test_a_standby_whose_primary_is_gone_is_cut_off",
        "tests/integration/test_driver_cases.py::test_case_081_an_idle_primary_is_no_lag",
    ),
    ("lag", "MariaDB"): (STANDS_STILL, f"{REPLICAS}::test_a_replica_whose_primary_is_gone_is_cut_off"),
    ("lag", "MySQL"): (IN_ITS_OWN_WORDS, f"{DECIDED}::test_both_servers_words_for_a_status_are_read"),
    ("never going back", "PostgreSQL"): (f"{PG}::test_runs_never_go_back",),
    ("never going back", "MariaDB"): (STANDS_STILL,),
    ("never going back", "MySQL"): (f"{DECIDED}::test_a_mysql_set_contains_another_when_each_transaction_is_in_it",),
    ("another server", "PostgreSQL"): ("tests/acceptance/test_another_server.py",),
    ("another server", "MariaDB"): (
        f"{REPLICAS}::test_replication_that_stands_still_is_never_good_news_and_going_back_is_refused",
    ),
    ("another server", "MySQL"): (f"{DECIDED}::test_another_server_is_accepted_by_name_and_mysql_is_not_mariadb",),
    ("another server", "SQLite"): (
        f"{LITE}::test_a_file_that_was_replaced_is_read_anew_and_one_that_is_gone_is_not_read_at_all",
    ),
    ("flat memory on a million rows", "PostgreSQL"): (MEMORY,),
    ("flat memory on a million rows", "MariaDB"): (MEMORY, f"{MY}::test_many_rows_pass_through_without_being_kept"),
    ("flat memory on a million rows", "SQLite"): (MEMORY,),
    ("flat memory on a million rows", "other"): (MEMORY,),
    ("evidence", "PostgreSQL"): (f"{EVIDENCE}::test_base_rows_their_parents_and_writers_are_taken",),
    ("evidence", "MariaDB"): (
        "tests/integration/test_databases_mysql_evidence.py::test_base_rows_and_parents_are_taken_in_loadable_order_and_masked",
    ),
    ("evidence", "SQLite"): (f"{EVIDENCE}::test_a_sqlite_file_gives_base_rows_parents_and_schema",),
    ("who wrote a row", "PostgreSQL"): (f"{EVIDENCE}::test_base_rows_their_parents_and_writers_are_taken",),
    ("rows split into before and after", "PostgreSQL"): (
        f"{PROMOTED}::test_a_writer_kept_open_across_the_last_good_run_is_found_in_observed",
    ),
    ("rows split into before and after", "SQLite"): (f"{PROMOTED}::test_a_file_is_split_by_key_and_says_so",),
    ("rows split into before and after", "MariaDB"): (f"{ON_MARIADB}::{RACES}",),
    ("barrier test of an alert", "MariaDB"): (f"{ON_MARIADB}::{RACES}",),
    ("barrier test of an alert", "PostgreSQL"): (
        f"{PROMOTED}::test_the_scaffold_fails_on_the_bug_and_passes_on_each_fix",
    ),
    ("barrier test of an alert", "SQLite"): (f"{PROMOTED}::test_a_file_is_split_by_key_and_says_so",),
    ("examples (`holdtrue test`)", "PostgreSQL"): (
        f"{TESTED}::test_each_invariant_is_judged_by_its_examples_and_the_exit_code_is_the_worst",
    ),
    ("examples (`holdtrue test`)", "MariaDB"): (
        f"{TESTED}::test_each_invariant_is_judged_by_its_examples_and_the_exit_code_is_the_worst",
        "tests/acceptance/test_test_on_mariadb.py::test_a_server_that_is_somebodys_is_touched_in_our_own_database_alone",
    ),
    ("examples (`holdtrue test`)", "SQLite"): (
        f"{TESTED}::test_each_invariant_is_judged_by_its_examples_and_the_exit_code_is_the_worst",
    ),
    ("`holdtrue pull-schema`", "PostgreSQL"): (
        f"{PULLED}::test_the_schema_of_a_replica_is_written_with_its_parents_and_makes_a_scratch_database",
    ),
    ("`holdtrue pull-schema`", "MariaDB"): (
        f"{PULLED}::test_the_schema_of_a_mariadb_replica_makes_a_scratch_database",
    ),
    ("`holdtrue pull-schema`", "SQLite"): (f"{PULLED}::test_what_was_pulled_from_a_file_makes_a_scratch_database",),
}


def cells() -> dict[tuple[str, str], str]:
    """What the table says, by row and dialect."""
    table = re.search(r"^\| \| PostgreSQL \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert table is not None
    names = [one.strip() for one in table[0].splitlines()[0].strip("|").split("|")][1:]
    found = {}
    for line in table[1].splitlines():
        row, *said = [one.strip() for one in line.strip("|").split("|")]
        assert len(said) == len(names), line
        found.update({(row, name): cell for name, cell in zip(names, said, strict=True)})
    return found


@cache
def names_in(path: str) -> frozenset[str]:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return frozenset(one.name for one in tree.body if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"))


def test_every_kind_of_database_has_its_column() -> None:
    assert {name for _, name in cells()} == {"PostgreSQL", "MariaDB", "MySQL", "SQLite", "other"}


@pytest.mark.parametrize(
    ("cell", "says"), cells().items(), ids=lambda one: ", ".join(one) if isinstance(one, tuple) else ""
)
def test_a_cell_is_held_by_a_test_or_says_that_it_is_not_offered(cell: tuple[str, str], says: str) -> None:
    """design 3.8: MySQL is spoken to by MariaDB's code, so that it may say so; what differs has a test of its own."""
    assert says
    if says.startswith("not offered"):
        assert cell not in HELD
    elif says == "as MariaDB":
        assert cell[1] == "MySQL"
    else:
        assert HELD.get(cell), f"no test is named for {cell}"


@pytest.mark.parametrize("test", sorted({one for held in HELD.values() for one in held}))
def test_the_test_that_holds_a_cell_is_there(test: str) -> None:
    path, _, name = test.partition("::")
    assert name in names_in(path) if name else names_in(path)


def test_no_test_is_named_for_a_cell_that_there_is_not() -> None:
    assert set(HELD) - set(cells()) == set()
