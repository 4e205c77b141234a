"""Whatever the texts hold, building a catalog gives a catalog or CatalogRefused, and nothing else."""

from __future__ import annotations

import contextlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from catalogs import POSTGRES, item
from holdtrue.catalog import build_catalog, computed_columns, examine, inspect_sql
from holdtrue.catalog.keys import CONFIG_FILE, INVARIANTS_FILE
from holdtrue.errors import CatalogRefused
from holdtrue.model import Dialect

YAML_LETTERS = "ab:- \n\t[]{}#&*!|>'\"%@`,?~<.0123:ées\u2028\x85\ud800\udcff\x00\U0001f525"
WORDS = sorted(
    {name for group in (CONFIG_FILE, INVARIANTS_FILE) for path, _ in group.paths() for name in [path.split(".")[-1]]}
)

LIKELY = ["5m", "1:30", "shop", "shard-*", "rows", "count", "safe", "SELECT id FROM t WHERE x", "SELECT", "a.sql"]
LIKELY += [
    "* * * * *",
    "${X}",
    "sqlite:///x",
    "postgresql://u:p@h/d",
    "slack",
    "2027-01-31",
    "rule",
    "id",
    "UTC",
    "[" * 9,
]
LIKELY += ["https://x/{id}", "true", "never", "streaming", "1"]

_scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False),
    st.text(max_size=8),
    st.sampled_from(LIKELY),
)
_values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.one_of(st.sampled_from([word.removesuffix("[]") for word in WORDS]), st.text(max_size=4)),
            inner,
            max_size=5,
        ),
    ),
    max_leaves=15,
)


def _as_yaml(value: Any) -> str:
    """Flow style with JSON's quotes: any nesting in one line."""
    import json

    return json.dumps(value, ensure_ascii=False)


def _build(texts: dict[str, str]) -> None:
    with contextlib.suppress(CatalogRefused):
        build_catalog(texts, environ={"X": "sqlite:///y"})


@given(st.text(alphabet=YAML_LETTERS, max_size=80))
def test_any_letters_as_invariants(text: str) -> None:
    _build({"holdtrue.yaml": POSTGRES, "invariants/a.yaml": text})


@given(st.text(alphabet=YAML_LETTERS, max_size=80))
def test_any_letters_as_configuration(text: str) -> None:
    _build({"holdtrue.yaml": text, "invariants/a.yaml": item("sql: SELECT id FROM t WHERE x")})


@given(st.text(max_size=200), st.sampled_from(["|", ">", "'", ""]))
def test_any_text_in_any_quoting_as_sql(text: str, style: str) -> None:
    body = text.replace("'", "''") if style == "'" else text.replace("\n", "\n      ")
    wrapped = f"'{body}'" if style == "'" else f"{style}\n      {body}"
    _build({"holdtrue.yaml": POSTGRES, "invariants/a.yaml": item(f"sql: {wrapped}")})


@settings(max_examples=150)
@given(
    st.dictionaries(st.sampled_from([key.name for key in INVARIANTS_FILE.keys]), _values, max_size=4),
    st.lists(
        st.dictionaries(
            st.sampled_from([path.split("[].")[1] for path, _ in INVARIANTS_FILE.paths() if path.count("[].") == 1]),
            _values,
        ),
        max_size=3,
    ),
)
def test_any_values_under_the_keys_of_invariants(file: dict[str, Any], invariants: list[dict[str, Any]]) -> None:
    if invariants:
        file = {**file, "invariants": invariants}
    _build({"holdtrue.yaml": POSTGRES, "invariants/a.yaml": _as_yaml(file), "invariants/a.sql": "SELECT 1"})


@settings(max_examples=100)
@given(
    st.dictionaries(st.sampled_from([key.name for key in CONFIG_FILE.keys]), _values),
    st.dictionaries(st.text(max_size=4), _values),
)
def test_any_values_under_the_keys_of_the_configuration(config: dict[str, Any], database: dict[str, Any]) -> None:
    config = {**config, "databases": {"shop": database}} if database else config
    _build({"holdtrue.yaml": _as_yaml(config), "invariants/a.yaml": item("sql: SELECT id FROM t WHERE x")})


@given(_values)
def test_one_wrong_value_never_hides_from_the_examination(value: Any) -> None:
    """A catalog that is accepted has only what was validated; a refused one says at least one reason."""
    found = examine({"holdtrue.yaml": POSTGRES, "invariants/a.yaml": _as_yaml(value)}, environ={})
    assert (found.catalog is None) == bool(found.refusals)


WORDS_OF_SQL = """SELECT FROM WHERE GROUP BY HAVING count(*) id t a . , ( ) ; -- /* */ ' " $$ $ = <> WITH AS UNION JOIN ON IN
DELETE INTO FOR UPDATE :: ->> ? % { } \\ now() EXISTS NULL CASE WHEN END OVER LATERAL VALUES 1 1.5 e'"""
SQL_WORDS = st.sampled_from([*WORDS_OF_SQL.split(), "\n"])


@settings(max_examples=300)
@given(st.lists(SQL_WORDS, max_size=25), st.sampled_from(list(Dialect)))
def test_any_words_of_sql_are_judged_without_a_surprise(words: list[str], dialect: Dialect) -> None:
    sql = " ".join(words)
    inspection = inspect_sql(sql, dialect)
    assert all(0 <= problem.at <= len(sql) for problem in inspection.problems)
    computed_columns(sql, dialect)


def test_a_text_nested_beyond_any_parser_is_judged_without_a_surprise() -> None:
    for sql in ("SELECT " + "(" * 20_000 + "1" + ")" * 20_000, "SELECT id FROM t WHERE " + "NOT " * 20_000 + "x"):
        assert not inspect_sql(sql, Dialect.POSTGRESQL).parsed
        assert computed_columns(sql, Dialect.POSTGRESQL) == ()
