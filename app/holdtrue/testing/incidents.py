"""replays a frozen incident on the user's own schema, and refuses every way to pass without having tested"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from holdtrue.errors import Refused
from holdtrue.model import Dialect, Incident, TableRows
from holdtrue.model.tickets import LACKS_A_ROW
from holdtrue.testing import promises
from holdtrue.testing.added_columns import with_added_columns
from holdtrue.testing.barrier_databases import BarrierDatabase
from holdtrue.testing.clocks import clock_of, with_numbers_now
from holdtrue.testing.controls import Control, Refusal
from holdtrue.testing.failures import told
from holdtrue.testing.judgements import RaceReport
from holdtrue.testing.loops import RaceLoop, beside_this_loop, of_another_loop
from holdtrue.testing.making import kind_of
from holdtrue.testing.plans import Plan
from holdtrue.testing.played import Limits, Played
from holdtrue.testing.races import Race
from holdtrue.testing.rules import Rule
from holdtrue.testing.verdicts import BadSeed, BarrierFailed, NotWired, Verdict, WrongDatabase

Run = Callable[[BarrierDatabase], object]


@dataclass(frozen=True, slots=True)
class FrozenIncident:
    """The frozen block of a scaffold, ready to be replayed. ``tolerate`` is the rule's own."""

    incident: Incident

    @property
    def engine(self) -> str:
        """The engine of the incident: it is replayed on no other."""
        return self.incident.engine

    @property
    def database(self) -> str:
        """The database that it is from, as the catalog names it: a ``barrier_schema`` for several asks."""
        return self.incident.database

    def check(
        self,
        run_a: Run,
        run_b: Run,
        db: BarrierDatabase,
        *,
        limits: Limits | None = None,
        max_steps: int = 60,
        external_lock: bool = False,
        b_may_be_idle: bool = False,
        pre_image: Run | None = None,
        also: Plan | None = None,
        hold: Literal["server"] | None = None,
    ) -> RaceReport:
        """Show that the two runs cannot break the rule any more, in any schedule.

        The steps are those of semantics 9: the seed alone holds; the observed rows break the rule here or a constraint refuses
        them; each run alone has an effect, refers to rows that are there and keeps the rule; in series it holds; held at every
        boundary, in both roles, it holds. ``b_may_be_idle`` allows a ``run_b`` that alone changes nothing or fails.
        ``pre_image`` corrects, after the seed was loaded, what no database could tell. ``also`` is played besides:
        ``late_effect(…)``, ``force_order(…)``. With ``hold="server"`` the PostgreSQL server holds the runs, which may then be
        processes of their own.

        Raises:
            BarrierFailed: the rule is broken, or nothing was tested; the verdict says which.
            BadSeed: the frozen rows do not mean here what they meant in production.
            NotWired: a run, or ``barrier_schema``, is not wired yet.
            WrongDatabase: another engine, or code that speaks to another database.
            Refused: ``hold="server"`` on another engine, or with ``also``.
        """
        __tracebackhide__ = True  # whoever reads the failure looks for a fault in the wired code, not in ours
        loop = RaceLoop()
        try:
            return self._check(
                run_a,
                run_b,
                db,
                loop,
                limits=limits,
                max_steps=max_steps,
                external_lock=external_lock,
                b_may_be_idle=b_may_be_idle,
                pre_image=pre_image,
                also=also,
                hold=hold,
            )
        finally:
            loop.close()

    def acheck(
        self,
        run_a: Run,
        run_b: Run,
        db: BarrierDatabase,
        **options: Any,  # noqa: ANN401  those of check
    ) -> Coroutine[Any, Any, RaceReport]:
        """:meth:`check` for a test that is a coroutine and awaits this: the runs share its loop. ``options`` are the same."""
        promised = promises.ToAwait("INCIDENT.acheck(…) was called and never awaited: await INCIDENT.acheck(…)")
        promises.made.append(promised)

        async def check() -> RaceReport:
            __tracebackhide__ = True
            promised.begins()
            return await beside_this_loop(lambda loop: self._check(run_a, run_b, db, loop, **options))

        return check()

    def _check(
        self,
        run_a: Run,
        run_b: Run,
        db: BarrierDatabase,
        loop: RaceLoop,
        *,
        limits: Limits | None = None,
        max_steps: int = 60,
        external_lock: bool = False,
        b_may_be_idle: bool = False,
        pre_image: Run | None = None,
        also: Plan | None = None,
        hold: Literal["server"] | None = None,
    ) -> RaceReport:
        __tracebackhide__ = True
        if hold is not None and also is not None:
            raise Refused(
                'hold="server" plays no other schedules, so also= cannot be one',
                remedy="check the incident twice: once with each",
            )
        if db.dialect != self.incident.engine:
            raise WrongDatabase(
                f"the incident is from {self.incident.engine} and is replayed there only; "
                f"the barrier database is {db.dialect}, which locks differently"
            )
        if hold is not None and db.dialect != "postgresql":
            raise Refused('hold="server" is for PostgreSQL', remedy="leave it out: this process holds the runs then")
        control = db.control
        control.keep_baseline()
        rule = Rule(self.incident.invariant, self.incident.sql, self.incident.returns)
        self._set_back(control, db, pre_image, loop)
        self._seed_holds(control, rule)
        note = self._observed_breaks(control, rule, corrected=pre_image is not None)
        kind = kind_of(hold)
        race = kind(
            works={"A": lambda: run_a(db), "B": lambda: run_b(db)},
            rule=rule,
            set_back=lambda: self._set_back(control, db, pre_image, loop),
            control=control,
            expected=db.sqlalchemy_url,
            plans=(also,) if also is not None else (),
            limits=limits or kind.LIMITS,
            max_steps=max_steps,
            external_lock=external_lock,
            content=lambda: control.content(self._tables()),
            may_fail=frozenset("B" if b_may_be_idle else ""),
        )
        for name, may_be_idle in (("A", False), ("B", b_may_be_idle)):
            self._set_back(control, db, pre_image, loop)
            before, dangling = control.content(self._tables()), control.dangling()
            played = race.alone(name, loop)
            self._judge_alone(race, name, played, before, may_be_idle=may_be_idle)
            self._refers_to_what_is_there(name, control.dangling() - dangling)
        report = race.play(loop)
        report.require()
        return RaceReport(report.verdict, report.reason + note, report.judged, report.steps)

    def _seed_holds(self, control: Control, rule: Rule) -> None:
        __tracebackhide__ = True
        broken = rule.breaks(control.ask(rule.sql))
        if broken:
            marked = "".join(f"\n  guessed: {one}" for one in self.incident.marked)
            raise BadSeed(
                f"the seed alone already breaks the rule: {broken}; promote again, or correct the guesses{marked}"
            )

    def _observed_breaks(self, control: Control, rule: Rule, *, corrected: bool) -> str:
        """The rows seen in production break the rule here too, or a constraint refuses them: returned as a note."""
        __tracebackhide__ = True
        note, broken = self._with_observed(control, rule)
        if not note and not broken and corrected:
            # What is gone by now (a row that was deleted) stands in pre_image alone, and mends what broke.
            control.set_back()
            self._put(control, self.incident.seed)
            note, broken = self._with_observed(control, rule)
        if not note and not broken:
            raise BadSeed("seed and observed rows together do not break the rule on this schema: schema or data differ")
        return note

    def _with_observed(self, control: Control, rule: Rule) -> tuple[str, str]:
        __tracebackhide__ = True
        refusal = self._put(control, self.incident.observed)
        if refusal is not None and refusal.constraint:
            return f"; here {refusal.reason}, so the observed state cannot come about", ""
        if refusal is not None:
            raise BarrierFailed(
                Verdict.SCHEMA_MOVED_ON,
                f"the observed rows no longer load: {refusal.reason}. This is neither a verdict on the fix nor a pass; "
                "promote a newer alert, or keep the test on the schema of its time",
            )
        return "", rule.breaks(control.ask(rule.sql))

    def _judge_alone(self, race: Race, name: str, played: Played, before: str, *, may_be_idle: bool) -> None:
        __tracebackhide__ = True
        control, rule = race.control, race.rule
        assert control is not None  # noqa: S101  a barrier database has one
        error = played.errors.get(name)
        if isinstance(error, NotWired):
            raise error
        broken = rule.breaks(control.ask(rule.sql))
        if broken:
            raise BarrierFailed(
                Verdict.VIOLATED_IN_SERIES, f"run_{name.lower()} alone breaks the rule, so it is no race: {broken}"
            )
        if played.trouble is not None:
            raise BarrierFailed(played.trouble, f"run_{name.lower()} alone: {played.reason}")
        if may_be_idle:
            return
        if error is not None:
            raise BarrierFailed(Verdict.BOTH_FAILED, failed_alone(name, error, self.incident.marked)) from error
        if name in played.silent:
            raise BarrierFailed(
                Verdict.NOT_REACHED,
                f"run_{name.lower()} {race.silence}",
            )
        if control.content(self._tables()) == before:
            raise BarrierFailed(
                Verdict.NOT_REACHED,
                f"run_{name.lower()} alone changed nothing in {', '.join(self._tables())}: a test of it would pass without "
                "testing" + (" (b_may_be_idle=True allows it)" if name == "B" else ""),
            )

    def _refers_to_what_is_there(self, name: str, dangling: frozenset[tuple[str, str]]) -> None:
        """A run that works on a row which the seed lacks would pass without testing, where the engine lets it through."""
        __tracebackhide__ = True
        if dangling:
            pairs = ", ".join(f"{child} to {parent}" for child, parent in sorted(dangling))
            raise BadSeed(
                f"run_{name.lower()} alone wrote rows that refer to rows which are not there ({pairs}): call it with the ids of"
                " the seed, or insert in pre_image(db) what was there before the race"
            )

    def _set_back(self, control: Control, db: BarrierDatabase, pre_image: Run | None, loop: RaceLoop) -> None:
        __tracebackhide__ = True
        control.set_back()
        refusal = self._put(control, self.incident.seed)
        if refusal is not None:
            raise BarrierFailed(
                Verdict.SCHEMA_MOVED_ON, f"the seed no longer loads: {refusal.reason}; promote a newer alert"
            )
        if pre_image is not None:
            loop.settle(pre_image(db))

    def _put(self, control: Control, tables: Sequence[TableRows]) -> Refusal | None:
        moved = with_numbers_now(self.incident, tables)
        return control.put(moved, shift_from=clock_of(self.incident))

    def _tables(self) -> tuple[str, ...]:
        """What a run must change to have done anything: captured tables, and others that the text reads."""
        from holdtrue.catalog import inspect_sql  # reads SQL: only a test that is played needs the parser

        read = inspect_sql(self.incident.sql, Dialect(self.incident.engine)).tables
        return tuple(dict.fromkeys([*(one.table for one in (*self.incident.seed, *self.incident.observed)), *read]))


def failed_alone(name: str, error: BaseException, marked: Sequence[str]) -> str:
    """That a run failed by itself, what became of the other one, and what may help; ``marked`` are the incident's."""
    other = "run_b was not tried yet" if name == "A" else "run_a did its work; b_may_be_idle=True allows it"
    lacks = any(LACKS_A_ROW in one for one in marked)
    return (
        f"nothing was raced, since run_{name.lower()} alone failed with {told(error)} ({other})"
        + of_another_loop([error])
        + ("; the seed may lack a row: see PRE-IMAGE in the test file, and insert it in pre_image(db)" if lacks else "")
    )


def load_incident(
    path: str | Path, *, checksum: str, added: Mapping[str, str | int | float | None] | None = None
) -> FrozenIncident:
    """Read the frozen block of a scaffold.

    ``added`` gives a value to a column that migrations have added since: ``{"vouchers.redeemed": 0}``. It changes no captured
    value.

    Raises:
        BadSeed: the block is not the one that was exported, or ``added`` names what it must not.
    """
    try:
        incident = read_incident(json.loads(Path(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BadSeed(f"{Path(path).name} is no frozen incident: promote the alert again") from error
    if incident.checksum != checksum:
        raise BadSeed(
            f"the frozen block {Path(path).name} was edited (checksum {incident.checksum[:16]}, exported {checksum[:16]}): "
            "promote the alert again instead"
        )
    return FrozenIncident(with_added_columns(incident, added or {}))


def read_incident(data: Mapping[str, Any]) -> Incident:
    """The frozen block that stands as JSON in a scaffold.

    Raises:
        ValueError, KeyError, TypeError: it is none.
    """
    known = {
        "id",
        "invariant",
        "database",
        "engine",
        "sql",
        "returns",
        "seed",
        "observed",
        "pattern",
        "marked",
        "incident_now",
    }
    if set(data) != known:
        raise ValueError("other keys than the frozen block has")
    return Incident(
        id=_text(data["id"]),
        invariant=_text(data["invariant"]),
        database=_text(data["database"]),
        engine=_text(data["engine"]),
        sql=_text(data["sql"]),
        returns=_text(data["returns"]),
        seed=_tables(data["seed"]),
        observed=_tables(data["observed"]),
        pattern=_text(data["pattern"]),
        marked=tuple(_text(one) for one in data["marked"]),
        incident_now=_text(data["incident_now"]),
    )


def _tables(data: Sequence[Mapping[str, Any]]) -> tuple[TableRows, ...]:
    return tuple(
        TableRows(
            table=_text(one["table"]),
            columns=tuple(_text(name) for name in one["columns"]),
            rows=tuple(tuple(None if cell is None else _text(cell) for cell in row) for row in one["rows"]),
            types=tuple(_text(name) for name in one["types"]),
        )
        for one in data
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text was expected")
    return value
