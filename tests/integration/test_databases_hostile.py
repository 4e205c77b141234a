"""Texts that want more than to read: past the fences in front of them, and more memory than there is."""

from __future__ import annotations

import resource
import sqlite3
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from holdtrue.databases import Databases, Examined
from holdtrue.model import FailureReason, Outcome
from servers.invariants import ask, failed, invariant, primary_config, sqlite_config
from servers.postgres import FreshDatabase, wait_until

NAME = "holdtrue-hostile"
MIB = 1024 * 1024


@pytest.fixture
def primary(postgres_database: FreshDatabase) -> Iterator[Databases]:
    databases = Databases(environ={}, application_name=NAME)
    databases.configure([primary_config(postgres_database.primary_url)])
    yield databases
    databases.close()


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Databases]:
    sqlite3.connect(tmp_path / "shop.db").close()
    databases = Databases(environ={})
    databases.configure([sqlite_config(tmp_path / "shop.db")])
    yield databases
    databases.close()


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO PROGRAM 'cat > /dev/null'",
        "DO $$ BEGIN PERFORM 1; END $$",
        "SET default_transaction_read_only = off",
        "LISTEN somebody",
        "PREPARE kept AS SELECT 1",
        "COMMIT",
    ],
)
@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
def test_a_comment_ends_where_the_server_says_that_it_ends(
    primary: Databases, postgres_database: FreshDatabase, statement: str, end: str
) -> None:
    """Design 3.7: what is hidden from us behind a carriage return is no comment for PostgreSQL, and was run by it."""
    hidden = f"--{end}{statement} /*\nSELECT 1 AS id */"
    assert failed(ask(primary, invariant(hidden))).reason is FailureReason.WRITES
    busy = f"application_name = '{NAME}' AND (state <> 'idle' OR query LIKE '%' || chr(13) || '%')"
    assert postgres_database.value(f"SELECT count(*) FROM pg_stat_activity WHERE {busy}") == 0


@pytest.mark.parametrize("parts", [1, 40])
def test_a_row_larger_than_memory_should_hold_is_not_read(
    primary: Databases, postgres_database: FreshDatabase, parts: int
) -> None:
    """Semantics 3: memory stays flat. Rows that had come before it are proof (semantics 3.4)."""
    cells = ", ".join(f"repeat('x', {250 * 1000 * 1000 // parts})" for _ in range(parts))
    few = ", ".join("''" for _ in range(parts))
    text = f"SELECT 1 AS id, {few} UNION ALL SELECT 2, {cells}"
    answer = ask(primary, invariant(f"SELECT 2 AS id, {cells}", timeout=timedelta(seconds=60)))
    failure = failed(answer)
    assert (failure.reason, "32 MiB" in failure.sentence) == (FailureReason.QUERY, True)
    answer = ask(primary, invariant(text, timeout=timedelta(seconds=60)))
    assert isinstance(answer, Examined)
    assert (answer.outcome, answer.tallied.counted, answer.complete) == (Outcome.VIOLATED, 1, False), answer.failure
    busy = f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{NAME}' AND state <> 'idle'"
    wait_until(lambda: postgres_database.value(busy) == 0, "nothing of it goes on")
    assert isinstance(ask(primary, invariant()), Examined)


def test_a_row_within_the_limit_is_read_whole(primary: Databases) -> None:
    rows: list[tuple[str | None, ...]] = []
    rule = invariant(f"SELECT repeat('x', {30 * MIB}) AS id", timeout=timedelta(seconds=60))
    assert isinstance(ask(primary, rule, also=lambda _: rows.append), Examined)
    assert rows[0][0] == "x" * 30 * MIB


@pytest.mark.parametrize(
    "text",
    [
        "SELECT zeroblob(300000000) AS id",
        "SELECT hex(zeroblob(300000000)) AS id",
        "SELECT replace(hex(zeroblob(4000000)), '0', '0123456789') AS id",
        "WITH RECURSIVE n(i) AS (SELECT 'a' UNION ALL SELECT i || i FROM n) SELECT max(i) AS id FROM n",
    ],
)
def test_no_text_builds_a_value_larger_than_memory_should_hold(file: Databases, text: str) -> None:
    before = peak()
    failure = failed(ask(file, invariant(text)))
    assert (failure.reason, "32 MiB" in failure.sentence) == (FailureReason.QUERY, True)
    assert peak() - before < 300 * MIB
