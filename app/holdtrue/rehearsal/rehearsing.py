"""tries the examples of invariants, each in a clean scratch database of the invariant's own dialect"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final

from holdtrue.databases import Databases, Examined, Look, examine_invariant
from holdtrue.errors import HoldtrueError, Refused
from holdtrue.ledger import KeyHasher
from holdtrue.model import (
    Catalog,
    DatabaseConfig,
    Dialect,
    Example,
    Failure,
    Freshness,
    Invariant,
    ReplicaConfig,
    Secret,
)
from holdtrue.rehearsal.mysql_server import MysqlScratchServer
from holdtrue.rehearsal.proofs import Kind, Proof, Proven, Result, Trial, judge_example, prove
from holdtrue.rehearsal.scratch import Scratch, ScratchFailed
from holdtrue.rehearsal.scratch_mysql import MysqlScratch
from holdtrue.rehearsal.scratch_postgresql import PostgresScratch
from holdtrue.rehearsal.scratch_sqlite import SqliteScratch
from holdtrue.rehearsal.servers import ScratchServer

_URL: Final = "SCRATCH"
_OFFERED: Final = (Dialect.SQLITE, Dialect.POSTGRESQL, Dialect.MYSQL)

_Alike = tuple[Dialect, str | None, str, str | None]
"""What makes the scratch databases of two databases the same."""


def rehearse(
    catalog: Catalog,
    chosen: Sequence[tuple[Invariant, str]],
    *,
    environ: Mapping[str, str],
    folder: Path,
    on_done: Callable[[Proof], None] = lambda _: None,
) -> tuple[Proof, ...]:
    """Try every example of the chosen invariants; the proofs in the order of ``chosen``.

    Databases that are alike (dialect, schema file, time zone, search path) share one proof of an invariant. Schema files
    lie relative to ``folder``, that of ``holdtrue.yaml``. No monitored database is asked, and none is needed.
    """
    configs = {one.name: one for one in catalog.config.databases}
    wanted: dict[tuple[str, _Alike], list[str]] = {}
    invariants = {one.name: one for one, _ in chosen}
    for invariant, name in chosen:
        wanted.setdefault((invariant.name, _alike(configs[name])), []).append(name)
    proofs = []
    with _Scratches(environ, folder) as scratches:
        for (name, alike), names in wanted.items():
            proof = _prove(invariants[name], tuple(names), configs[names[0]], scratches, alike)
            on_done(proof)
            proofs.append(proof)
    return tuple(proofs)


def _alike(config: DatabaseConfig) -> _Alike:
    return config.dialect, config.schema_file, config.timezone, config.search_path


def _prove(
    invariant: Invariant, names: tuple[str, ...], config: DatabaseConfig, scratches: _Scratches, alike: _Alike
) -> Proof:
    tried = [(Kind.VIOLATING, number, one) for number, one in enumerate(invariant.examples.violating, 1)]
    tried += [(Kind.HEALTHY, number, one) for number, one in enumerate(invariant.examples.healthy, 1)]
    if not tried:
        proven, sentence = prove(())
        return Proof(invariant, names, proven, sentence=sentence)
    if config.dialect not in _OFFERED:
        sentence = f"scratch databases are not offered for this kind of database ({config.dialect})"
        return Proof(invariant, names, Proven.COULD_NOT_LOOK, sentence=sentence)
    if config.schema_file is None:
        sentence = (
            f"database {config.name} has no `schema_file`: `holdtrue pull-schema {config.name} --out FILE` writes one from a"
            " replica"
        )
        return Proof(invariant, names, Proven.REFUSED, sentence=sentence)
    try:
        place = scratches.of(alike, config)
    except HoldtrueError as problem:
        proven = Proven.REFUSED if isinstance(problem, Refused) else Proven.COULD_NOT_LOOK
        return Proof(invariant, names, proven, sentence=str(problem))
    trials = tuple(_try(invariant, kind, number, example, place) for kind, number, example in tried)
    proven, sentence = prove(trials)
    return Proof(invariant, names, proven, trials, sentence)


@dataclass(frozen=True, slots=True)
class _Place:
    """A scratch database and what asks it."""

    scratch: Scratch
    databases: Databases
    name: str
    timezone: str


def _try(invariant: Invariant, kind: Kind, number: int, example: Example, place: _Place) -> Trial:
    started = time.monotonic()
    counted: int | None = None
    notes: tuple[str, ...] = ()
    where = example.place
    try:
        place.scratch.set_back()
        unfit = place.scratch.load(example)
        if unfit is not None:
            result, sentence, where = Result.FAILED, unfit.sentence, unfit.place
        else:
            notes = place.scratch.left_out()
            result, counted, sentence = judge_example(invariant, kind, _ask(invariant, place))
    except ScratchFailed as problem:
        result, sentence = Result.COULD_NOT_LOOK, str(problem)
    duration = timedelta(seconds=time.monotonic() - started)
    return Trial(kind, number, example, result, counted, sentence, notes, where, duration)


def _ask(invariant: Invariant, place: _Place) -> Examined | Failure:
    """The run's own path: the text untouched, in a read-only transaction, within its time limit."""
    # Keys are compared within this one look alone: any secret will do.
    hasher = KeyHasher(b"a scratch database, and no key of it is kept")

    def examine(look: Look) -> Examined:
        return examine_invariant(look, invariant, hasher=hasher, timezone=place.timezone)

    return place.databases.look(
        place.name, time_limit=invariant.timeout, newest_good=None, examine=examine, keep_raw=True
    )


@dataclass
class _Scratches:
    """Makes each scratch database when it is first needed, and drops all of them at the end."""

    environ: Mapping[str, str]
    folder: Path
    _made: dict[_Alike, _Place | HoldtrueError] = field(default_factory=dict)
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> _Scratches:
        self._server = ScratchServer(self.environ)
        self._stack.callback(self._server.close)
        self._mysql_server = MysqlScratchServer(self.environ)
        self._stack.callback(self._mysql_server.close)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def of(self, alike: _Alike, config: DatabaseConfig) -> _Place:
        """The scratch database that stands for this database.

        Raises:
            ScratchFailed: it cannot be made.
            Refused: the schema file cannot be read.
        """
        made = self._made.get(alike)
        if made is None:
            try:
                made = self._make(config)
            except HoldtrueError as problem:
                made = problem
            self._made[alike] = made
        if isinstance(made, HoldtrueError):
            raise made
        return made

    def _make(self, config: DatabaseConfig) -> _Place:
        shown = config.schema_file or ""
        ddl = _read(self.folder / shown, shown)
        scratch: Scratch
        if config.dialect is Dialect.SQLITE:
            scratch = SqliteScratch(ddl, shown=shown)
        elif config.dialect is Dialect.MYSQL:
            server = self._mysql_server.url()
            scratch = MysqlScratch(
                ddl, shown=shown, server=server, ours=self._mysql_server.is_ours, timezone=config.timezone
            )
        else:
            scratch = PostgresScratch(
                ddl,
                shown=shown,
                server=self._server.url(),
                timezone=config.timezone,
                search_path=config.search_path,
            )
        self._stack.callback(scratch.close)
        databases = Databases(environ={_URL: scratch.url}, application_name="holdtrue test")
        self._stack.callback(databases.close)
        databases.configure(
            (
                DatabaseConfig(
                    name=config.name,
                    dialect=config.dialect,
                    # A reference, so that nothing in the URL is taken for one.
                    replicas=(ReplicaConfig("scratch", Secret(f"${{{_URL}}}")),),
                    freshness=Freshness.NONE,
                    allow_primary=True,
                    timezone=config.timezone,
                    search_path=config.search_path,
                    concurrency=1,
                    safe_columns=config.safe_columns,
                ),
            )
        )
        return _Place(scratch, databases, config.name, config.timezone)


def _read(path: Path, shown: str) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise Refused(f"the schema file {shown} cannot be read: {problem.strerror}") from problem
    except UnicodeDecodeError as problem:
        raise Refused(f"the schema file {shown} is not UTF-8") from problem
