"""Migrations of a test run in the barrier database alone, whatever URL the user's env.py has read."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

from sqlalchemy import Engine, create_engine, make_url

from holdtrue.testing import schema_from_alembic
from holdtrue.testing.redirecting import every_engine_leads_to

ENV = """
from alembic import context
from sqlalchemy import create_engine
engine = create_engine("sqlite:///{mine}")
with engine.begin() as connection:
    context.configure(connection=connection)
    context.run_migrations()
engine.dispose()
"""
REVISION = """
from alembic import op
revision = "one"
down_revision = None
def upgrade():
    op.execute("CREATE TABLE made (id int)")
"""


def tables(path: Path) -> list[str]:
    with sqlite3.connect(path) as connection:
        found = [
            name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
        ]
    connection.close()
    return found


def lead(url: str) -> str:
    """Where a new connection of an engine for this URL goes: the file, as SQLite names it."""
    engine = create_engine(url)
    with engine.connect() as connection:
        file = str(connection.exec_driver_sql("PRAGMA database_list").one()[2])
    engine.dispose()
    return file


def test_an_env_py_that_has_read_its_url_elsewhere_migrates_the_barrier_database_and_no_other(tmp_path: Path) -> None:
    """Semantics 9.4: settings are often read when the code under test is imported, long before the test has a database."""
    mine, barrier = tmp_path / "mine.db", tmp_path / "barrier.db"
    (tmp_path / "migrations" / "versions").mkdir(parents=True)
    (tmp_path / "alembic.ini").write_text(f"[alembic]\nscript_location = {tmp_path}/migrations\npath_separator = os\n")
    (tmp_path / "migrations" / "env.py").write_text(ENV.format(mine=mine))
    (tmp_path / "migrations" / "versions" / "one.py").write_text(REVISION)
    schema_from_alembic(tmp_path / "alembic.ini")(f"sqlite:///{barrier}")
    assert tables(barrier) == ["alembic_version", "made"]
    assert not mine.exists()
    assert lead(f"sqlite:///{mine}") == str(mine), "afterwards engines lead where their URLs say"


def test_other_threads_and_other_kinds_of_databases_are_left_alone(tmp_path: Path) -> None:
    mine, barrier = tmp_path / "mine.db", tmp_path / "barrier.db"
    led: list[str] = []
    with every_engine_leads_to(f"sqlite:///{barrier}"):
        thread = threading.Thread(target=lambda: led.append(lead(f"sqlite:///{mine}")))
        thread.start()
        thread.join(20)
        assert led == [str(mine)]
        assert lead(f"sqlite:///{mine}") == str(barrier)
    with every_engine_leads_to("postgresql+psycopg://developer@127.0.0.1:9/barrier"):
        assert lead(f"sqlite:///{mine}") == str(mine)


def test_an_engine_that_leads_there_already_keeps_its_options(tmp_path: Path) -> None:
    url = make_url(f"sqlite:///{tmp_path / 'barrier.db'}")
    kept: list[int] = []
    with every_engine_leads_to(url.render_as_string(hide_password=False)):
        engine: Engine = create_engine(url, connect_args={"factory": counting(kept)})
        engine.connect().close()
        engine.dispose()
    assert kept == [1]


def counting(kept: list[int]) -> type[sqlite3.Connection]:
    class Counting(sqlite3.Connection):
        def __init__(self, *args: object, **more: object) -> None:
            kept.append(1)
            super().__init__(*args, **more)  # type: ignore[arg-type]

    return Counting
