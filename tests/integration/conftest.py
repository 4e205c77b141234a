"""Fixtures of the integration tests: a store of one's own on each dialect, made from a template."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtrue.store import open_store
from servers.postgres import PostgresPrimary
from stores import Clock, House

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite store with its schema and nothing in it, whose copies are quicker than migrations."""
    path = tmp_path_factory.mktemp("store") / "template.db"
    store = open_store(f"sqlite:///{path}")
    store.upgrade()
    store.close()
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres_primary: PostgresPrimary) -> str:
    """The same as a PostgreSQL database."""
    name = f"store_template_{os.getpid()}"
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
def postgres_url(postgres_primary: PostgresPrimary, postgres_template: str) -> Iterator[str]:
    """A PostgreSQL store of this test alone."""
    name = f"store_{os.getpid()}_{next(_numbers)}"
    postgres_primary.execute(f'CREATE DATABASE "{name}" TEMPLATE "{postgres_template}" STRATEGY file_copy')
    try:
        yield postgres_primary.url(name)
    finally:
        postgres_primary.drop_database(name)


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
