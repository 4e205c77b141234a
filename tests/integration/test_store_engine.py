from __future__ import annotations

import os
import socket
import sqlite3
import threading
import traceback
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from holdtrue.errors import StoreNotShareable, StoreUnreachable
from holdtrue.store import ReloadStatus, Store, open_store
from holdtrue.store import engine as engine_module
from servers.postgres import PostgresPrimary, started, wait_until
from stores import TTL, Clock, House, entry


def test_the_stores_clock_is_the_servers_and_goes_on_within_a_transaction(postgres_url: str) -> None:
    """design 3.8: the store's clock decides; now() would stand still while a transaction waits for a lock."""
    store = open_store(postgres_url)
    try:
        with store._engine.read() as connection:
            first = store._engine.now(connection)
            second = store._engine.now(connection)
        assert second > first
        assert first.tzinfo is UTC
        assert abs(store.now() - datetime.now(UTC)) < timedelta(minutes=1)
    finally:
        store.close()


def test_sqlite_keeps_a_write_through_a_power_cut_and_lets_readers_read(sqlite_url: str) -> None:
    """semantics 8.3: WAL, so that the CLI reads beside serve; FULL, so that an owed message is not lost."""
    store = open_store(sqlite_url)
    try:
        with store._engine.read() as connection:
            pragmas = {
                name: connection.execute(text(f"PRAGMA {name}")).scalar()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
        assert pragmas == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30_000}
    finally:
        store.close()


def test_a_page_is_read_while_a_save_is_written(house: House) -> None:
    house.install(entry())
    with house.store._engine.write() as connection:
        connection.execute(text("UPDATE entries SET owner = 'someone else'"))
        assert len(house.store.reads.overview()) == 1


def test_every_read_of_one_answer_sees_the_same_moment(house: House) -> None:
    house.install(entry())
    query = text("SELECT count(*) FROM entries")
    with house.store._engine.read() as connection:
        before = connection.execute(query).scalar()
        writer = threading.Thread(target=house.install, args=(entry(), entry("another")))
        writer.start()
        writer.join()
        assert connection.execute(query).scalar() == before
    assert len(house.store.reads.overview()) == 2


def test_a_store_that_stays_locked_is_unreachable(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "BUSY_SECONDS", 0.05)
    store = open_store(sqlite_url)
    other = sqlite3.connect(Path(sqlite_url.removeprefix("sqlite:///")), isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnreachable, match="stayed locked"):
            store.audit.write("one", "test", "nothing")
        other.execute("ROLLBACK")
        store.audit.write("one", "test", "nothing")
    finally:
        other.close()
        store.close()


def test_a_store_that_is_gone_is_unreachable_and_comes_back_by_itself() -> None:
    """A database that restarts costs one failed call, not a restart of ours."""
    with started() as primary:
        store = open_store(primary.url("postgres"))
        try:
            store.upgrade()
            primary.stop()
            for _ in range(2):
                with pytest.raises(StoreUnreachable):
                    store.ping()
            primary.start()
            store.ping()
            store.audit.write("one", "test", "nothing")
        finally:
            store.close()


def test_a_store_that_vanished_without_a_word_is_noticed_within_half_a_minute(postgres_url: str) -> None:
    """Nothing ticks while a call waits: the kernel is told when to give a silent server up."""
    store = open_store(postgres_url)
    try:
        with store._engine.read() as connection:
            raw = connection.connection.driver_connection
            assert raw is not None
            with socket.socket(fileno=os.dup(raw.fileno())) as wire:
                idle, every, times, unanswered = (
                    wire.getsockopt(socket.IPPROTO_TCP, option)
                    for option in (
                        socket.TCP_KEEPIDLE,
                        socket.TCP_KEEPINTVL,
                        socket.TCP_KEEPCNT,
                        socket.TCP_USER_TIMEOUT,
                    )
                )
                assert wire.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert idle + every * times <= 30
        assert 0 < unanswered <= 30_000
    finally:
        store.close()


def test_no_failure_shows_the_password_or_a_value(postgres_primary: PostgresPrimary, store_url: str) -> None:
    wrong = postgres_primary.url("postgres", "postgres", "hunter2-wrong")
    store = open_store(wrong)
    try:
        with pytest.raises(StoreUnreachable) as refused:
            store.ping()
        assert "hunter2" not in "".join(traceback.format_exception(refused.value))
        assert "hunter2" not in repr(store._engine._engine)
    finally:
        store.close()
    good = open_store(store_url)
    try:
        at = "2026-11-29T12:00:00.000000Z" if good.dialect == "sqlite" else datetime.now(UTC)
        new = text("INSERT INTO accepted_systems VALUES ('payments', :marker, :marker, :at)")
        good.systems.accept("payments", "7312", "one")
        with pytest.raises(IntegrityError) as failed, good._engine.write() as connection:
            connection.execute(new, {"marker": "marker-value", "at": at})
        assert "marker-value" not in str(failed.value)
    finally:
        good.close()


def test_a_transaction_that_stands_still_is_ended_by_the_server(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """design 8: a frozen instance keeps no row locked for long, and changes nothing when it wakes."""
    monkeypatch.setattr(engine_module, "_LIMITS", text("SET LOCAL idle_in_transaction_session_timeout = 50"))
    store = open_store(postgres_url)
    clock = Clock()
    house = House(store, clock, postgres_url)
    try:
        house.install(entry())
        with pytest.raises(StoreUnreachable):
            freeze_and_wake(store, postgres_url)
        with store._engine.read() as connection:
            assert connection.execute(text("SELECT owner FROM entries")).scalar() == "payments-oncall"
    finally:
        store.close()


def freeze_and_wake(store: Store, url: str) -> None:
    """A write that stands still until the server has ended it, and then goes on."""
    with store._engine.write() as connection:
        connection.execute(text("UPDATE entries SET owner = 'frozen'"))
        pid = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        other = open_store(url)

        def is_gone() -> bool:
            with other._engine.read() as asking:
                query = text("SELECT count(*) FROM pg_stat_activity WHERE pid = :pid")
                return asking.execute(query, {"pid": pid}).scalar() == 0

        try:
            wait_until(is_gone, "the server ended the frozen transaction")
        finally:
            other.close()
        connection.execute(text("UPDATE entries SET owner = 'awake'"))


def test_another_machine_on_the_same_sqlite_file_is_refused_until_the_first_has_gone(sqlite_url: str) -> None:
    """semantics 8.3: it is no high availability."""
    clock = Clock()
    here, there = (open_store(sqlite_url, clock=clock, host=host) for host in ("here", "there"))
    try:
        here.instances.beat("a")
        here.instances.beat("b")
        with pytest.raises(StoreNotShareable, match="another machine"):
            there.instances.beat("c")
        here.instances.leave("a")
        here.instances.leave("b")
        there.instances.beat("c")
        clock.forward(timedelta(seconds=91))
        here.instances.beat("a")
    finally:
        here.close()
        there.close()


def test_machines_share_a_postgresql_store(postgres_url: str) -> None:
    """semantics 8.3."""
    stores = [open_store(postgres_url, host=host) for host in ("here", "there")]
    try:
        status = ReloadStatus(datetime(2026, 11, 29, tzinfo=UTC), False, ("a.yaml:1:2: wrong",), 3)
        stores[0].instances.beat("a", status, version="0.1.0")
        stores[1].instances.beat("b")
        stores[0].instances.beat("a", version="0.1.0")
        rows = {row.instance: row for row in stores[0].reads.instances()}
        assert (rows["a"].reload, rows["a"].version, rows["b"].reload) == (status, "0.1.0", None)
        assert rows["a"].started_at <= rows["a"].last_seen
    finally:
        for store in stores:
            store.close()


def test_many_threads_write_without_failing_each_other(house: House) -> None:
    house.install(*(entry(f"rule_{n}") for n in range(20)))
    errors: list[BaseException] = []
    claimed: list[str] = []

    def work(name: str) -> None:
        try:
            while claims := house.store.leases.acquire(
                instance=name, free={"payments": 2}, limit=2, ttl=TTL, generation=1
            ):
                claimed.extend(claim.invariant for claim in claims)
                house.save(*(house.finished(claim) for claim in claims))
        except BaseException as problem:  # noqa: BLE001 - seen by the test
            errors.append(problem)

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert sorted(claimed) == sorted(f"rule_{n}" for n in range(20))
