"""Code that meets the rarer answers of a server: deadlocks, locks that are skipped or refused, checks at COMMIT."""

from __future__ import annotations

from sqlalchemy import Engine, text

from racy.duplicate import DISPUTE, INSERT, read_then_insert, with_retry

TABLES = """
CREATE TABLE jobs (id int PRIMARY KEY, taken int NOT NULL);
CREATE TABLE settlements (dispute_id text NOT NULL UNIQUE DEFERRABLE INITIALLY DEFERRED);
CREATE TABLE shifts (doctor text PRIMARY KEY, on_call boolean NOT NULL);
INSERT INTO jobs VALUES (1, 0), (2, 0);
INSERT INTO shifts VALUES ('ada', true), ('bob', true);
"""
NO_JOB_TWICE = "SELECT id, taken FROM jobs WHERE taken > 1"
ONE_SETTLEMENT = "SELECT dispute_id FROM settlements GROUP BY dispute_id HAVING count(*) > 1"
SOMEBODY_ON_CALL = "SELECT 'nobody' WHERE NOT EXISTS (SELECT FROM shifts WHERE on_call)"


def take_a_job(engine: Engine, *, skip_locked: bool) -> None:
    with engine.begin() as connection:
        lock = " FOR UPDATE SKIP LOCKED" if skip_locked else ""
        job = connection.execute(text(f"SELECT id FROM jobs WHERE taken = 0 ORDER BY id LIMIT 1{lock}")).scalar()
        if job is not None:
            connection.execute(text("UPDATE jobs SET taken = taken + 1 WHERE id = :j"), {"j": job})


def refuse_to_wait(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("SELECT id FROM disputes WHERE id = :d FOR UPDATE NOWAIT"), DISPUTE)
        read_then_insert(connection)


def settle(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text("INSERT INTO settlements VALUES (:d)"), DISPUTE)


def lock_both(engine: Engine, first: str, second: str) -> None:
    with engine.begin() as connection:
        for table in (first, second):
            connection.execute(text(f"LOCK TABLE {table} IN EXCLUSIVE MODE"))
        read_then_insert(connection)


def in_autocommit(engine: Engine) -> None:
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        read_then_insert(connection)


def leave(engine: Engine, doctor: str, level: str) -> None:
    def body(connection: object) -> None:
        others = connection.execute(  # type: ignore[attr-defined]
            text("SELECT doctor FROM shifts WHERE on_call AND doctor <> :d"), {"d": doctor}
        ).all()
        if others:
            connection.execute(  # type: ignore[attr-defined]
                text("UPDATE shifts SET on_call = false WHERE doctor = :d"), {"d": doctor}
            )

    with_retry(engine, level, body)


def careless(engine: Engine) -> None:
    with engine.begin() as connection:
        connection.execute(text(INSERT), DISPUTE)
