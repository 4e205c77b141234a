"""which table columns a text computes with, and so cannot be replaced by stand-ins (semantics 4.4)"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from holdtrue.catalog.sql import parse
from holdtrue.model import Dialect


def unsafe_columns(computed: Iterable[str], taken: Callable[[str], bool], safe: Collection[str]) -> tuple[str, ...]:
    """Those of the ``computed`` table columns that a ticket would take along as stand-ins, and so cannot be made (4.4).

    ``taken`` tells whether a ticket takes the column along at all; ``safe`` are the columns whose values may leave.
    """
    return tuple(name for name in computed if taken(name) and name not in safe)


def computed_columns(sql: str, dialect: Dialect, *, certain: bool = False) -> tuple[str, ...]:
    """The table columns (``refunds.state``) that the text compares with a constant, orders, adds or computes with.

    A column is left out only if it is merely returned, grouped by, counted, tested for NULL, or set equal to another plain
    column: stand-ins that are equal for equal values keep all of these as they are. A column without its table's name is
    given under every table that it may belong to; if only what is ``certain`` is asked for, under none where there are
    several. A text that the parser cannot read gives nothing.
    """
    from sqlglot.errors import SqlglotError  # heavy, and not needed to import the catalog
    from sqlglot.optimizer.scope import traverse_scope

    tree = parse(sql, dialect)
    if tree is None:
        return ()
    try:
        scopes = list(traverse_scope(tree))
    except (SqlglotError, RecursionError):
        return ()
    found: set[str] = set()
    for scope in scopes:
        for column in scope.columns:
            # A subquery's columns are looked at in its own scope, where both sides of a comparison are known.
            own = column.parent_select in (None, scope.expression)
            if own and _is_computed(column, scope):
                bases = _bases(column, scope, dialect)
                if not (certain and not column.table and len(bases) > 1):
                    found.update(bases)
    return tuple(sorted(found))


def _is_computed(column: Any, scope: Any) -> bool:  # noqa: ANN401  the parser's nodes
    from sqlglot import exp  # heavy, and not needed to import the catalog

    node = column
    parent = column.parent
    while isinstance(parent, (exp.Paren, exp.Alias, exp.Tuple, exp.Distinct)):
        node, parent = parent, parent.parent
    if isinstance(parent, (exp.Select, exp.Group, exp.Count, exp.Is)):
        return False
    if isinstance(parent, exp.Window):
        return bool(node.arg_key != "partition_by")
    if isinstance(parent, (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.NullSafeNEQ)):
        other = parent.expression if node is parent.this else parent.this
        return not (_is_plain(other, scope) and _is_plain(column, scope))
    if isinstance(parent, exp.In):
        # `x IN (SELECT y …)` compares plain columns; `x IN (1, 2)` compares with constants.
        query = parent.args.get("query")
        if query is None:
            return True
        columns = query.unnest().selects
        return not (len(columns) == 1 and isinstance(columns[0].unalias(), exp.Column))
    return True


def _is_plain(node: Any, scope: Any, depth: int = 0) -> bool:  # noqa: ANN401  the parser's nodes
    """Whether it is a column that is, in the end, a table's own."""
    from sqlglot import exp  # heavy, and not needed to import the catalog

    node = node.unnest() if isinstance(node, exp.Paren) else node
    if not isinstance(node, exp.Column) or depth > 20:
        return False
    sources = sources_of(node, scope)
    if not sources:
        return False
    for source in sources:
        if isinstance(source, exp.Table):
            continue
        inner = projection_of(node.name, source)
        if inner is None or not _is_plain(inner, source, depth + 1):
            return False
    return True


def _bases(column: Any, scope: Any, dialect: Dialect, depth: int = 0) -> set[str]:  # noqa: ANN401  the parser's nodes
    """The table columns that a column stands for, or is computed from."""
    from sqlglot import exp  # heavy, and not needed to import the catalog

    found: set[str] = set()
    for source in sources_of(column, scope) if depth <= 20 else []:
        if isinstance(source, exp.Table):
            found.add(f"{_folded(source.this, dialect)}.{_folded(column.this, dialect)}")
            continue
        inner = projection_of(column.name, source)
        if inner is not None:
            for base in inner.find_all(exp.Column):
                found |= _bases(base, source, dialect, depth + 1)
    return found


def sources_of(column: Any, scope: Any) -> list[Any]:  # noqa: ANN401  the parser's nodes
    """The tables and queries that a column may belong to, in its scope or an outer one."""
    level = scope
    while level is not None:
        sources = {name: source for name, (_, source) in level.selected_sources.items()}
        if column.table:
            if column.table in sources:
                return [sources[column.table]]
        elif sources:
            return [one for one in sources.values() if _may_have(one, column.name)]
        level = level.parent
    return []


def _may_have(source: Any, name: str) -> bool:  # noqa: ANN401  the parser's nodes
    from sqlglot import exp  # heavy, and not needed to import the catalog

    return isinstance(source, exp.Table) or projection_of(name, source) is not None


def projection_of(name: str, scope: Any) -> Any:  # noqa: ANN401  the parser's nodes
    """What a query gives under a name, or None."""
    selects = getattr(scope.expression, "selects", [])
    return next((one.unalias() for one in selects if one.alias_or_name.lower() == name.lower()), None)


def _folded(name: Any, dialect: Dialect) -> str:  # noqa: ANN401  the parser's nodes
    quoted = bool(name.args.get("quoted"))
    text = str(name.name)
    return text.lower() if dialect is Dialect.POSTGRESQL and not quoted else text
