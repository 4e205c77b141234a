"""Plays a case of the book in the product: from YAML to a judged run."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import casebook
from holdtrue.catalog import build_catalog
from holdtrue.databases import Databases, Examined, Look, examine_invariant
from holdtrue.model import Catalog, Failure, Row
from servers.invariants import HASHER, rows_alone
from servers.mariadb import FreshMariadb
from servers.postgres import FreshDatabase

NAME = "holdtrue-cases"


@dataclass
class Played:
    """A case in the product: its catalog, its databases, and the raw rows of the last run."""

    catalog: Catalog
    databases: Databases
    rows: list[Row] = field(default_factory=list)
    columns: tuple[str, ...] = ()

    def run(self) -> Examined:
        """One run that came to an examination."""
        answer = self.look()
        assert isinstance(answer, Examined), answer
        return answer

    def look(self, **options: Any) -> Examined | Failure:
        (invariant,) = self.catalog.invariants

        def begin(columns: Any) -> Any:
            self.columns = tuple(column.name for column in columns)
            self.rows = []
            return self.rows.append

        def examine(look: Look) -> Examined:
            return examine_invariant(look, invariant, hasher=HASHER, also=rows_alone(begin))

        return self.databases.look(
            casebook.DATABASE, time_limit=invariant.timeout, newest_good=None, examine=examine, **options
        )


class Stage:
    """Plays cases; everything it opens is closed at the end."""

    def __init__(self, database: FreshDatabase, folder: Path) -> None:
        self.database = database
        self.folder = folder
        self._open: list[Databases] = []

    def postgresql(
        self, case: casebook.Case, *, url: str = "", environ: Mapping[str, str] | None = None, **invariant: object
    ) -> Played:
        """On the standby, or where ``url`` says."""
        # The wheel's server is built without libxml: there the case's xml column is text.
        self.database.execute([one.replace(" x xml,", " x text,") for one in case.setup_sql("postgresql")])
        settings = {"replicas": [{"name": "r1", "url": "${URL}"}], **case.database_settings()}
        config = json.dumps({"databases": {casebook.DATABASE: settings}})
        values = {"URL": url or self.database.standby_url, **(environ or {})}
        return self.played(case, "postgresql", config, values, invariant)

    def sqlite(self, case: casebook.Case, **invariant: object) -> Played:
        """On a file."""
        path = self.folder / "cases.db"
        with sqlite3.connect(path) as connection:
            for statement in case.setup_sql("sqlite"):
                connection.execute(statement)
        connection.close()
        return self.played(case, "sqlite", casebook.sqlite_config(str(path)), {}, invariant)

    def mysql(self, case: casebook.Case, server: FreshMariadb, *, url: str = "", **invariant: object) -> Played:
        """On MariaDB's replica."""
        server.execute(case.setup_sql("mysql"))
        settings = {"replicas": [{"name": "r1", "url": "${URL}"}], **case.database_settings()}
        config = json.dumps({"databases": {casebook.DATABASE: settings}})
        return self.played(case, "mysql", config, {"URL": url or server.replica_url}, invariant)

    def play(self, case: casebook.Case, dialect: str, **invariant: object) -> Played:
        return self.postgresql(case, **invariant) if dialect == "postgresql" else self.sqlite(case, **invariant)  # type: ignore[arg-type]

    def played(
        self,
        case: casebook.Case,
        dialect: str,
        config: str,
        environ: Mapping[str, str],
        invariant: Mapping[str, object],
    ) -> Played:
        texts = {"holdtrue.yaml": config, "invariants/case.yaml": case.invariants_file(dialect, **invariant)}
        catalog = build_catalog(texts, environ=environ)
        databases = Databases(environ=environ, application_name=NAME)
        self._open.append(databases)
        databases.configure(catalog.config.databases)
        return Played(catalog, databases)

    def close(self) -> None:
        for databases in self._open:
            databases.interrupt_all()
            databases.close()


def unchecked(played: Played, sql: str) -> Played:
    """The same with a text that no catalog would let through."""
    (invariant,) = played.catalog.invariants
    played.catalog = replace(played.catalog, invariants=(replace(invariant, sql=sql),))
    return played
