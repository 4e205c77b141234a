"""What the catalog refuses of a text for MariaDB or MySQL, before any server sees it."""

from __future__ import annotations

import json

import pytest

from catalogs import MYSQL, POSTGRES, item, the_refusal, warnings


@pytest.mark.parametrize(
    ("sql", "says"),
    [
        ("SELECT id FROM orders INTO OUTFILE '/tmp/x'", "writes what it selects"),
        ("SELECT id FROM orders /*! INTO OUTFILE '/tmp/x' */", "a comment that the server executes"),
        ("SELECT id FROM orders FOR UPDATE", "locks rows (FOR UPDATE)"),
        ("SELECT id FROM orders LOCK IN SHARE MODE", "locks rows (LOCK IN)"),
        ("HANDLER orders OPEN", "must be a SELECT"),
        ("CREATE TABLE x(id int)", "must be a SELECT"),
    ],
)
def test_a_text_that_a_read_only_session_would_let_pass_is_refused_even_if_inspected(sql: str, says: str) -> None:
    """Semantics 1.4, 1.6."""
    for more in ("", "\ninspected: true"):
        assert says in the_refusal(item(f"sql: {json.dumps(sql)}{more}"), MYSQL).message


def test_mysql_is_offered_without_a_warning_and_its_strings_are_read_as_it_reads_them() -> None:
    assert warnings(item("sql: SELECT id FROM orders WHERE id < 0"), MYSQL) == warnings(
        item("sql: SELECT id FROM orders WHERE id < 0"), POSTGRES
    )
    escaped = json.dumps("SELECT id FROM orders WHERE note = 'it\\'s; into'")
    assert not warnings(item(f"sql: {escaped}"), MYSQL)
    commented = json.dumps("# why\nSELECT id FROM orders WHERE id < 0")
    assert not warnings(item(f"sql: {commented}"), MYSQL)
