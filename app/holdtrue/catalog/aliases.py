"""which table a name in a plan stands for: some servers show the text's own aliases alone"""

from __future__ import annotations

from collections.abc import Mapping

from holdtrue.catalog.sql import parse
from holdtrue.model import Dialect


def table_aliases(sql: str, dialect: Dialect) -> Mapping[str, tuple[str, ...]]:
    """By alias, or by name where there is none, in small letters: the tables that it stands for somewhere in the text.

    A text that the parser cannot read gives nothing. Results of other queries (``WITH``) are no tables: such a name stands
    for none.
    """
    from sqlglot import exp  # heavy, and not needed to import the catalog

    tree = parse(sql, dialect)
    if tree is None:
        return {}
    common = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
    found: dict[str, dict[str, None]] = {}
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Func) or not table.name:
            continue
        if table.name in common and not table.db:
            found.setdefault(table.alias_or_name.casefold(), {})
            continue
        name = f"{table.db}.{table.name}" if table.db else table.name
        found.setdefault(table.alias_or_name.casefold(), {})[name] = None
    return {alias: tuple(names) for alias, names in found.items()}
