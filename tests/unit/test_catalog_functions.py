"""Functions that PostgreSQL lets a read-only transaction call, and that change something all the same, are told of."""

from __future__ import annotations

import pytest

from holdtrue.catalog.sql import inspect_sql
from holdtrue.model import Dialect


@pytest.mark.parametrize(
    "call",
    [
        "pg_terminate_backend(pid)",
        "pg_catalog.pg_terminate_backend(pid)",
        '"pg_terminate_backend"(pid)',
        "PG_Create_Physical_Replication_Slot('x')",
        "pg_backup_start('x')",
        "pg_stat_reset_shared('bgwriter')",
        "pg_replication_origin_create('x')",
        "pg_logical_slot_get_changes('x', NULL, NULL)",
        "pg_file_unlink('x')",
        "dblink_connect_u('x')",
        "pg_log_backend_memory_contexts(pid)",
        "pg_try_advisory_lock_shared(1)",
    ],
)
@pytest.mark.parametrize(
    "text", ["SELECT {} FROM t", "SELECT a FROM t WHERE {} IS NULL", "WITH x AS (SELECT {} FROM t) TABLE x"]
)
def test_a_function_that_changes_something_is_told_of_wherever_it_stands(call: str, text: str) -> None:
    """semantics 1.4."""
    found = inspect_sql(text.format(call), Dialect.POSTGRESQL)
    assert [one.message for one in found.problems] == ["calls a function that changes something outside of this query"]
