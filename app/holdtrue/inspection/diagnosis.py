"""asks every replica what it is and what the login may do, and judges it (doctor)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta

from holdtrue.catalog import nearest
from holdtrue.databases import Databases, MysqlFacts, PostgresFacts, SqliteFacts, Told
from holdtrue.errors import NotFound, Refused
from holdtrue.inspection.findings import Finding, of_lower_level, of_reach, of_untold
from holdtrue.inspection.mysql_findings import of_mysql
from holdtrue.inspection.postgresql_findings import of_postgresql
from holdtrue.inspection.sqlite_findings import of_sqlite
from holdtrue.model import Catalog, DatabaseConfig

_WITHIN = timedelta(seconds=10)
_THREADS_LIMIT = 32


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """One replica: what it told, and what is to be said of it."""

    config: DatabaseConfig
    told: Told
    findings: tuple[Finding, ...]


def diagnose(
    databases: Databases,
    catalog: Catalog,
    names: Sequence[str],
    *,
    within: timedelta = _WITHIN,
    on_done: Callable[[Told], None] = lambda _: None,
) -> tuple[Diagnosis, ...]:
    """Ask the replicas of these databases, or of all, side by side; in the order of ``holdtrue.yaml``.

    Raises:
        NotFound: a name is no database's.
        Refused: there is no database.
    """
    chosen = choose_databases(catalog, names)
    pairs = [(one, replica.name) for one in chosen for replica in one.replicas]
    with ThreadPoolExecutor(min(len(pairs), _THREADS_LIMIT)) as pool:
        futures = [pool.submit(databases.ask_facts, one.name, replica, within=within) for one, replica in pairs]
        told = []
        for future in futures:
            told.append(future.result())
            on_done(told[-1])
    return tuple(
        Diagnosis(config, one, judge(one, config, [other for other in told if other.database == config.name]))
        for (config, _), one in zip(pairs, told, strict=True)
    )


def choose_databases(catalog: Catalog, names: Sequence[str]) -> tuple[DatabaseConfig, ...]:
    """The databases of these names, or all.

    Raises:
        NotFound: a name is no database's.
        Refused: there is no database: looking at nothing must never look like good news.
    """
    known = [one.name for one in catalog.config.databases]
    for name in names:
        if name not in known:
            meant = nearest(name, known)
            raise NotFound(
                f"there is no database {name!r} in holdtrue.yaml",
                remedy=f"did you mean {meant!r}?" if meant else f"there are: {', '.join(known) or 'none'}",
            )
    if not known:
        raise Refused("holdtrue.yaml names no database", remedy="write one under databases: (docs/databases.md)")
    return tuple(one for one in catalog.config.databases if not names or one.name in names)


def judge(told: Told, config: DatabaseConfig, all_told: Sequence[Told]) -> tuple[Finding, ...]:
    """What is to be said of one replica, given what all replicas of its database told (pure)."""
    found = of_reach(told, config)
    facts = told.facts
    if isinstance(facts, PostgresFacts):
        found += of_postgresql(told, facts, config, _standbys(all_told))
    elif isinstance(facts, MysqlFacts):
        found += of_mysql(told, facts, config)
    elif isinstance(facts, SqliteFacts):
        found += of_sqlite(told, facts)
    else:
        found += [*of_untold(told, ()), *of_lower_level(told)]
    return tuple(found)


def _standbys(all_told: Sequence[Told]) -> dict[str, str]:
    """Address to name of the replicas that are standbys."""
    return {
        one.facts.address: one.replica
        for one in all_told
        if isinstance(one.facts, PostgresFacts) and one.position is not None and one.position.role == "standby"
    }
