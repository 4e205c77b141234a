"""What a real standby still knows of the writers of a violation, with and without the right to read its log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import pytest

from holdtrue.databases import Databases, Examined, Look, examine_invariant
from holdtrue.model import Evidence, Outcome, Position
from holdtrue.scaffolding import Extra, Writer
from holdtrue.scaffolding.overlaps import prove_overlap
from holdtrue.store import bodies, open_store
from racy import schema
from scenes.promoting import RULE, SCRATCH, catalog, preview, save
from servers.invariants import HASHER, postgres_config
from servers.postgres import FreshDatabase, PostgresPrimary, wait_for_replay
from stores import Clock, House, entry

INSERT = "INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'settled')"


@pytest.fixture
def refunds(postgres_database: FreshDatabase) -> FreshDatabase:
    """The refunds schema, and the extension that reads the log."""
    statements = [one for one in schema.POSTGRESQL.split(";") if one.strip()]
    postgres_database.execute([*statements, *schema.ROWS, "CREATE EXTENSION pg_walinspect"])
    return postgres_database


@pytest.fixture
def standby(refunds: FreshDatabase) -> Iterator[Databases]:
    with closing(connected(refunds.standby_url)) as databases:
        yield databases


def connected(url: str) -> Databases:
    databases = Databases(environ={}, application_name="holdtrue-forensics")
    databases.configure([postgres_config(url)])
    return databases


def look(databases: Databases, since: Position | None = None) -> Examined:
    def examine(look: Look) -> Examined:
        return examine_invariant(
            look,
            RULE,
            hasher=HASHER,
            never_seen=lambda tallied, complete: tuple(tallied.keys),
            since=since,
        )

    answer = databases.look("db", time_limit=RULE.timeout, newest_good=since, examine=examine)
    assert isinstance(answer, Examined), answer
    return answer


def two_writers(refunds: FreshDatabase, *, savepoint: bool = False) -> tuple[int, int]:
    """Two transactions that overlap and commit in the order of their ids, which commit times cannot prove."""
    with refunds.connect(autocommit=False) as one, refunds.connect(autocommit=False) as other:
        ids = []
        for connection in (one, other):
            if savepoint:
                connection.execute("SAVEPOINT s")
            connection.execute(INSERT)
            found = connection.execute("SELECT max(xmin::text::int8) FROM refunds").fetchone()
            assert found is not None
            ids.append(int(found[0]))
            if savepoint:
                connection.execute("RELEASE s")
        one.commit()
        other.commit()
    wait_for_replay(refunds.replica)
    return ids[0], ids[1]


def evidence_of(bad: Examined) -> Evidence:
    assert bad.outcome is Outcome.VIOLATED
    (evidence,) = bad.evidence
    return evidence


def overlap(evidence: Evidence) -> str:
    writers = [Writer(row.xid, row.committed_at, ()) for row in evidence.rows if row.table == "refunds"]
    return prove_overlap(writers, evidence.traces)


@pytest.mark.parametrize("savepoint", [False, True], ids=["plain", "within savepoints"])
def test_the_log_proves_an_overlap_that_commit_times_cannot(
    standby: Databases, refunds: FreshDatabase, *, savepoint: bool
) -> None:
    good = look(standby)
    one, other = two_writers(refunds, savepoint=savepoint)
    evidence = evidence_of(look(standby, good.position))
    traces = evidence.traces
    assert traces.commit_times == "kept"
    assert traces.log == f"read from {good.position.log_position} to {evidence.position.log_position}"
    assert {trace.xid for trace in traces.writers} == {one, other}
    assert all(trace.first and trace.committed for trace in traces.writers)
    assert overlap(evidence).startswith(f"proved by the log: {other} first wrote at ")
    assert f", {one} committed between, at " in overlap(evidence)
    assert bodies.evidence_of(evidence.key, bodies.evidence_text(evidence)) == evidence


def test_one_after_the_other_is_not_proved(standby: Databases, refunds: FreshDatabase) -> None:
    good = look(standby)
    refunds.execute([INSERT, INSERT])
    evidence = evidence_of(look(standby, good.position))
    assert all(trace.first and trace.committed for trace in evidence.traces.writers)
    assert overlap(evidence) == (
        "not proved: the commits are in the order of the ids, which proves nothing; in the log none wrote before another"
        " one committed"
    )


@pytest.mark.parametrize("log", [True, False], ids=["with the log", "by commit time"])
def test_two_savepoints_of_one_transaction_are_one_commit(
    standby: Databases, refunds: FreshDatabase, *, log: bool
) -> None:
    good = look(standby)
    if not log:
        refunds.execute("DROP EXTENSION pg_walinspect")
    with refunds.connect(autocommit=False) as one:
        one.execute("SELECT 1")  # else each block would be a transaction
        for _ in range(2):
            with one.transaction():
                one.execute(INSERT)
        one.commit()
    wait_for_replay(refunds.replica)
    evidence = evidence_of(look(standby, good.position))
    first, second = sorted(row.xid for row in evidence.rows if row.table == "refunds" and row.xid is not None)
    said = "one commit by the log, so" if log else "one commit, most likely"
    assert overlap(evidence) == (
        f"not proved: one writer is known: {first}, {second}: {said} one transaction with savepoints; perhaps no race"
    )


def test_a_writer_that_was_open_at_the_last_good_run_first_wrote_before_what_is_read(
    standby: Databases, refunds: FreshDatabase
) -> None:
    with refunds.connect(autocommit=False) as slow:
        slow.execute(INSERT)
        refunds.execute("INSERT INTO accounts VALUES ('acc_2', 0, 0)")
        good = look(standby)
        assert good.outcome is Outcome.HELD
        refunds.execute(INSERT)
        slow.commit()
    wait_for_replay(refunds.replica)
    evidence = evidence_of(look(standby, good.position))
    first = min(evidence.traces.writers, key=lambda trace: trace.xid)
    assert (first.first, bool(first.committed)) == ("", True)
    # Commit times prove it too, and come first: without them the log does.
    without = [Writer(row.xid, None, ()) for row in evidence.rows if row.table == "refunds"]
    assert f"first wrote before {good.position.log_position}" in prove_overlap(without, evidence.traces)


@pytest.fixture
def plain(refunds: FreshDatabase) -> Iterator[str]:
    """A login that may read the tables and nothing else."""
    name = f"plain_{refunds.name}"
    refunds.execute(
        [
            f"CREATE ROLE {name} LOGIN PASSWORD 'p' IN ROLE pg_monitor",
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {name}",
        ]
    )
    yield name
    refunds.execute([f"DROP OWNED BY {name}", f"DROP ROLE {name}"])


def test_a_login_without_the_right_says_so_and_one_with_that_function_alone_reads(
    refunds: FreshDatabase, plain: str
) -> None:
    url = refunds.replica.url(refunds.name, plain, "p")
    with closing(connected(url)) as databases:
        good = look(databases)
        two_writers(refunds)
        evidence = evidence_of(look(databases, good.position))
        assert evidence.incomplete == ""
        assert evidence.traces.log == (
            "not read: the login may not execute public.pg_get_wal_records_info(pg_lsn, pg_lsn)"
        )
        assert "log not read: the login may not" in overlap(evidence)
    refunds.execute(f"GRANT EXECUTE ON FUNCTION pg_get_wal_records_info(pg_lsn, pg_lsn) TO {plain}")
    with closing(connected(url)) as databases:
        assert overlap(evidence_of(look(databases, good.position))).startswith("proved by the log")


def test_without_the_extension_without_a_run_before_and_beyond_the_limit_it_says_so(
    standby: Databases, refunds: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = look(standby)
    two_writers(refunds)
    assert evidence_of(look(standby)).traces.log == "not read: no run before it says where to begin"
    monkeypatch.setattr("holdtrue.databases.postgresql_log.BYTES_LIMIT", 64)
    assert "not read: the window has 0 MiB of log, and at most" in evidence_of(look(standby, good.position)).traces.log
    monkeypatch.undo()
    monkeypatch.setattr("holdtrue.databases.postgresql_log._CHUNK", 200)
    assert overlap(evidence_of(look(standby, good.position))).startswith("proved by the log")
    refunds.execute("DROP EXTENSION pg_walinspect")
    found = evidence_of(look(standby, good.position))
    assert found.traces.log == "not read: the extension pg_walinspect is not installed"
    assert found.incomplete == ""


def test_a_function_of_that_name_that_is_not_the_extensions_is_never_called(
    standby: Databases, refunds: FreshDatabase
) -> None:
    """It would run with our login's rights."""
    good = look(standby)
    refunds.execute(
        [
            "DROP EXTENSION pg_walinspect",
            """CREATE FUNCTION pg_get_wal_records_info(pg_lsn, pg_lsn) RETURNS TABLE (xid xid) LANGUAGE plpgsql
             AS $$ BEGIN RAISE EXCEPTION 'called'; END $$""",
        ]
    )
    two_writers(refunds)
    assert "is not installed" in evidence_of(look(standby, good.position)).traces.log


def test_the_ticket_tells_it_with_the_deploys_of_its_time(
    standby: Databases, refunds: FreshDatabase, sqlite_url: str, postgres_primary: PostgresPrimary
) -> None:
    clock = Clock()
    store = open_store(sqlite_url, clock=clock)
    house = House(store, clock, sqlite_url)
    house.install(entry(RULE.name))
    SCRATCH["HOLDTRUE_SCRATCH_URL"] = postgres_primary.url()
    good = look(standby)
    save(house, good)
    house.store.deploys.add("payments", "1.4.2", by="ci (token)", who="token")
    one, other = two_writers(refunds)
    alert = save(house, look(standby, good.position))
    files: dict[str, Any] = dict(preview(house, catalog(), alert, by="ana", also=tuple(Extra)).files)
    assert {"incident.spec", "rows.json"} < set(files)
    assert len([name for name in files if name.startswith("rows_") and name.endswith(".csv")]) == 3
    assert all("dsp_1" not in text for text in files.values()), "masked like the rest"
    assert files["incident.spec"].count("session ") == 3
    record = json.loads(files["ticket.json"])
    assert record["overlap"].startswith("proved by the log")
    assert [writer["transaction"] for writer in record["writers"]] == [one, other]
    assert all(writer["first_record"] and writer["commit_record"] for writer in record["writers"])
    assert record["positions"]["first_bad"]["lsn"]
    assert record["definition"]
    assert record["generation"] == house.generation
    assert [told["version"] for told in record["deploys"]] == ["1.4.2"]
    header = next(text for name, text in files.items() if name.endswith(".py"))
    assert "overlap          proved by the log: " in header
    assert "deploy           deployed payments 1.4.2, " in header
    # A deploy that is told of afterwards changes nothing of what a preview showed.
    shown = preview(house, catalog(), alert, by="ana")
    clock.forward(timedelta(minutes=1))
    told_at = house.store.alerts.get(alert).evidence[0].taken_at
    house.store.deploys.add("payments", "1.4.3", at=told_at, by="ci (token)", who="token")
    assert preview(house, catalog(), alert, by="ana", draft=shown.draft).files == shown.files
    assert "1.4.3" in dict(preview(house, catalog(), alert, by="ana").files)["ticket.json"]
    store.close()
