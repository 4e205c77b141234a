"""which package speaks which other kind of database, and whether it is installed here"""

from __future__ import annotations

import importlib.util
from importlib.metadata import entry_points
from typing import Final

_KNOWN: Final = {
    "awsathena": ("PyAthena", "pyathena"),
    "bigquery": ("sqlalchemy-bigquery", "sqlalchemy_bigquery"),
    "clickhouse": ("clickhouse-sqlalchemy", "clickhouse_sqlalchemy"),
    "clickhousedb": ("clickhouse-connect", "clickhouse_connect"),
    "cockroachdb": ("sqlalchemy-cockroachdb", "sqlalchemy_cockroachdb"),
    "databricks": ("databricks-sqlalchemy", "databricks.sqlalchemy"),
    "duckdb": ("duckdb-engine", "duckdb_engine"),
    "firebird": ("sqlalchemy-firebird", "sqlalchemy_firebird"),
    "hana": ("sqlalchemy-hana", "sqlalchemy_hana"),
    "ibm_db_sa": ("ibm_db_sa", "ibm_db_sa"),
    "mssql": ("pyodbc", "pyodbc"),
    "mssql+pymssql": ("pymssql", "pymssql"),
    "oracle": ("oracledb", "oracledb"),
    "redshift": ("sqlalchemy-redshift", "sqlalchemy_redshift"),
    "snowflake": ("snowflake-sqlalchemy", "snowflake.sqlalchemy"),
    "teradatasql": ("teradatasqlalchemy", "teradatasqlalchemy"),
    "trino": ("trino", "trino"),
}
_GROUP: Final = "sqlalchemy.dialects"
_BUILT_IN: Final = frozenset({"mariadb", "mssql", "mysql", "oracle", "postgresql", "sqlite"})


def package_for(scheme: str) -> str:
    """The package to install for a URL that begins so, as PyPI names it; empty if it is not known."""
    name, _ = _known(scheme)
    return name


def is_missing(scheme: str) -> bool:
    """Whether it can be told, without importing anything, that no driver for such a URL is installed here."""
    name, module = _known(scheme)
    if name:
        return not _is_there(module)
    kind = scheme.partition("+")[0]
    if kind in _BUILT_IN:
        return False
    wanted = {kind, scheme.replace("+", ".")}
    return not any(one.name in wanted for one in entry_points(group=_GROUP))


def _known(scheme: str) -> tuple[str, str]:
    return _KNOWN.get(scheme) or _KNOWN.get(scheme.partition("+")[0], ("", ""))


def _is_there(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even what it would lie in
        return False
