"""Fixtures of the integration tests: a store of one's own on each dialect."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from holdtrue.databases import Databases
from holdtrue.model import DatabaseConfig
from holdtrue.store import open_store
from holdtrue.testing import BarrierDatabase
from holdtrue.web import create_app
from racy import schema
from scenes import Scene
from scenes.refunds import refunds_world
from scenes.serving import Calls, client_over, web_service
from servers.alertmanager import MemberStub
from servers.postgres import PostgresPrimary, Topology
from servers.sickness import NAME
from stores import Clock, House


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store with its schema and nothing in it, whose copies are quicker than migrations."""
    path = tmp_path_factory.mktemp("store") / "template.db"
    store = open_store(f"sqlite:///{path}")
    store.upgrade()
    store.close()
    return path


@pytest.fixture(scope="session")
def postgres_store(postgres_primary: PostgresPrimary) -> str:
    """A PostgreSQL store with its schema, for tests that leave nothing in the way of the next: see ``postgres_url``."""
    name = f"store_{os.getpid()}"
    postgres_primary.create_database(name)
    store = open_store(postgres_primary.url(name))
    store.upgrade()
    store.close()
    return name


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A SQLite store of this test alone."""
    shutil.copy(sqlite_template, tmp_path / "store.db")
    return f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture
def postgres_url(postgres_primary: PostgresPrimary, postgres_store: str) -> str:
    """A PostgreSQL store with nothing in it: emptied, since a database a test takes a second each."""
    with postgres_primary.connect(postgres_store) as connection:
        found = connection.execute(
            "SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables"
            " WHERE schemaname = 'public' AND tablename <> 'alembic_version'"
        ).fetchone()
        assert found is not None
        connection.execute(f"TRUNCATE {found[0]} RESTART IDENTITY CASCADE".encode())
    return postgres_primary.url(postgres_store)


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest) -> str:
    """A store of this test alone, on each dialect in turn."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture
def house(store_url: str) -> Iterator[House]:
    """A store on each dialect in turn, with a clock that the test moves."""
    clock = Clock()
    store = open_store(store_url, clock=clock)
    try:
        yield House(store, clock, store_url)
    finally:
        store.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scene, Calls, FastAPI]:
    """The refunds service on a bad morning and its faces; only looked at."""
    scene, calls = refunds_world(tmp_path_factory.mktemp("world")), Calls()
    return scene, calls, create_app(web_service(scene, calls))


@pytest.fixture
def scene(shared: tuple[Scene, Calls, FastAPI]) -> Scene:
    return shared[0]


@pytest.fixture
def calls(shared: tuple[Scene, Calls, FastAPI]) -> Calls:
    shared[1].forget()
    return shared[1]


@pytest.fixture
def client(shared: tuple[Scene, Calls, FastAPI]) -> TestClient:
    return client_over(shared[2])


@pytest.fixture
def member() -> Iterator[MemberStub]:
    """A member of an Alertmanager cluster that answers by script."""
    stub = MemberStub()
    yield stub
    stub.close()


@pytest.fixture
def other() -> Iterator[MemberStub]:
    """Another one."""
    stub = MemberStub()
    yield stub
    stub.close()


@pytest.fixture(scope="session")
def sick_servers(postgres_topology: Topology) -> Topology:
    """The topology with a database ``sick`` that has an empty table ``t``."""
    postgres_topology.primary.create_database("sick")
    postgres_topology.execute("CREATE TABLE t(id int)", "sick")
    return postgres_topology


@pytest.fixture
def servers(sick_servers: Topology) -> Iterator[Topology]:
    """The same, well and with an empty table at the beginning; whoever makes a server sick heals it."""
    sick_servers.execute("TRUNCATE t", "sick")
    yield sick_servers
    sick_servers.wait()


@pytest.fixture
def opened() -> Iterator[Callable[..., Databases]]:
    """Databases of some configurations; what still runs on them in the end is interrupted."""
    made: list[Databases] = []

    def make(*configs: DatabaseConfig) -> Databases:
        databases = Databases(environ={}, application_name=NAME)
        databases.configure(configs)
        made.append(databases)
        return databases

    yield make
    for databases in made:
        databases.interrupt_all()
        databases.close()


@pytest.fixture(scope="module")
def database(postgres_primary: PostgresPrimary) -> Iterator[BarrierDatabase]:
    """A barrier database with the schema of the refunds, on the tests' primary."""
    made = BarrierDatabase("postgresql", schema.build, postgres_primary.url)
    yield made
    made.close()


@pytest.fixture(scope="module")
def on_sqlite() -> Iterator[BarrierDatabase]:
    """The same on SQLite."""
    made = BarrierDatabase("sqlite", schema.build, lambda: "")
    yield made
    made.close()
