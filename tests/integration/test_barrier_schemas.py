"""A small user's project whose migrations build the barrier database, run by a real pytest, alone and by two workers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest
from sqlalchemy import create_engine

from holdtrue.errors import SettingsRefused
from holdtrue.testing import BarrierDatabase
from racy import schema
from servers.postgres import PostgresPrimary, wait_until

TESTS = Path(__file__).parents[1]
CONFTEST = """
import pathlib
import pytest
from holdtrue.testing import schema_from_alembic, schema_from_django, schema_from_sql_file
ROOT = pathlib.Path({root!r})

@pytest.fixture
def barrier_schema():
    return {hook}
"""
TEST = """
import pathlib
import pytest
from holdtrue.testing import schema_from_alembic, schema_from_django, schema_from_sql_file
HERE = pathlib.Path(__file__).parent

@pytest.fixture
def barrier_schema():
    return {hook}
"""
TEST = """
import os
import pytest
from sqlalchemy import text

@pytest.mark.parametrize("number", range({count}))
def test_it(barrier_db, number):
    with barrier_db.engine.begin() as connection:
        assert connection.execute(text("SELECT count(*) FROM refunds")).scalar() == 0
        connection.execute(text("INSERT INTO accounts VALUES ('acc_1', 0, 0)"))
        connection.execute(text("INSERT INTO disputes VALUES ('dsp_1', 'acc_1', 40)"))
        connection.execute(text("INSERT INTO refunds (dispute_id, amount_eur, state) VALUES ('dsp_1', 40, 'settled')"))
    with open("seen", "a") as file:  # every worker appends whole lines
        file.write(f"{{os.environ.get('PYTEST_XDIST_WORKER', 'alone')}} {{barrier_db.sqlalchemy_url.port}}"
                   f" {{barrier_db.sqlalchemy_url.database}}\\n")
"""
ALEMBIC_INI = """
[alembic]
script_location = {location}

[loggers]
keys = root
[handlers]
keys =
[formatters]
keys =
[logger_root]
level = WARNING
handlers =
"""
ENV = """
from logging.config import fileConfig
import os
from alembic import context
from sqlalchemy import create_engine, pool

fileConfig(context.config.config_file_name)
engine = create_engine({url}, poolclass=pool.NullPool)
with engine.connect() as connection:
    context.configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
"""
REVISION = """
from alembic import op
revision, down_revision = "0001", None

def upgrade():
    for statement in {statements!r}.split(";"):
        if statement.strip():
            op.execute(statement)
"""
# As a dump of today writes it.
DUMP = "\\restrict abcDEF123\n\nSET client_encoding = 'UTF8';\n" + schema.POSTGRESQL + "\n\\unrestrict abcDEF123\n"


DJANGO_TEST = """
import pathlib
import pytest
import threading
from sqlalchemy import text

def settle(number):
    from refunds.models import Refund
    Refund.objects.create(dispute_id=f"dsp_{number}", state="settled")

def test_django_speaks_to_the_barrier_database_on_every_thread(barrier_db):
    settle(0)  # nothing of barrier_db was used before
    for number in range(1, 5):
        thread = threading.Thread(target=settle, args=(number,))
        thread.start()
        thread.join()
    with barrier_db.engine.connect() as connection:
        rows = connection.execute(text("SELECT dispute_id FROM refunds_refund ORDER BY 1")).scalars().all()
        there = connection.execute(text("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")).scalar()
    assert rows == [f"dsp_{number}" for number in range(5)]
    assert there <= 3  # those of threads that have ended are closed

@pytest.fixture
def before(barrier_schema):
    import django, os
    os.environ["DJANGO_SETTINGS_MODULE"] = "mysite"
    django.setup()
    yield
    from django.db import connection
    assert connection.vendor == "sqlite"
    assert str(connection.settings_dict["NAME"]) == "development.db"
    assert not pathlib.Path("development.db").exists()

def test_afterwards_django_speaks_to_its_own_database_again(before, barrier_db):
    from django.db import connection
    assert connection.vendor == "postgresql"
    settle(0)
"""
DJANGO = {
    "mysite.py": """
SECRET_KEY = "of a test"
INSTALLED_APPS = ["refunds"]
USE_TZ = True
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "development.db"}}
""",
    "refunds/__init__.py": "",
    "refunds/migrations/__init__.py": "",
    "refunds/models.py": """
from django.db import models

class Refund(models.Model):
    dispute_id = models.CharField(max_length=20)
    state = models.CharField(max_length=20)
""",
    "refunds/migrations/0001_initial.py": """
from django.db import migrations, models

class Migration(migrations.Migration):
    operations = [
        migrations.CreateModel("Refund", [
            ("id", models.BigAutoField(primary_key=True, serialize=False)),
            ("dispute_id", models.CharField(max_length=20)),
            ("state", models.CharField(max_length=20)),
        ])
    ]
""",
}


def write(project: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        path = project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def conftest(project: Path, hook: str) -> str:
    return CONFTEST.format(root=str(project), hook=hook)


def alembic(statements: str, url: str) -> dict[str, str]:
    return {
        "alembic.ini": ALEMBIC_INI.format(location="%(here)s/migrations"),
        "migrations/env.py": ENV.format(url=url),
        "migrations/versions/0001_refunds.py": REVISION.format(statements=statements),
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder that pytest takes for a project of somebody's."""
    write(tmp_path, {"pytest.ini": "[pytest]\nfilterwarnings = error\npythonpath = .\n", **DJANGO})
    return tmp_path


@pytest.fixture
def three_ways(project: Path) -> Path:
    """The same project, whose tests use each hook."""
    write(project, alembic(schema.POSTGRESQL, 'context.config.get_main_option("sqlalchemy.url")'))
    files = {
        "dump.sql": DUMP,
        "by_alembic/conftest.py": conftest(project, 'schema_from_alembic(ROOT / "alembic.ini")'),
        "by_alembic/test_refunds.py": TEST.format(count=3),
        "by_file/conftest.py": conftest(project, 'schema_from_sql_file(ROOT / "dump.sql")'),
        "by_file/test_refunds.py": TEST.format(count=3),
        "by_django/conftest.py": conftest(project, 'schema_from_django("mysite")'),
        "by_django/test_refunds.py": DJANGO_TEST,
    }
    write(project, files)
    return project


def run(project: Path, *arguments: str, url: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in ("HOLDTRUE_BARRIER_URL", "PYTHONPATH")}
    if url:
        clean["HOLDTRUE_BARRIER_URL"] = url
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", *arguments],
        cwd=project,
        env={**clean, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )


def seen(project: Path) -> list[list[str]]:
    """Worker, port and database of each test."""
    return [line.split() for line in (project / "seen").read_text().splitlines()]


@pytest.fixture
def server(postgres_primary: PostgresPrimary) -> Iterator[PostgresPrimary]:
    """The server that is named; in the end no database of ours may be left on it."""
    yield postgres_primary
    assert postgres_primary.query("SELECT datname FROM pg_database WHERE datname LIKE 'holdtrue_barrier_%'") == []


def test_two_workers_do_not_collide_on_one_server(three_ways: Path, server: PostgresPrimary) -> None:
    """semantics 9.4: alembic, Django and a SQL file each build a database for each test."""
    done = run(three_ways, "-n", "2", url=server.url())
    assert done.returncode == 0, done.stdout + done.stderr
    assert {port for _, port, _ in seen(three_ways)} == {str(server.port)}
    assert len({database for _, _, database in seen(three_ways)}) == 6


def test_without_a_named_server_each_worker_starts_its_own_and_none_is_left(three_ways: Path) -> None:
    """semantics 9.4: on servers from the wheel."""
    scratch = Path(tempfile.mkdtemp(prefix="hts-"))
    scratch.chmod(0o755)
    try:
        done = run(three_ways, "-n", "2", TMPDIR=str(scratch))
        assert done.returncode == 0, done.stdout + done.stderr
        found = seen(three_ways)
        assert len({port for _, port, _ in found}) == len({worker for worker, _, _ in found}) == 2
        assert [one.name for one in scratch.iterdir() if one.name.startswith("holdtrue-barrier")] == []
        wait_until(lambda: not servers_below(scratch), "no server is left")
    finally:
        subprocess.run(["rm", "-rf", str(scratch)], check=True)


def servers_below(folder: Path) -> list[int]:
    found = []
    for process in psutil.process_iter(["cmdline"]):
        if any(word.startswith(str(folder)) for word in process.info["cmdline"] or ()):
            found.append(process.pid)
    return found


FAILING = {
    "no_ini": ("schema_from_alembic('nowhere.ini')", "there is no file", "Path(__file__).parents[1]"),
    "elsewhere": (
        "schema_from_alembic(ROOT / 'alembic.ini')",
        "there is no table in the barrier database",
        "variable=",
    ),
    "revision": (
        "schema_from_alembic(ROOT / 'alembic.ini', revision='0009')",
        "upgrade to 0009 failed",
        "upgrade 0009",
    ),
    "no_file": ("schema_from_sql_file(ROOT / 'none.sql')", "none.sql cannot be read", "with_name"),
    "wrong": ("schema_from_sql_file(ROOT / 'wrong.sql')", "refused wrong.sql, line 3: ", "must run as it is"),
    "psql": ("schema_from_sql_file(ROOT / 'psql.sql')", "line 2 (\\connect is a command of psql)", "must run as it is"),
    "copy": ("schema_from_sql_file(ROOT / 'copy.sql')", "copy.sql, line 2 is COPY … FROM stdin", "--schema-only"),
    "owner": ("schema_from_sql_file(ROOT / 'owner.sql')", "refused owner.sql: UndefinedObject", "--no-owner"),
    "extension": ("schema_from_sql_file(ROOT / 'extension.sql')", "refused extension.sql", "HOLDTRUE_BARRIER_URL"),
    "settings": ("schema_from_django('nowhere')", "cannot be loaded: ModuleNotFoundError", "the folder of manage.py"),
    "nothing": ("lambda url: None", "there is no table in the barrier database", "it is called with"),
}
SCRIPTS = {
    "wrong.sql": "CREATE TABLE a (id int);\n\nCREATE TABEL b (id int);",
    "psql.sql": "CREATE TABLE a (id int);\n\\connect other\n",
    "copy.sql": "CREATE TABLE a (id int);\nCOPY a (id) FROM stdin;\n1\n\\.\n",
    "owner.sql": "CREATE TABLE a (id int);\nALTER TABLE a OWNER TO nobody_there;",
    "extension.sql": "CREATE EXTENSION nowhere;",
}


def test_a_hook_that_fails_says_what_to_do(project: Path, server: PostgresPrimary) -> None:
    write(project, {**SCRIPTS, **alembic("CREATE TABLE refunds (id int)", "'sqlite:///elsewhere.db'")})
    for name, (hook, _, _) in FAILING.items():
        test = f"def test_{name}(barrier_db):\n    barrier_db.url\n"
        write(project, {f"of_{name}/conftest.py": conftest(project, hook), f"of_{name}/test_{name}.py": test})
    done = run(project, "--tb=short", url=server.url())
    print(done.stdout)  # shown only where the test fails
    refusals = [line for line in done.stdout.splitlines() if line.startswith("E  ") and "Refused" in line]
    for name, (_, says, remedy) in FAILING.items():
        assert [line for line in refusals if says in line and remedy in line], name
    assert done.returncode == 1
    assert "passed" not in done.stdout


def test_an_alias_that_django_does_not_have_is_refused_with_those_it_has(
    project: Path, server: PostgresPrimary
) -> None:
    test = "def test_it(barrier_db):\n    barrier_db.url\n"
    write(project, {"conftest.py": conftest(project, "schema_from_django('mysite', database='x')"), "test_it.py": test})
    assert "DATABASES has no x (it has default)" in run(project, url=server.url()).stdout


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("mysql://root:secret-word@127.0.0.1/x", "names mysql, and this test needs a PostgreSQL server"),
        ("secret-word", "HOLDTRUE_BARRIER_URL is no URL"),
        ("postgresql://root:secret-word@127.0.0.1:1/x", "does not answer: .*onnection refused"),
    ],
)
def test_a_server_that_will_not_do_is_named_without_its_password(url: str, says: str) -> None:
    database = BarrierDatabase("postgresql", lambda _url: None, lambda: url)
    with pytest.raises(SettingsRefused, match=says) as found:
        database.engine  # noqa: B018  makes the database
    assert "secret-word" not in str(found.value)
    # What pytest would show of the driver's frames has the password in it.
    assert found.value.__cause__ is None
    assert found.value.__context__ is None or found.value.__suppress_context__
    shown = [entry for entry in found.traceback if not entry.ishidden(found)]
    assert {entry.path.name for entry in shown} == {Path(__file__).name}


def test_a_hook_that_failed_finds_an_empty_database_when_it_is_asked_again(server: PostgresPrimary) -> None:
    calls = []

    def hook(url: str) -> None:
        calls.append(url)
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE refunds (id int)")
        engine.dispose()
        if len(calls) == 1:
            raise ValueError("half way")

    database = BarrierDatabase("postgresql", hook, server.url)
    with pytest.raises(ValueError, match="half way"):
        database.url  # noqa: B018  makes the database
    assert database.url == calls[1] != calls[0]
    database.close()


def test_a_hook_within_an_event_loop_may_run_one_of_its_own(server: PostgresPrimary) -> None:
    """An asynchronous env.py calls asyncio.run."""

    def hook(url: str) -> None:
        asyncio.run(asyncio.sleep(0))
        engine = create_engine(url)
        with engine.begin() as connection:
            connection.exec_driver_sql("CREATE TABLE refunds (id int)")
        engine.dispose()

    database = BarrierDatabase("postgresql", hook, server.url)

    async def test() -> str:
        return database.url

    assert asyncio.run(test())
    database.close()
