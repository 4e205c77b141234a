"""what pytest learns from us; does nothing until a test asks"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from holdtrue.testing.barrier_databases import BarrierDatabase, BarrierServer
    from holdtrue.testing.schemas import Schema


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that replays one schedule."""
    parser.getgroup("holdtrue", "barrier tests").addoption(
        "--holdtrue-schedule",
        default="",
        metavar="NAME",
        help="play only this schedule of a barrier test, as its failure names it: A1, B2, AB, BA, order, late",
    )


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Hand the option and the test to its races, and forget the races of others."""
    from holdtrue.testing import promises, replay

    promises.made.clear()
    replay.ask_for(str(item.config.getoption("--holdtrue-schedule")))
    replay.runs(replay.Running(item.nodeid, item.path, item.config.invocation_params.dir))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test that made a race or an order and never played it: it would be green without having looked."""
    del item
    yield
    promises = sys.modules.get("holdtrue.testing.promises")
    forgotten = promises.forgotten() if promises is not None else ""
    if forgotten:
        pytest.fail(forgotten, pytrace=False)


@pytest.fixture
def barrier_schema() -> Schema:
    """Override this one: return what builds your schema: ``schema_from_alembic("alembic.ini")``, or Django, or a SQL file."""
    from holdtrue.testing.schemas import not_wired

    return not_wired


@pytest.fixture
def barrier_engine(request: pytest.FixtureRequest) -> str:
    """The engine of the barrier database: that of the test's incident, else PostgreSQL. Override it to say otherwise."""
    incident = getattr(request.module, "INCIDENT", None)
    return str(getattr(incident, "engine", "postgresql"))


@pytest.fixture(scope="session")
def _barrier_server() -> Iterator[BarrierServer]:
    from holdtrue.testing.barrier_databases import BarrierServer

    server = BarrierServer(os.environ)
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def barrier_db(
    request: pytest.FixtureRequest, barrier_schema: Schema, barrier_engine: str, _barrier_server: BarrierServer
) -> Iterator[BarrierDatabase]:
    """A database of this test alone, built by ``barrier_schema`` at its first use and dropped afterwards."""
    from holdtrue.testing import promises
    from holdtrue.testing.barrier_databases import BarrierDatabase
    from holdtrue.testing.django_schema import DjangoSchema

    with contextlib.ExitStack() as stack:
        if isinstance(barrier_schema, DjangoSchema) and request.config.pluginmanager.hasplugin("django"):
            # pytest-django lets no test speak to a database but its own; the barrier database is this test's own.
            stack.enter_context(request.getfixturevalue("django_db_blocker").unblock())
        database = BarrierDatabase(barrier_engine, barrier_schema, lambda: _barrier_server.url(barrier_engine))
        stack.callback(database.close)
        if isinstance(barrier_schema, DjangoSchema):
            # At once: a test that speaks to the ORM alone would otherwise find the development database under it.
            database.make_ready()
        promises.before_parties.append(database.make_ready)
        stack.callback(promises.before_parties.remove, database.make_ready)
        yield database
