"""What a race says of code it cannot judge, and how one asks for a single point or schedule."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import StaticPool

from holdtrue.errors import NotFound, Refused, SettingsRefused
from holdtrue.testing import (
    BarrierDatabase,
    BarrierFailed,
    LeftOpen,
    Limits,
    Verdict,
    after_read,
    before_commit,
    before_write,
    race,
    replay,
    schema_from_alembic,
    step,
)
from holdtrue.testing.adapters import sqlalchemy_events
from holdtrue.testing.barrier_databases import BarrierServer
from pytesting import run_pytest
from racy import duplicate, lost_update, schema
from servers.postgres import PostgresPrimary

TESTS = Path(__file__).parents[1]


@pytest.fixture
def engine(database: BarrierDatabase) -> Iterator[Engine]:
    """One of the test alone: whatever is left open on it goes when it ends."""
    made = create_engine(database.sqlalchemy_url)
    yield made
    gc.collect()
    made.dispose()
    database.control.set_back()


@pytest.mark.parametrize("point", [after_read("refunds"), before_write("REFUNDS"), before_commit(), step(1)], ids=str)
def test_a_named_point_holds_each_party_once(point: object, database: BarrierDatabase) -> None:
    def run() -> None:
        duplicate.buggy(database.engine)

    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, hold=point).play()  # type: ignore[arg-type]
    assert report.verdict is Verdict.VIOLATED
    assert [one.schedule.name for one in report.judged] == ["AB", "BA", "A"]


def test_a_point_that_no_party_reaches_is_no_pass(database: BarrierDatabase) -> None:
    def run() -> None:
        lost_update.right_atomic_update(database.engine)

    made = race(a=run, b=run, invariant=schema.BALANCE, db=database, hold=before_write("refunds"))
    with pytest.raises(BarrierFailed, match="no party came to stand before it writes refunds") as found:
        made.assert_holds()
    assert found.value.verdict is Verdict.NOT_REACHED


def test_one_schedule_can_be_played_alone_and_an_unknown_one_is_no_pass(database: BarrierDatabase) -> None:
    def run() -> None:
        duplicate.right_lock_parent(database.engine)

    try:
        replay.ask_for("B2")
        report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database).assert_holds()
        assert [one.schedule.name for one in report.judged] == ["B2"]
        replay.ask_for("A99")
        with pytest.raises(BarrierFailed, match="there is no schedule A99"):
            race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database).assert_holds()
    finally:
        replay.ask_for("")


def test_without_a_database_the_one_that_the_parties_use_is_asked(database: BarrierDatabase) -> None:
    def reset() -> None:
        with database.engine.begin() as connection:
            connection.execute(text("DELETE FROM refunds"))

    def run() -> None:
        duplicate.buggy(database.engine)

    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, reset=reset).play()
    assert report.verdict is Verdict.VIOLATED
    with pytest.raises(Refused, match="nothing sets the database back"):
        race(a=run, b=run, invariant=schema.ONE_SETTLED)
    reset()


def test_parties_that_share_one_connection_are_told_so(database: BarrierDatabase) -> None:
    shared = create_engine(database.url, poolclass=StaticPool)
    try:
        report = race(
            a=lambda: duplicate.buggy(shared),
            b=lambda: duplicate.buggy(shared),
            invariant=schema.ONE_SETTLED,
            db=database,
        ).play()
    finally:
        shared.dispose()
    assert report.verdict is Verdict.SHARED_CONNECTION
    assert "no StaticPool" in report.reason


def test_two_parties_that_fail_have_tested_nothing(database: BarrierDatabase) -> None:
    def run() -> None:
        with database.engine.begin() as connection:
            connection.execute(text("SELECT 1 FROM refunds"))
            raise ValueError("secret")

    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database).play()
    assert report.verdict is Verdict.BOTH_FAILED
    assert "A with ValueError" in report.reason
    assert "secret" not in report.show()


def test_a_slow_statement_is_no_stall(database: BarrierDatabase) -> None:
    """Active without a lock wait: the server works, so one keeps waiting."""

    def run() -> None:
        with database.engine.begin() as connection:
            connection.execute(text("SELECT id FROM disputes WHERE id = 'dsp_1' FOR UPDATE"))
            connection.execute(text("SELECT pg_sleep(0.3)"))
            duplicate.read_then_insert(connection)

    limits = Limits(stall=0.05)
    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, limits=limits, hold=step(1)).assert_holds()
    assert report.verdict is Verdict.HELD


def test_a_lock_that_all_processes_share_may_be_declared(database: BarrierDatabase) -> None:
    lock = threading.Lock()

    def run() -> None:
        with lock:
            duplicate.buggy(database.engine)

    limits = Limits(stall=0.1)
    made = race(
        a=run, b=run, invariant=schema.ONE_SETTLED, db=database, limits=limits, external_lock=True, hold=step(1)
    )
    assert made.assert_holds().verdict is Verdict.HELD


def test_a_schedule_that_does_not_end_is_a_timeout_and_leaves_nothing_behind(database: BarrierDatabase) -> None:
    release = threading.Event()

    def waits(engine: Engine) -> None:
        with engine.begin() as connection:
            connection.execute(text("SELECT 1 FROM refunds"))
            release.wait(20)

    limits = Limits(stall=0.05, deadline=0.3)
    report = race(
        a=lambda: waits(database.engine),
        b=lambda: waits(database.engine),
        invariant=schema.ONE_SETTLED,
        db=database,
        limits=limits,
    )
    started = time.monotonic()
    threading.Timer(1.0, release.set).start()
    found = report.play()
    assert found.verdict in (Verdict.TIMEOUT, Verdict.STALLED)
    assert time.monotonic() - started < 15
    assert not [one for one in threading.enumerate() if one.name.startswith("party ")]


def test_a_savepoint_that_is_rolled_back_gives_its_lock_back(database: BarrierDatabase) -> None:
    def run() -> None:
        with database.engine.begin() as connection:
            inner = connection.begin_nested()
            connection.execute(text("SELECT id FROM disputes WHERE id = 'dsp_1' FOR UPDATE"))
            inner.rollback()
            duplicate.read_then_insert(connection)

    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database).play()
    assert report.verdict is Verdict.VIOLATED
    assert report.steps == (4, 4)


def test_a_race_that_is_made_and_never_played_fails_its_test(tmp_path: Path) -> None:
    """It would be green without having looked."""
    (tmp_path / "test_forgotten.py").write_text(
        "from holdtrue.testing import FrozenIncident, arace, race\n\n\ndef test_forgotten():\n"
        "    race(a=print, b=print, invariant='SELECT 1 WHERE false', reset=print)\n\n\n"
        "def test_never_awaited():\n"
        "    FrozenIncident(None).acheck(print, print, None)\n\n\n"
        "def test_played_by_nobody():\n"
        "    arace(a=print, b=print, invariant='SELECT 1 WHERE false', reset=print).assert_holds()\n",
        encoding="utf-8",
    )
    done = run_pytest(folder=tmp_path)
    assert done.returncode == 1
    assert "3 failed" in done.stdout
    told = done.stdout.partition("short test summary")[0]
    assert told.count("made and never played: call .assert_holds()") == 2
    assert "called and never awaited: await INCIDENT.acheck(…)" in done.stdout


def test_the_plugin_loads_nothing_of_the_kit_before_a_test_asks() -> None:
    code = (
        "import sys, holdtrue.testing.plugin\n"
        "heavy = {'sqlalchemy', 'psycopg', 'sqlglot', 'yaml'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_invariant_is_found_by_its_name_in_the_catalog(
    database: BarrierDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "holdtrue.yaml").write_text(
        "databases: {payments: {replicas: [{name: r1, url: 'postgresql://nowhere/db'}]}}\n", encoding="utf-8"
    )
    (tmp_path / "invariants").mkdir()
    (tmp_path / "invariants" / "one.yaml").write_text(
        "version: 1\ninvariants:\n  - name: one_settled\n    database: payments\n    key: [dispute_id]\n"
        f'    sql: "{schema.ONE_SETTLED}"\n',
        encoding="utf-8",
    )

    def run() -> None:
        duplicate.buggy(database.engine)

    report = race(a=run, b=run, invariant="one_settled", db=database).play()
    assert report.reason == "one_settled returned 1 row: ('dsp_1', 2)"
    with pytest.raises(NotFound, match="no_such_rule"):
        race(a=run, b=run, invariant="no_such_rule", db=database)


def test_migrations_of_alembic_build_the_barrier_database(postgres_primary: PostgresPrimary, tmp_path: Path) -> None:
    (tmp_path / "migrations" / "versions").mkdir(parents=True)
    (tmp_path / "alembic.ini").write_text(
        f"[alembic]\nscript_location = {tmp_path / 'migrations'}\npath_separator = os\n", encoding="utf-8"
    )
    (tmp_path / "migrations" / "env.py").write_text(
        "import os\nfrom alembic import context\nfrom sqlalchemy import create_engine\n"
        "url = context.config.get_main_option('sqlalchemy.url')\nassert os.environ['SHOP_URL'] == url\n"
        "engine = create_engine(url)\n"
        "with engine.begin() as connection:\n    context.configure(connection=connection)\n    context.run_migrations()\n"
        "engine.dispose()\n",
        encoding="utf-8",
    )
    (tmp_path / "migrations" / "versions" / "one.py").write_text(
        "from alembic import op\nrevision = 'one'\ndown_revision = None\n"
        "def upgrade():\n    op.execute('CREATE TABLE made (id int)')\n",
        encoding="utf-8",
    )
    schema_of = schema_from_alembic(tmp_path / "alembic.ini", variable="SHOP_URL")
    made = BarrierDatabase("postgresql", schema_of, postgres_primary.url)
    try:
        assert made.control.ask("SELECT count(*) FROM made") == [(0,)]
        made.control.keep_baseline()
        made.control.set_back()
        assert made.control.ask("SELECT version_num FROM alembic_version") == [("one",)]
    finally:
        made.close()


def test_without_a_named_server_one_is_started_and_stopped_again() -> None:
    server = BarrierServer({})
    made = BarrierDatabase("postgresql", schema.build, server.url)
    try:
        assert made.control.ask("SELECT count(*) FROM disputes") == [(1,)]
        made.close()
    finally:
        server.close()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(made.libpq_url, connect_timeout=2)


def test_a_server_that_does_not_answer_is_said_with_its_variable() -> None:
    nowhere = BarrierServer({"HOLDTRUE_BARRIER_URL": "postgresql://user:secret@127.0.0.1:9/db"})
    with pytest.raises(SettingsRefused, match="HOLDTRUE_BARRIER_URL") as found:
        _ = BarrierDatabase("postgresql", schema.build, nowhere.url).url
    assert "secret" not in str(found.value)


@pytest.mark.parametrize(
    ("code", "verdict"), [(duplicate.buggy, Verdict.VIOLATED), (duplicate.right_lock_parent, Verdict.HELD)]
)
def test_engines_of_another_driver_are_held_alike(
    code: Callable[[Engine], None], verdict: Verdict, database: BarrierDatabase
) -> None:
    other = create_engine(database.sqlalchemy_url.set(drivername="postgresql+psycopg2"))
    try:
        report = race(a=lambda: code(other), b=lambda: code(other), invariant=schema.ONE_SETTLED, db=database).play()
    finally:
        other.dispose()
    assert report.verdict is verdict, report.show()


@pytest.mark.parametrize(
    ("code", "verdict"), [(duplicate.buggy, Verdict.VIOLATED), (duplicate.right_lock_parent, Verdict.HELD)]
)
def test_a_driver_that_does_not_tell_its_backend_has_the_server_asked_for_it(
    code: Callable[[Engine], None], verdict: Verdict, database: BarrierDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pg8000: a lock in the database would be taken for a wait outside of it."""
    monkeypatch.setattr(sqlalchemy_events, "backend_pid", lambda _connection: None)
    made = create_engine(database.sqlalchemy_url, pool_size=3)
    try:
        report = race(a=lambda: code(made), b=lambda: code(made), invariant=schema.ONE_SETTLED, db=database).play()
    finally:
        made.dispose()
    assert report.verdict is verdict, report.show()
    assert verdict is Verdict.VIOLATED or "one party waited for the other in the database" in report.reason


def test_where_nobody_tells_it_nobody_says_that_a_party_waited_outside_the_database(
    database: BarrierDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("backend_pid", "ask_backend_pid"):
        monkeypatch.setattr(sqlalchemy_events, name, lambda *_known: None)

    def run() -> None:
        duplicate.right_lock_parent(database.engine)

    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database, limits=Limits(stall=0.2, deadline=3)).play()
    assert report.verdict is Verdict.NOT_REACHED, report.show()
    assert "nobody can tell whether it waited in the database" in report.reason


def of_a_thread(engine: Engine, *, writes: bool) -> Callable[[], object]:
    """As code of a web framework, which removes the session when the request ends."""
    sessions = scoped_session(sessionmaker(engine))

    def run() -> object:
        sessions.execute(text("SELECT id FROM disputes WHERE id = :d FOR UPDATE"), duplicate.DISPUTE)
        if sessions.execute(text(duplicate.SETTLED), duplicate.DISPUTE).first() is None:
            sessions.execute(text(duplicate.INSERT), duplicate.DISPUTE)
        sessions.commit()
        if writes:
            sessions.execute(text("UPDATE disputes SET id = id"))
        return sessions.execute(text(duplicate.SETTLED), duplicate.DISPUTE).first()

    return run


def test_a_session_of_a_thread_that_read_after_its_commit_has_left_nothing_open(
    database: BarrierDatabase, engine: Engine
) -> None:
    run = of_a_thread(engine, writes=False)
    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database).play()
    assert report.verdict is Verdict.HELD, report.show()


def test_one_that_wrote_has_and_the_remedy_is_named(database: BarrierDatabase, engine: Engine) -> None:
    run = of_a_thread(engine, writes=True)
    with pytest.raises(LeftOpen, match=r"call remove\(\) of a scoped_session"):
        race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database).play()


def test_sessions_of_the_orm_are_held_at_their_flush_and_commit(database: BarrierDatabase) -> None:
    def run() -> None:
        with Session(database.engine) as session:
            if session.execute(text(duplicate.SETTLED), duplicate.DISPUTE).first() is None:
                session.execute(text(duplicate.INSERT), duplicate.DISPUTE)
            session.commit()

    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, db=database).play()
    assert report.verdict is Verdict.VIOLATED
    assert [line.what for line in report.judged[0].played.lines if line.party == "A"] == [
        "START",
        "SELECT refunds",
        "INSERT refunds",
        "COMMIT",
    ]


def test_a_thread_of_the_code_s_own_is_named_even_where_no_database_was_given(database: BarrierDatabase) -> None:
    def run() -> None:
        with database.engine.begin() as connection:
            connection.execute(text("SELECT 1 FROM disputes"))
        thread = threading.Thread(target=duplicate.buggy, args=(database.engine,))
        thread.start()
        thread.join()

    def reset() -> None:
        with database.engine.begin() as connection:
            connection.execute(text("DELETE FROM refunds"))

    report = race(a=run, b=run, invariant=schema.ONE_SETTLED, reset=reset).play()
    assert report.verdict is Verdict.NOT_REACHED
    assert "a thread that no party owns" in report.reason
    reset()


def test_a_report_says_what_a_fix_costs_beside_what_it_cost_before(database: BarrierDatabase) -> None:
    """How long is for benchmarks; that a lock is waited for, and held, is not."""
    before = race(
        a=lambda: duplicate.buggy(database.engine),
        b=lambda: duplicate.buggy(database.engine),
        invariant=schema.ONE_SETTLED,
        db=database,
    ).play()
    after = race(
        a=lambda: duplicate.right_lock_parent(database.engine),
        b=lambda: duplicate.right_lock_parent(database.engine),
        invariant=schema.ONE_SETTLED,
        db=database,
    ).assert_holds()
    assert before.costs().longest.waited == 0
    assert before.costs().schedules["AB"]["A"].held > 0
    assert before.costs().schedules["AB"]["B"].held == 0, "B saw the refund and wrote nothing"
    costs = after.costs().schedules
    assert costs["A1"]["B"].waited > 0 == costs["A1"]["A"].waited
    assert costs["B1"]["A"].waited > 0 == costs["B1"]["B"].waited
    assert all(one.waited == 0 for name in ("AB", "BA") for one in costs[name].values())
    assert all(one.held > 0 for of_schedule in costs.values() for one in of_schedule.values())
    assert "A1        B" in after.costs().beside(before.costs())
