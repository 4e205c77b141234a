"""The servers that the other tests stand on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from holdtrue.embedded import EmbeddedPostgres, find_binaries, scratch_folder
from holdtrue.rehearsal.scratch import ScratchFailed
from holdtrue.rehearsal.servers import ScratchServer
from servers.postgres import FreshDatabase, PostgresPrimary, PostgresStandby, started, wait_until


def test_a_write_on_the_primary_is_read_on_the_standby(postgres_database: FreshDatabase) -> None:
    postgres_database.execute(["CREATE TABLE t(id int)", "INSERT INTO t VALUES (1), (2)"])
    assert postgres_database.replica.value("SELECT count(*) FROM t", postgres_database.name) == 2
    assert postgres_database.replica.value("SELECT pg_is_in_recovery()") is True


def test_replay_can_be_held_and_released(postgres_database: FreshDatabase) -> None:
    standby = postgres_database.replica
    postgres_database.execute("CREATE TABLE t(id int)")
    standby.pause_replay()
    try:
        postgres_database.primary.execute("INSERT INTO t VALUES (1)", postgres_database.name)
        assert standby.value("SELECT count(*) FROM t", postgres_database.name) == 0
    finally:
        standby.resume_replay()
    wait_until(lambda: standby.value("SELECT count(*) FROM t", postgres_database.name) == 1, "the row is replayed")


def test_settings_can_be_changed_and_undone(postgres_standby: PostgresStandby) -> None:
    before = postgres_standby.value("SHOW max_standby_streaming_delay")
    postgres_standby.configure(max_standby_streaming_delay="0")
    assert postgres_standby.value("SHOW max_standby_streaming_delay") == "0"
    postgres_standby.reset()
    wait_until(lambda: postgres_standby.value("SHOW max_standby_streaming_delay") == before, "the setting is back")


def test_a_restarted_server_keeps_its_port_and_data() -> None:
    with started() as primary:
        port = primary.port
        primary.execute("CREATE TABLE t(id int)")
        primary.restart()
        assert primary.port == port
        assert primary.value("SELECT count(*) FROM t") == 0


def test_a_server_asks_for_its_password(postgres_primary: PostgresPrimary) -> None:
    import psycopg

    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres_primary.url(password="wrong"))


def test_a_server_ends_with_the_process_that_started_it() -> None:
    """Even when that process is killed: no orphan is left."""
    folder = scratch_folder()
    script = (
        "import sys, time, pathlib\n"
        "from holdtrue.embedded import EmbeddedPostgres\n"
        "server = EmbeddedPostgres(pathlib.Path(sys.argv[1]))\n"
        "server.start()\n"
        "print('started', flush=True)\n"
        "time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE, text=True)
    watched = EmbeddedPostgres(folder)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "started\n"
        assert watched.running
        os.kill(child.pid, signal.SIGKILL)
        child.wait(10)
        child.stdout.close()
        wait_until(lambda: not (watched.data / "postmaster.pid").exists(), "the server has gone")
    finally:
        child.kill()
        child.wait(10)
        watched.remove()


def test_a_named_folder_without_programs_is_said_with_the_setting_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOLDTRUE_TEST_PG_BIN", str(tmp_path / "absent"))
    server = ScratchServer({})
    try:
        for _ in range(2):
            with pytest.raises(ScratchFailed, match=f"HOLDTRUE_TEST_PG_BIN names {tmp_path}/absent") as found:
                server.url()
            assert "or unset it" in found.value.remedy
    finally:
        server.close()


def test_a_named_folder_of_programs_comes_first() -> None:
    named = find_binaries({"HOLDTRUE_TEST_PG_BIN": "/somewhere/bin"})
    assert str(named) == "/somewhere/bin"
