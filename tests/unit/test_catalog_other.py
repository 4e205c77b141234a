"""A catalog on another kind of database: what cannot be known must be said, and what gives doubt is refused."""

from __future__ import annotations

import json

import pytest

from catalogs import accepted, item, look, refused, the_refusal
from holdtrue.catalog.packages import is_missing, package_for
from holdtrue.model import Dialect, Freshness

DUCKDB = "databases: {shop: {replicas: [{name: r, url: 'duckdb:////srv/shop.duckdb'}], allow_primary: true}}\n"
RULE = item("sql: SELECT id FROM orders WHERE id < 0")


def test_another_kind_of_database_is_accepted_and_its_freshness_is_none() -> None:
    (found,) = accepted(RULE, DUCKDB).config.databases
    assert (found.dialect, found.freshness, found.allow_primary) == (Dialect.OTHER, Freshness.NONE, True)


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ("", "it cannot be known whether it is a replica: write `allow_primary: true`"),
        ("allow_primary: false, ", "it cannot be known whether it is a replica: write `allow_primary: true`"),
        ("allow_primary: true, freshness: streaming, ", "freshness cannot be proven: write `freshness: none`"),
        ("allow_primary: true, freshness: heartbeat, ", "freshness cannot be proven: write `freshness: none`"),
        ("allow_primary: true, search_path: x, ", "a search path cannot be set"),
    ],
)
def test_what_cannot_be_known_of_it_must_be_said(settings: str, says: str) -> None:
    """semantics 2.1."""
    config = f"databases: {{shop: {{{settings}replicas: [{{name: r, url: 'duckdb:////srv/shop.duckdb'}}]}}}}\n"
    assert any(says in one.message for one in refused(RULE, config))


@pytest.mark.parametrize(
    ("url", "warned"),
    [
        ("duckdb:////srv/x", None),
        ("oracle://u@h/d", "no driver for oracle is installed here: pip install oracledb"),
        ("mssql+pymssql://u@h/d", "no driver for mssql+pymssql is installed here: pip install pymssql"),
        ("databricks://u@h/d", "no driver for databricks is installed here: pip install databricks-sqlalchemy"),
        ("nosuch://u@h/d", "no driver for nosuch is installed here: pip install the SQLAlchemy dialect for it"),
    ],
)
def test_a_driver_that_is_not_installed_is_told_of_at_load(url: str, warned: str | None) -> None:
    config = f"databases: {{shop: {{replicas: [{{name: r, url: '{url}'}}], allow_primary: true}}}}\n"
    said = [one.message for one in accepted(RULE, config).warnings if "driver" in one.message]
    assert said == ([] if warned is None else [warned])


def test_packages_are_named_by_what_a_url_begins_with() -> None:
    assert (package_for("duckdb"), package_for("duckdb+x"), package_for("nosuch")) == ("duckdb-engine",) * 2 + ("",)
    assert (is_missing("duckdb"), is_missing("postgresql"), is_missing("nosuch")) == (False, False, True)


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT 1 DELETE FROM orders WHERE id < 0", "holds the word DELETE"),
        ("SELECT '\\' ' DELETE FROM orders --'", "holds the word DELETE"),
        ("SELECT $$ DROP TABLE orders $$ AS id", "could not be inspected"),
        ("SELECT id FROM orders WHERE v = '\\' ' ; x; --'", "holds a semicolon"),
        ("SELECT id FROM orders WHERE v = 'a;b'", "holds a semicolon"),
        ("SELECT id FROM orders EXEC('x')", "holds the word EXEC"),
        ("SELECT id FROM orders QUALIFY <<>> 1", "could not be inspected"),
    ],
)
def test_what_may_be_more_than_one_query_there_is_refused_until_a_person_has_read_it(sql: str, says: str) -> None:
    """semantics 1.6: T-SQL needs no semicolon, DuckDB takes a second statement, and quotes end in different places."""
    text = json.dumps(sql)
    found = the_refusal(item(f"sql: {text}"), DUCKDB)
    assert says in found.message
    assert "inspected: true" in found.message
    assert look(item(f"sql: {text}\ninspected: true"), DUCKDB).catalog is not None


@pytest.mark.parametrize(
    "sql", ["SELECT 1; DELETE FROM orders", "DELETE FROM orders", "WITH x AS (DELETE FROM o) SELECT 1"]
)
def test_what_writes_for_sure_is_refused_even_then(sql: str) -> None:
    """semantics 1.4."""
    assert look(item(f"sql: {json.dumps(sql)}\ninspected: true"), DUCKDB).catalog is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM orders WHERE id < 0;",
        "SELECT truncate(id) AS id FROM orders WHERE id < 0 -- delete nothing",
        "SELECT id FROM orders WHERE v = 'delete' AND updated_at < 1",
        'SELECT "use" AS id FROM orders WHERE id < 0',
    ],
)
def test_a_plain_query_gives_no_doubt(sql: str) -> None:
    accepted(item(f"sql: {json.dumps(sql)}"), DUCKDB)
