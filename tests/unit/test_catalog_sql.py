"""The texts: what an invariant must not do, and what its text must yield."""

from __future__ import annotations

import pytest

from catalogs import MYSQL, POSTGRES, SQLITE, accepted, item, one, refused, the_refusal, warnings
from holdtrue.catalog import computed_columns, inspect_sql
from holdtrue.catalog.pieces import pieces, second_statement
from holdtrue.model import Dialect

PG = Dialect.POSTGRESQL


@pytest.mark.parametrize("config", [POSTGRES, SQLITE, MYSQL])
@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM orders",
        "INSERT INTO orders VALUES (1)",
        "UPDATE orders SET total = 1",
        "DROP TABLE orders",
        "CREATE TABLE x (id int)",
        "TRUNCATE orders",
        "ALTER TABLE orders ADD x int",
        "SET x = 1",
        "BEGIN",
        "COMMIT",
        "CALL fix()",
        "ATTACH 'x' AS y",
        "PRAGMA writable_schema = 1",
        "VACUUM",
        "EXPLAIN ANALYZE DELETE FROM orders",
        "GRANT SELECT ON orders TO x",
        "REPLACE INTO orders VALUES (1)",
        "SELECT id FROM orders WHERE total < 0 FOR UPDATE",
        "nonsense",
        "-- only a comment",
        "COMMIT; DELETE FROM orders",
        "SELECT id FROM orders WHERE a; SELECT id FROM orders WHERE b",
        "SELECT id FROM orders WHERE a; -- fine\n; DROP TABLE orders",
    ],
)
def test_anything_but_one_select_is_refused_on_every_dialect(sql: str, config: str) -> None:
    """semantics 1.4"""
    body = "\n".join(f"  {line}" for line in sql.split("\n"))
    assert refused(item(f"sql: |\n{body}"), config)


@pytest.mark.parametrize(
    "sql",
    [
        "WITH gone AS (DELETE FROM orders RETURNING id) SELECT id FROM gone WHERE id > 1",
        "SELECT * INTO copy FROM orders",
        "SELECT id FROM orders WHERE a FOR SHARE",
        "COPY orders TO '/tmp/x'",
        "DO $$ BEGIN END $$",
        "LISTEN x",
        "REFRESH MATERIALIZED VIEW x",
        "MERGE INTO orders USING b ON orders.id = b.id WHEN MATCHED THEN DELETE",
        "LOCK TABLE orders",
    ],
)
def test_what_writes_on_postgresql_is_refused(sql: str) -> None:
    """semantics 1.4"""
    assert the_refusal(item(f"sql: |\n  {sql}")).message.startswith("`sql` ")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM orders WHERE total < 0;",
        "SELECT id FROM orders WHERE total < 0 ; -- the end; DELETE",
        "/* ; DELETE */ SELECT id FROM orders WHERE note = 'a;b; DELETE FROM x'",
        "\n-- first\nWITH bad AS (SELECT id FROM orders) SELECT id FROM bad WHERE id > 1",
        "(SELECT id FROM orders WHERE total < 0)",
        "SELECT id FROM a WHERE x UNION ALL SELECT id FROM b WHERE y",
        'SELECT "delete" FROM orders WHERE "update" = \'INSERT\'',
        "VALUES (1)",
    ],
)
@pytest.mark.parametrize("config", [POSTGRES, SQLITE])
def test_one_select_is_accepted_whatever_it_quotes_or_comments(sql: str, config: str) -> None:
    body = "\n".join(f"  {line}" for line in sql.split("\n"))
    assert accepted(item(f"sql: |\n{body}"), config)


def test_a_second_statement_is_found_even_where_the_parser_gives_up() -> None:
    sql = "SELECT id FROM orders WHERE total <<>> ??? 0; DROP TABLE orders"
    assert not inspect_sql(sql, PG).parsed
    assert "more than one statement" in inspect_sql(sql, PG).problems[0].message


def test_a_function_that_changes_something_is_refused_unless_a_person_says_that_it_is_meant() -> None:
    """semantics 1.4, 1.6."""
    text = item("sql: SELECT nextval('s') AS n FROM orders WHERE total < 0")
    problem = the_refusal(text)
    assert problem.offending == "nextval"
    assert "`inspected: true` says" in problem.message
    found = warnings(text.rstrip("\n") + "\n    inspected: true\n")
    assert any("calls a function that changes something" in word for word in found)


def test_a_problem_in_a_block_is_placed_at_its_line_and_column() -> None:
    text = item("sql: |\n  SELECT id\n  FROM orders\n  WHERE a; DELETE FROM orders")
    problem = the_refusal(text)
    line = text.split("\n")[problem.place.line - 1]
    assert line[problem.place.column - 1 :] == "DELETE FROM orders" == problem.offending


def test_a_problem_on_the_key_s_own_line_is_placed_at_its_column() -> None:
    text = item("sql: SELECT id FROM orders WHERE a; DELETE FROM orders")
    problem = the_refusal(text)
    assert text.split("\n")[problem.place.line - 1][problem.place.column - 1 :] == "DELETE FROM orders"


@pytest.mark.parametrize("style", [">", ">-", ""])
def test_a_folded_text_that_hides_a_comment_is_refused_at_the_comment(style: str) -> None:
    """semantics 1.4"""
    text = item(f"sql: {style}\n  SELECT id -- the number\n  FROM orders\n  WHERE total < 0")
    problem = the_refusal(text)
    assert "comment hides the rest" in problem.message
    line = text.split("\n")[problem.place.line - 1]
    assert line[problem.place.column - 1 :] == "-- the number"


@pytest.mark.parametrize(
    "keys",
    [
        "sql: |\n  SELECT id -- the number\n  FROM orders WHERE total < 0",
        "sql: >\n  SELECT id FROM orders\n  WHERE total < 0 -- below nothing",
        "sql: >\n  SELECT id FROM orders\n  WHERE note = '-- none'",
        "sql: SELECT id FROM orders WHERE total < 0 -- below nothing",
    ],
)
def test_a_comment_that_hides_nothing_is_accepted(keys: str) -> None:
    assert one(keys)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM orders",
        "SELECT max(total), min(total) FROM orders WHERE total < 0",
        "SELECT count(*) FROM orders WHERE total < 0 LIMIT 1",
        "SELECT coalesce(sum(total), 0) AS s FROM orders",
        "SELECT sum(CASE WHEN total < 0 THEN 1 END) AS s FROM orders JOIN lines ON lines.order_id = orders.id",
        "SELECT 1 AS id",
        "SELECT pg_sleep(30)",
        "SELECT * FROM (SELECT count(*) AS n FROM orders) x",
        "WITH c AS (SELECT count(*) AS n FROM orders) SELECT n FROM c",
        "SELECT EXISTS (SELECT 1 FROM orders)",
    ],
)
def test_a_text_that_yields_one_row_whatever_the_data_is_refused(sql: str) -> None:
    """semantics 1.5"""
    message = the_refusal(item(f"sql: |\n  {sql}")).message
    assert "yields one row whatever the data" in message
    assert "returns: count" in message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM orders HAVING count(*) > 1",
        "SELECT customer, count(*) FROM orders GROUP BY customer",
        "SELECT id, count(*) OVER () FROM orders",
        "SELECT 1 AS id WHERE 1 = 0",
        "SELECT 1 AS id FROM pg_sleep(30)",
        "SELECT n FROM (SELECT count(*) AS n FROM orders) x WHERE n > 3",
        "SELECT unnest(ARRAY[1, 2])",
        "SELECT generate_series(1, 0)",
        "SELECT id, (SELECT count(*) FROM lines WHERE lines.order_id = orders.id) FROM orders",
        "SELECT max(a) FROM t GROUP BY b HAVING max(a) > 1",
    ],
)
def test_a_text_whose_rows_depend_on_the_data_is_accepted(sql: str) -> None:
    """semantics 1.5"""
    assert accepted(item(f"sql: |\n  {sql}"))


def test_under_count_the_one_row_is_what_is_wanted() -> None:
    assert one("returns: count\nsql: SELECT count(*) FROM orders WHERE total < 0")
    assert accepted(item("returns: count\nsql: SELECT count(*) FROM orders"))


def test_a_number_that_may_be_null_is_a_warning() -> None:
    assert any("coalesce" in word for word in warnings(item("returns: count\nsql: SELECT sum(n) FROM orders")))


def test_a_text_that_the_parser_cannot_read_is_a_warning_where_the_server_refuses_writes() -> None:
    """semantics 1.6"""
    keys = "sql: SELECT id FROM orders WHERE total <<>> ??? 0"
    for config in (POSTGRES, SQLITE):
        assert any("could not be inspected" in word for word in warnings(item(keys), config))
    assert "inspected: true" in the_refusal(item(keys), MYSQL).message
    assert one(f"{keys}\ninspected: true", MYSQL).inspected
    assert not warnings(item(f"{keys}\ninspected: true"))


def test_the_other_texts_are_inspected_as_well() -> None:
    found = refused(
        item(
            "returns: count\nsql: SELECT count(*) FROM orders\n"
            "rows_sql: DELETE FROM orders\npopulation: SELECT 1; SELECT 2"
        )
    )
    assert {problem.message.split("`")[1] for problem in found} == {"rows_sql", "population"}


def test_tables_are_those_that_are_read_and_no_common_table_expressions() -> None:
    sql = (
        "WITH bad AS (SELECT id FROM shop.orders) SELECT bad.id FROM bad JOIN lines ON lines.order_id = bad.id WHERE x"
    )
    assert inspect_sql(sql, PG).tables == ("lines", "shop.orders")


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        (
            "SELECT dispute_id, count(*), max(created_at) FROM refunds WHERE state = 'settled' GROUP BY dispute_id",
            ("refunds.created_at", "refunds.state"),
        ),
        (
            (
                "SELECT a.id FROM accounts a JOIN (SELECT owner, sum(amount) s FROM log GROUP BY 1) l ON l.owner = a.id "
                "WHERE a.balance <> l.s"
            ),
            ("accounts.balance", "log.amount"),
        ),
        ("SELECT a.x FROM a JOIN b ON a.x = b.y WHERE b.z IS NULL", ()),
        ("SELECT a.x FROM a WHERE a.y IN (1, 2) AND a.z IN (SELECT w FROM b)", ("a.y",)),
        ("SELECT a.x FROM a ORDER BY a.y", ("a.y",)),
        ("SELECT a.x FROM a WHERE a.y < a.z", ("a.y", "a.z")),
        ("SELECT a.x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.y = a.z AND b.q = 1)", ("b.q",)),
        ("SELECT x FROM a, b WHERE y = 1", ("a.y", "b.y")),
        ("WITH c AS (SELECT id, state AS st FROM t) SELECT id FROM c WHERE st = 'x'", ("t.state",)),
        ("SELECT lower(name) FROM people", ("people.name",)),
        ('SELECT "State" FROM t WHERE "State" LIKE \'x%\'', ("t.State",)),
        ("not sql at all", ()),
    ],
)
def test_columns_that_a_text_computes_with(sql: str, found: tuple[str, ...]) -> None:
    """semantics 4.4"""
    assert computed_columns(sql, PG) == found


def test_pieces_lose_no_letter() -> None:
    sql = "SELECT $tag$ ; $tag$, E'a', \"b\" -- c\n/* d /* e */ */ FROM f.g; x"
    assert "".join(piece.text for piece in pieces(sql)) == sql
    assert second_statement(sql) == len(sql) - 1
