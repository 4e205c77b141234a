"""tries at export whether a frozen incident is what it says: the seed keeps the rule, seed and observed together break it"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from holdtrue.errors import HoldtrueError
from holdtrue.model import DatabaseConfig, Dialect, Incident
from holdtrue.rehearsal.mysql_server import MYSQL_URL_VARIABLE, MysqlScratchServer
from holdtrue.rehearsal.places import Place, on_mysql, on_postgresql, on_sqlite
from holdtrue.rehearsal.servers import URL_VARIABLE, ScratchServer
from holdtrue.scaffolding import Finding
from holdtrue.testing.clocks import clock_of, with_numbers_now
from holdtrue.testing.rules import Rule
from holdtrue.testing.verdicts import BadSeed

_KEPT: Final = 64
_PLACES: Final[Mapping[Dialect, str]] = {
    Dialect.POSTGRESQL: "PostgreSQL",
    Dialect.SQLITE: "SQLite",
    Dialect.MYSQL: "MariaDB",
}

_REMEDIES: Final[Mapping[Dialect, str]] = {
    Dialect.POSTGRESQL: f"name in {URL_VARIABLE} a PostgreSQL that answers and has the extensions, types and functions of"
    " the monitored one; its login must be allowed to create databases",
    Dialect.SQLITE: "a scratch file is made in the system's folder for temporary files: see that it can be written, and that"
    " this SQLite has what schema and text need",
    Dialect.MYSQL: f"name in {MYSQL_URL_VARIABLE} a server that answers and has what schema and text need; its login must be"
    " allowed to create databases and users",
}
"""What a trial takes, where the reason that there was none does not say it."""

_WITHIN: Final = "\nmake the text do with tables alone: incident_schema.sql has no views, functions and triggers"


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """A frozen incident, tried. ``sentence`` names tables, columns and codes, never a value.

    ``lost`` are pairs of tables, child and parent, where a row refers to one that was not kept. Where nobody looked,
    ``remedy`` says what it takes, one way in each line, and without a ``place`` no other incident of this schema can be
    tried either.
    """

    finding: Finding
    sentence: str
    lost: tuple[tuple[str, str], ...] = ()
    remedy: str = ""
    place: bool = True


Rehearse = Callable[[Incident, str, DatabaseConfig], Rehearsed]
"""``(incident, schema_sql, config)``. Never raises: what went wrong on the way is ``NOT_LOOKED``."""


class _Servers:
    """The scratch servers of one promotion; each starts when it is first needed."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.postgresql = ScratchServer(environ)
        self.mysql = MysqlScratchServer(environ)

    def __enter__(self) -> _Servers:
        return self

    def __exit__(self, *_: object) -> None:
        self.postgresql.close()
        self.mysql.close()


class IncidentRehearsal:
    """Tries incidents one at a time, each in a scratch database of its own dialect, made and dropped for it.

    A server of our own is started where none is named (HOLDTRUE_SCRATCH_URL, HOLDTRUE_SCRATCH_MYSQL_URL), and stopped. What
    was found is remembered, so that a promotion right after its preview does not start another server.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        """``environ`` may name the scratch servers."""
        self._environ = environ
        self._lock = threading.Lock()
        self._found: OrderedDict[str, Rehearsed] = OrderedDict()

    @contextmanager
    def begin(self) -> Iterator[Rehearse]:
        """What tries incidents on one server, which ends with the block."""
        with self._lock, _Servers(self._environ) as servers:
            yield lambda incident, schema_sql, config: self._look(servers, incident, schema_sql, config)

    def _look(self, servers: _Servers, incident: Incident, schema_sql: str, config: DatabaseConfig) -> Rehearsed:
        place = sha256(f"{schema_sql}\0{config.search_path}".encode("utf-8", "surrogatepass")).hexdigest()
        known = f"{incident.checksum} {place}"
        found = self._found.get(known)
        if found is None:
            found = _try(servers, incident, schema_sql, config)
            if found.finding is not Finding.NOT_LOOKED:
                self._found[known] = found
                while len(self._found) > _KEPT:
                    self._found.popitem(last=False)
        return found


def _try(servers: _Servers, incident: Incident, schema_sql: str, config: DatabaseConfig) -> Rehearsed:
    kind = _PLACES.get(config.dialect)
    if kind is None:
        return _no_place(f"there is no scratch database for {config.dialect}", "")
    if not schema_sql.strip():
        return _no_place("no schema was kept with the rows", "the next new violation keeps one: promote that one")
    remedy = _REMEDIES[config.dialect]
    placed = False
    try:
        with _place(servers, schema_sql, config) as place:
            placed = True
            found = _tried(incident, place)
            return replace(found, remedy=remedy + _WITHIN) if found.finding is Finding.NOT_LOOKED else found
    except HoldtrueError as problem:
        said = problem.message
        remedy = problem.remedy or remedy
    except Exception as problem:  # noqa: BLE001  whatever it is, it is no verdict on these rows
        said = f"a scratch {kind} ended with an unexpected {type(problem).__name__}"
    return Rehearsed(Finding.NOT_LOOKED, said, remedy=remedy) if placed else _no_place(said, remedy)


def _no_place(said: str, remedy: str) -> Rehearsed:
    return Rehearsed(Finding.NOT_LOOKED, said, remedy=remedy, place=False)


def _place(servers: _Servers, schema_sql: str, config: DatabaseConfig) -> AbstractContextManager[Place]:
    if config.dialect is Dialect.SQLITE:
        return on_sqlite(schema_sql)
    if config.dialect is Dialect.MYSQL:
        return on_mysql(schema_sql, config.timezone, servers.mysql)
    return on_postgresql(schema_sql, config.search_path, servers.postgresql)


def _tried(incident: Incident, place: Place) -> Rehearsed:
    control, where = place.control, place.name
    rule = Rule(incident.invariant, incident.sql, incident.returns)
    shift = clock_of(incident)
    try:
        refusal = control.put(with_numbers_now(incident, incident.seed), shift_from=shift)
    except BadSeed as problem:
        return Rehearsed(Finding.SEED_REFUSED, f"on a scratch {where} the seed does not load: {problem}")
    if refusal is not None:
        return Rehearsed(Finding.SEED_REFUSED, f"on a scratch {where} the seed does not load: {refusal.reason}")
    lost = tuple(sorted(control.dangling()))
    try:
        if rule.breaks(control.ask(rule.sql)):
            return Rehearsed(Finding.SEED_BREAKS, f"on a scratch {where} the seed alone breaks the rule already", lost)
    except BadSeed as problem:
        return Rehearsed(Finding.NOT_LOOKED, f"on a scratch {where} {problem}", lost)
    try:
        refusal = control.put(with_numbers_now(incident, incident.observed), shift_from=shift)
    except BadSeed as problem:
        said = f"on a scratch {where} the observed rows do not load: {problem}"
        return Rehearsed(Finding.OBSERVED_REFUSED, said, lost)
    if refusal is not None:
        said = f"on a scratch {where} the observed rows do not load: {refusal.reason}"
        return Rehearsed(Finding.OBSERVED_REFUSED, said, lost)
    if not rule.breaks(control.ask(rule.sql)):
        said = f"on a scratch {where} the seed holds, and with the observed rows the rule still holds"
        return Rehearsed(Finding.NOT_BROKEN, said, lost)
    said = f"on a scratch {where}, made from incident_schema.sql: the seed holds, and with the observed rows the rule breaks"
    return Rehearsed(Finding.BREAKS, said, lost)
