"""asks a replica what it means to do with an invariant's text, which is planned and not executed (explain)"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import timedelta

from holdtrue.catalog import table_aliases
from holdtrue.databases import Databases, Explains, Look, Plan
from holdtrue.model import Catalog, Dialect, Failure, FailureReason, Invariant, Position


@dataclass(frozen=True, slots=True)
class Explained:
    """One invariant's plan on one database, and where that replica stood; ``failure`` if there is none."""

    invariant: Invariant
    database: str
    dialect: Dialect
    duration: timedelta
    plan: Plan | None
    position: Position | None
    failure: Failure | None


def explain_now(databases: Databases, catalog: Catalog, invariant: Invariant, database: str) -> Explained:
    """Plan the text in the same read-only, bounded look that a run has; nothing is saved.

    The text has been through the catalog's inspection, which refuses what writes; the dialect looks at it once more.
    """
    config = catalog.database(database)
    dialect = config.dialect if config is not None else Dialect.POSTGRESQL
    aliases = table_aliases(invariant.sql, dialect)

    def examine(look: Look) -> tuple[Plan | Failure, Position]:
        if not isinstance(look, Explains):
            return Failure(FailureReason.QUERY, "a plan cannot be had of this kind of database"), look.position
        return look.explain(invariant.sql, aliases), look.position

    started = time.monotonic()
    answer = databases.look(database, time_limit=invariant.timeout, newest_good=None, examine=examine)
    duration = timedelta(seconds=time.monotonic() - started)
    if isinstance(answer, Failure):
        return Explained(invariant, database, dialect, duration, None, None, answer)
    plan, position = answer
    if isinstance(plan, Failure):
        return Explained(invariant, database, dialect, duration, None, position, plan)
    return Explained(invariant, database, dialect, duration, plan, position, None)
