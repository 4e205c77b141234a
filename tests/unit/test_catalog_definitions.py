"""The definition's hash: what changes it, and what must not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalogs import POSTGRES, accepted, one
from holdtrue.catalog import definition_hash
from holdtrue.catalog.pieces import normal_form, pieces

SQL = "sql: SELECT id, total FROM orders WHERE total < 0"
BASE = f"{SQL}\nkey: [id]"


@pytest.mark.parametrize(
    "change",
    [
        "sql: SELECT id, total FROM orders WHERE total <= 0\nkey: [id]",
        f"{SQL}\nkey: [id, total]",
        SQL,
        f"{BASE}\nsettle: {{column: total, after: 5m}}",
        f"{BASE}\nconfirm: 1m",
        f"{BASE}\npolicy: {{tolerate: 1}}",
        f"{BASE}\npopulation: SELECT count(*) FROM orders",
        f"{BASE}\nwaive: [{{key: {{id: 1}}, reason: x, until: 2027-01-01}}]",
        f"{BASE}\ncount_limit: 10",
        "returns: count\nsql: SELECT count(*) FROM orders",
    ],
)
def test_all_that_decides_what_counts_is_in_the_definition(change: str) -> None:
    """semantics 1.1"""
    assert one(change).definition != one(BASE).definition


@pytest.mark.parametrize(
    "change",
    [
        f"{BASE}\nschedule: '0 * * * *'",
        f"{BASE}\ntimeout: 3s",
        f"{BASE}\npolicy: {{fire_after: 3, remind_every: never}}",
        f"{BASE}\nseverity: critical",
        f"{BASE}\nowner: x",
        f"{BASE}\ncolumns: {{id: safe}}",
        f"{BASE}\ndescription: text for people",
        f"{BASE}\nbase_rows: [{{table: orders, where: {{id: id}}}}]",
        "sql: |\n  SELECT id,total\n  FROM orders -- all of them\n  /* below */ WHERE total<0\nkey: [id]",
    ],
)
def test_nothing_else_is(change: str) -> None:
    """semantics 1.1: white space and comments alone are no change"""
    assert one(change).definition == one(BASE).definition


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ("sql: SELECT id, total FROM orders WHERE total <= 0\nkey: [id]", False),
        (f"{SQL}\nkey: [id, total]", False),
        ("returns: count\nsql: SELECT count(*) FROM orders", False),
        (f"{BASE}\nsettle: {{column: total, after: 5m}}", True),
        (f"{BASE}\nconfirm: 1m", True),
        (f"{BASE}\npolicy: {{tolerate: 1}}", True),
        (f"{BASE}\npopulation: SELECT count(*) FROM orders", True),
        (f"{BASE}\nwaive: [{{key: {{id: 1}}, reason: x, until: 2027-01-01}}]", True),
        (f"{BASE}\ncount_limit: 10", True),
        (f"{BASE}\nseverity: critical", True),
        ("sql: |\n  SELECT id,total\n  FROM orders -- all of them\n  WHERE total<0\nkey: [id]", True),
    ],
)
def test_what_an_equal_key_means_is_the_text_and_the_key_alone(change: str, same: bool) -> None:
    """semantics 5.4: a definition whose tolerance changed is another one, and its keys mean what they meant"""
    assert (one(change).meaning == one(BASE).meaning) is same
    assert one(change).meaning


def test_databases_are_in_the_definition_as_they_are_declared() -> None:
    """semantics 1.1: one shard more is no new definition for the others"""

    def definition(databases: str, config: str = POSTGRES) -> str:
        text = f"invariants:\n  - {{name: rule, {databases}, sql: SELECT id FROM t WHERE x}}\n"
        return accepted(text, config).invariants[0].definition

    more = POSTGRES + "  shard-3:\n    replicas: [{name: r1, url: 'postgresql://u@localhost/three'}]\n"
    assert definition("databases: [shard-*]") == definition("databases: [shard-*]", more)
    assert definition("databases: [shop]") == definition("database: shop")
    assert definition("databases: [shop, shard-1]") == definition("databases: [shard-1, shop]")
    assert definition("database: shop") != definition("database: shard-1")


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("SELECT 'a  b'", "SELECT 'a b'"),
        ('SELECT "a  b"', 'SELECT "a b"'),
        ("SELECT $$a  b$$", "SELECT $$a b$$"),
        ("SELECT - -1", "SELECT --1"),
        ("SELECT a b", "SELECT ab"),
        ("SELECT 'a' 'b'", "SELECT 'a''b'"),
        ("SELECT '--' || x FROM t", "SELECT '--' FROM t"),
        ("SELECT 1 # a\nAND x", "SELECT 1 # a AND x"),
        ("SELECT 1 /*! + 1 */", "SELECT 1"),
        ("SELECT 'it\\'s -- x' , y", "SELECT 'it\\'s', y"),
        ("SELECT /* a /* b */ c */ 1", "SELECT /* a /* b */ 1"),
        ("SELECT 'open -- a", "SELECT 'open -- b"),
    ],
)
def test_texts_that_may_mean_different_things_differ(left: str, right: str) -> None:
    """semantics 0: a change that we cannot judge is a change"""
    assert definition_hash(sql=left) != definition_hash(sql=right)


def test_two_dashes_begin_no_comment_in_mysql_without_a_space() -> None:
    assert definition_hash(sql="SELECT 5--3", mysql=True) != definition_hash(sql="SELECT 5--4", mysql=True)
    assert definition_hash(sql="SELECT 5--3") == definition_hash(sql="SELECT 5--4")


@given(st.text(alphabet="ab1 \n'\"-/*#;$.=<\\(),:", max_size=40))
def test_the_normal_form_keeps_every_piece_that_is_no_space_and_no_comment(sql: str) -> None:
    kept = [piece.text for piece in pieces(sql) if str(piece.kind) not in ("space", "comment")]
    position = 0
    normal = normal_form(sql)
    for text in kept:
        wanted = text.strip()
        position = normal.index(wanted, position) + len(wanted)
    assert "".join(piece.text for piece in pieces(sql)) == sql


@given(st.text(max_size=60))
def test_the_normal_form_is_stable(sql: str) -> None:
    assert normal_form(normal_form(sql)) == normal_form(sql)


def test_the_hash_is_fixed_for_ever() -> None:
    """A changed way to hash would end every open alert as redefined after an upgrade."""
    assert one(SQL).definition == definition_hash(
        sql="SELECT id, total FROM orders WHERE total < 0", databases=("shop",)
    )
    assert definition_hash(sql="SELECT 1 WHERE 1 = 0", databases=("shop",)) == "ee430bbab2fee08b95573c27746d5b6b"
