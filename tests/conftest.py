"""Fixtures for every test: real servers, started once a session, and a fresh database for each test."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from servers.mariadb import FreshMariadb, MariadbPrimary, MariadbReplica
from servers.postgres import FreshDatabase, PostgresPrimary, PostgresStandby, Topology, topology

_numbers = itertools.count(1)

collect_ignore = ["strangers"]  # repositories of others: their tests run in clones, by pytest processes of their own

# No deadline: a busy machine is not a wrong answer. Examples are drawn alike on every run: a failure is never a surprise.
settings.register_profile(
    "holdtrue", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow], database=None
)
settings.load_profile("holdtrue")


def pytest_configure() -> None:
    """Give the processes that tests start what they need, whoever started pytest.

    What ``make system`` put aside comes first: programs that no wheel has, and a library that Playwright's Node needs. Compiled
    modules are kept: some tests start dozens of processes. And a Ctrl-C that was ignored here, as in the background of a
    shell, would be ignored by every child.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    system = Path(__file__).parents[1] / ".cache" / "system"
    for variable, folder in (("PATH", system / "bin"), ("LD_LIBRARY_PATH", system / "lib")):
        os.environ[variable] = os.pathsep.join(filter(None, (str(folder), os.environ.get(variable))))


@pytest.fixture(scope="session")
def postgres_primary() -> Iterator[PostgresPrimary]:
    """A real primary for the session, commit timestamps on. Do not stop it: use ``servers.postgres.started`` for that."""
    primary = PostgresPrimary(settings={"track_commit_timestamp": "on", "deadlock_timeout": "100ms"})
    try:
        primary.start()
        yield primary
    finally:
        primary.remove()


@pytest.fixture(scope="session")
def postgres_standby(postgres_primary: PostgresPrimary) -> PostgresStandby:
    """The streaming standby of ``postgres_primary``; removed with it."""
    return postgres_primary.standby()


@pytest.fixture(scope="session")
def postgres_topology() -> Iterator[Topology]:
    """Servers that a test may make sick, if it heals them: a primary, two standbys, and one that follows a standby."""
    with topology() as servers:
        yield servers


@pytest.fixture
def postgres_database(postgres_primary: PostgresPrimary, postgres_standby: PostgresStandby) -> Iterator[FreshDatabase]:
    """A database of this test alone, on primary and standby."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    postgres_primary.create_database(name)
    try:
        yield FreshDatabase(name, postgres_primary, postgres_standby)
    finally:
        postgres_primary.drop_database(name)


@pytest.fixture(scope="session")
def mariadb_primary() -> Iterator[MariadbPrimary]:
    """A real MariaDB primary for the session. Do not stop it: use ``servers.mariadb.started`` for that."""
    primary = MariadbPrimary()
    try:
        primary.start()
        yield primary
    finally:
        primary.remove()


@pytest.fixture(scope="session")
def mariadb_replica(mariadb_primary: MariadbPrimary) -> MariadbReplica:
    """The replica of ``mariadb_primary``; removed with it."""
    return mariadb_primary.replica()


@pytest.fixture
def mariadb_database(mariadb_primary: MariadbPrimary, mariadb_replica: MariadbReplica) -> Iterator[FreshMariadb]:
    """A MariaDB database of this test alone, on primary and replica."""
    name = f"test_{os.getpid()}_{next(_numbers)}"
    mariadb_primary.create_database(name)
    try:
        yield FreshMariadb(name, mariadb_primary, mariadb_replica)
    finally:
        mariadb_primary.drop_database(name)
