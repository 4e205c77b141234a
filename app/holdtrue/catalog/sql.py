"""inspects a SQL text with a parser: what it reads, and what it must not do

The parser is one fence of several, and the first: it tells the author early. What keeps the database safe is the protocol,
the read-only session and the role.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from holdtrue.catalog import pieces
from holdtrue.catalog.foreign import find_doubts
from holdtrue.catalog.words import SELECTS, SET_RETURNING, STATEMENTS, WRITING_FUNCTIONS
from holdtrue.catalog.writes import find_no_reading
from holdtrue.model import Dialect

if TYPE_CHECKING:
    from sqlglot import exp

_READ: Final = {
    Dialect.POSTGRESQL: "postgres",
    Dialect.SQLITE: "sqlite",
    Dialect.MYSQL: "mysql",
    Dialect.OTHER: "",
}
_ONE_ROW: Final = (
    "yields one row whatever the data, so it would be violated for ever; "
    "write `returns: count` for a number, or add HAVING or WHERE so that only what breaks the rule is returned"
)


@dataclass(frozen=True, slots=True)
class SqlProblem:
    """Something wrong with a text, at an offset in it. ``one_row`` problems matter under ``returns: rows`` alone."""

    message: str
    at: int = 0
    offending: str = ""
    fatal: bool = True
    one_row: bool = False


@dataclass(frozen=True, slots=True)
class Inspection:
    """What a text reads and what is wrong with it.

    ``columns`` are the output columns by name, or None where they cannot be told (``*``, or not ``parsed``). ``clock`` says
    that it compares with the time of now, ``shows_clock`` that it gives it, ``may_be_null`` that its one number may be NULL.
    """

    tables: tuple[str, ...] = ()
    problems: tuple[SqlProblem, ...] = ()
    parsed: bool = True
    columns: tuple[str, ...] | None = None
    clock: bool = False
    shows_clock: bool = False
    may_be_null: bool = False


@lru_cache(maxsize=16_384)
def inspect_sql(sql: str, dialect: Dialect) -> Inspection:
    """Judge one text; a parser that cannot read it is no problem here, but ``parsed`` is False (semantics 1.6)."""
    problems = list(_plain_problems(sql, dialect))
    if problems:
        return Inspection(problems=tuple(problems), parsed=False)
    tree = parse(sql, dialect)
    if tree is None:
        return Inspection(parsed=False)
    problems.extend(_forbidden(sql, tree))
    if dialect is Dialect.OTHER and not problems:
        problems.extend(SqlProblem(message, one.at, one.text, fatal=False) for message, one in find_doubts(sql))
    if not problems and always_one_row(tree):
        problems.append(SqlProblem(_ONE_ROW, one_row=True))
    return Inspection(
        tables=_tables(tree),
        problems=tuple(problems),
        columns=_output_columns(tree, dialect),
        clock=_compares_with_now(tree),
        shows_clock=_shows_clock(tree),
        may_be_null=_may_be_null(tree),
    )


def parse(sql: str, dialect: Dialect) -> exp.Expr | None:
    """The one statement of a text as a tree, or None if the parser cannot read it so."""
    import sqlglot  # heavy, and not needed to import the catalog

    with _silent():
        try:
            found = [tree for tree in sqlglot.parse(sql, read=_READ[dialect]) if tree is not None]
        except (sqlglot.errors.SqlglotError, RecursionError, ValueError, TypeError, AttributeError, LookupError):
            # A parser fed with hostile text fails in many ways; "cannot read it" is the answer to all of them.
            return None
    statements = [tree for tree in found if type(tree).__name__ != "Semicolon"]
    return statements[0] if len(statements) == 1 else None


@contextmanager
def _silent() -> Iterator[None]:
    # The parser logs the text it cannot read; texts do not belong in logs.
    logger = logging.getLogger("sqlglot")
    former, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = former


def _plain_problems(sql: str, dialect: Dialect) -> Iterator[SqlProblem]:
    """What can be told without a parser, and so even of a text that it cannot read."""
    mysql = dialect is Dialect.MYSQL
    second = pieces.second_statement(sql, mysql=mysql)
    if second is not None:
        line = sql[second:].splitlines()[0][:80]
        yield SqlProblem("holds more than one statement; an invariant is one SELECT", second, line)
    word = pieces.first_word(sql, mysql=mysql)
    if word is None:
        yield SqlProblem("holds no statement; an invariant is one SELECT")
    elif word.text.lower() not in SELECTS and (word.text.lower() in STATEMENTS or second is None):
        known = word.text.lower() in STATEMENTS
        message = "must be a SELECT; an invariant only reads" if known else "must begin with SELECT or WITH"
        yield SqlProblem(message, word.at, word.text[:80])
    elif mysql and (found := find_no_reading(sql)).problem:
        yield SqlProblem(f"{found.problem}; an invariant only reads", found.at, found.offending)


def _forbidden(sql: str, tree: exp.Expr) -> Iterator[SqlProblem]:
    from sqlglot import exp  # heavy, and not needed to import the catalog

    if not isinstance(tree, (exp.Query, exp.Values)):
        word = pieces.first_word(sql)
        yield SqlProblem("must be a SELECT; an invariant only reads", word.at if word else 0, word.text if word else "")
        return
    named = {
        exp.Insert: "INSERT",
        exp.Update: "UPDATE",
        exp.Delete: "DELETE",
        exp.Merge: "MERGE",
        exp.Create: "CREATE",
        exp.Drop: "DROP",
        exp.Into: "INTO",
        exp.Lock: "FOR",
        exp.Command: "",
    }
    for node in tree.walk():
        keyword = next((word for kind, word in named.items() if isinstance(node, kind)), None)
        if keyword is not None:
            yield _refusal(sql, keyword)
        elif isinstance(node, exp.Func):
            name = _function_name(node)
            if name in WRITING_FUNCTIONS:
                at = max(sql.lower().find(name), 0)
                yield SqlProblem("calls a function that changes something outside of this query", at, name, fatal=False)


def _refusal(sql: str, keyword: str) -> SqlProblem:
    message = {
        "INTO": "SELECT … INTO writes; an invariant only reads",
        "FOR": "locks rows (FOR UPDATE, FOR SHARE); an invariant only reads",
    }.get(keyword, "writes; an invariant only reads")
    words = [piece for piece in pieces.pieces(sql) if piece.kind is pieces.PieceKind.WORD]
    at = next((piece.at for piece in words if piece.text.upper() == keyword), 0)
    return SqlProblem(message, at, keyword)


def _function_name(node: Any) -> str:  # noqa: ANN401  any function node
    name = node.name if type(node).__name__ in ("Anonymous", "AnonymousAggFunc") else node.sql_name()
    return str(name).lower()


def always_one_row(tree: exp.Expr) -> bool:
    """Whether a text yields one row whatever the data (semantics 1.5)."""
    from sqlglot import exp  # heavy, and not needed to import the catalog

    common = {cte.alias_or_name: cte.this for cte in tree.find_all(exp.CTE)}

    def one_row(node: Any, depth: int) -> bool:  # noqa: ANN401  any query node
        if isinstance(node, exp.Subquery) and not _has(node, "where", "offset"):
            return one_row(node.this, depth)
        if not isinstance(node, exp.Select) or depth > 20 or _has(node, "group", "having", "qualify", "offset"):
            return False
        if any(_aggregates(column) for column in node.expressions):
            return True  # WHERE narrows what is added up, and never the one row that comes out
        if _has(node, "where"):
            return False
        source = node.args.get("from_") or node.args.get("from")
        if source is None:
            return not any(_returns_a_set(column) for column in node.expressions)
        if node.args.get("joins") or node.args.get("laterals"):
            return False
        inner = source.this
        if isinstance(inner, exp.Table):
            inner = common.get(inner.name) if not inner.args.get("db") and not inner.args.get("joins") else None
        return inner is not None and one_row(inner, depth + 1)

    return one_row(tree, 0)


def _has(node: Any, *parts: str) -> bool:  # noqa: ANN401  any query node
    return any(node.args.get(part) for part in parts)


def _aggregates(column: exp.Expr) -> bool:
    from sqlglot import exp  # heavy, and not needed to import the catalog

    for call in column.find_all(exp.AggFunc):
        inside: exp.Expr = call
        over = False
        while inside is not column and inside.parent is not None:
            inside = inside.parent
            over = over or isinstance(inside, (exp.Window, exp.Query))
        if not over:
            return True
    return False


def _returns_a_set(column: exp.Expr) -> bool:
    from sqlglot import exp  # heavy, and not needed to import the catalog

    calls = list(column.find_all(exp.Func))
    return any(_function_name(one) in SET_RETURNING or isinstance(one, (exp.Unnest, exp.Explode)) for one in calls)


def _tables(tree: exp.Expr) -> tuple[str, ...]:
    from sqlglot import exp  # heavy, and not needed to import the catalog

    common = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    names: dict[str, None] = {}
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Func) or not table.name or (table.name in common and not table.db):
            continue
        names[f"{table.db}.{table.name}" if table.db else table.name] = None
    return tuple(sorted(names))


def _output_columns(tree: exp.Expr, dialect: Dialect) -> tuple[str, ...] | None:
    from sqlglot import exp  # heavy, and not needed to import the catalog

    while isinstance(tree, (exp.Subquery, exp.SetOperation)):
        tree = tree.this
    if not isinstance(tree, exp.Select):
        return None
    names = []
    for column in tree.expressions:
        if column.is_star or not isinstance(column, (exp.Alias, exp.Column)):
            return None  # a server names an expression in its own way
        name = column.args.get("alias") or getattr(column, "this", None)
        quoted = isinstance(name, exp.Identifier) and bool(name.args.get("quoted"))
        text = column.alias_or_name
        names.append(text.lower() if dialect is Dialect.POSTGRESQL and not quoted else text)
    return tuple(names)


def _compares_with_now(tree: exp.Expr) -> bool:
    from sqlglot import exp  # heavy, and not needed to import the catalog

    comparisons = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.EQ, exp.NEQ, exp.Between)
    return any(_reads_clock(one) for node in tree.find_all(*comparisons) for one in node.walk())


def _shows_clock(tree: exp.Expr) -> bool:
    from sqlglot import exp  # heavy, and not needed to import the catalog

    columns = (column for select in tree.find_all(exp.Select) for column in select.expressions)
    return any(_reads_clock(one) or _is_unix_now(one) for column in columns for one in column.walk())


def _reads_clock(node: Any) -> bool:  # noqa: ANN401  any node
    from sqlglot import exp  # heavy, and not needed to import the catalog

    if isinstance(node, exp.Literal):
        return bool(node.is_string and node.name.lower() == "now")
    if not isinstance(node, exp.Func):
        return False
    name = _function_name(node)
    clocks = ("current_timestamp", "current_date", "current_time", "localtimestamp", "localtime", "now", "sysdate")
    return name in clocks or name in (
        "clock_timestamp",
        "statement_timestamp",
        "transaction_timestamp",
        "utc_timestamp",
    )


def _is_unix_now(node: Any) -> bool:  # noqa: ANN401  any node
    return type(node).__name__ == "Anonymous" and node.name.lower() == "unix_timestamp" and not node.expressions


def _may_be_null(tree: exp.Expr) -> bool:
    from sqlglot import exp  # heavy, and not needed to import the catalog

    if not isinstance(tree, exp.Select) or len(tree.expressions) != 1:
        return False
    column = tree.expressions[0].unalias()
    return isinstance(column, (exp.Sum, exp.Max, exp.Min, exp.Avg))
