"""Invariants and databases as tests write them: only what matters is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from holdtrue.databases import Databases, Examined, Look, examine_invariant
from holdtrue.ledger import KeyHasher
from holdtrue.model import (
    DatabaseConfig,
    Dialect,
    Failure,
    FailureReason,
    Freshness,
    Interval,
    Invariant,
    ReplicaConfig,
    Row,
    Secret,
)

HASHER = KeyHasher(b"a secret for tests, of some length")


def invariant(sql: str = "SELECT 1 AS id WHERE 1 = 0", **changes: Any) -> Invariant:
    """An invariant on database ``db``."""
    plain = Invariant(
        name="rule", sql=sql, databases=("db",), schedule=Interval(timedelta(minutes=15)), definition="d1"
    )
    return replace(plain, **changes)


def postgres_config(*urls: str, **changes: Any) -> DatabaseConfig:
    """Database ``db`` with a replica per URL: r1, r2 …"""
    replicas = tuple(ReplicaConfig(f"r{number}", Secret(url)) for number, url in enumerate(urls, 1))
    plain = DatabaseConfig("db", Dialect.POSTGRESQL, replicas)
    return replace(plain, **changes)


def mysql_config(*urls: str, **changes: Any) -> DatabaseConfig:
    """Database ``db`` on MariaDB with a replica per URL: r1, r2 …"""
    return postgres_config(*urls, dialect=Dialect.MYSQL, **changes)


def primary_config(url: str, **changes: Any) -> DatabaseConfig:
    """Database ``db`` on a primary that may be asked."""
    return postgres_config(url, allow_primary=True, **changes)


def sqlite_config(path: Path, **changes: Any) -> DatabaseConfig:
    """Database ``db`` in a file."""
    plain = DatabaseConfig(
        "db",
        Dialect.SQLITE,
        (ReplicaConfig("file", Secret(f"sqlite:///{path}")),),
        freshness=Freshness.NONE,
        allow_primary=True,
    )
    return replace(plain, **changes)


def rows_alone(also: Callable[[Any], Callable[[Row], Any]]) -> Callable[[Any], Callable[[Row, Any], None]]:
    """A taker of rows that does not want to know what each of them is."""

    def begin(columns: Any) -> Callable[[Row, Any], None]:
        take = also(columns)

        def taken(row: Row, _: Any) -> None:
            take(row)

        return taken

    return begin


def ask(databases: Databases, rule: Invariant, **options: Any) -> Examined | Failure:
    """One run of an invariant on ``db``; options go to ``look`` or, if it knows them, to ``examine_invariant``.

    ``also`` is given the columns, and what it gives the rows alone.
    """
    examining = {
        name: options.pop(name)
        for name in ("never_seen", "is_known", "evidence_limit", "ask_population", "also", "past", "now", "timezone")
        if name in options
    }

    also = examining.pop("also", None)
    if also is not None:
        examining["also"] = rows_alone(also)

    def examine(look: Look) -> Examined:
        return examine_invariant(look, rule, hasher=HASHER, **examining)

    options.setdefault("newest_good", None)
    options.setdefault("ahead", rule.sql)
    return databases.look("db", time_limit=rule.timeout, examine=examine, **options)


def good(answer: Examined | Failure) -> Examined:
    """An answer that came, whatever it was cut short by."""
    assert isinstance(answer, Examined), answer
    return answer


def failed(answer: Examined | Failure) -> Failure:
    """Why an answer did not come, or not whole."""
    failure = answer if isinstance(answer, Failure) else answer.failure
    assert failure is not None, answer
    return failure


def reason(answer: Examined | Failure) -> FailureReason:
    """The same by its name."""
    return failed(answer).reason
