"""Incidents of two databases beside each other: each has the schema of its own, as docs/testing.md shows it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from holdtrue.model import Incident, TableRows
from pytesting import run_pytest

DOCS = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
SECTION = DOCS.partition("### Incidents of several databases\n")[2].partition("\n### ")[0]
EXAMPLE = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)[0]
BY_FOLDER = """
import pytest
from holdtrue.testing import schema_from_sql_file

@pytest.fixture
def barrier_schema():
    return schema_from_sql_file("{database}.sql")
"""
TEST = """
from pathlib import Path
from sqlalchemy import inspect
from holdtrue.testing import load_incident

INCIDENT = load_incident(Path(__file__).with_name("incident.json"), checksum="{checksum}")

def test_incident_{database}(barrier_db):
    assert inspect(barrier_db.engine).get_table_names() == ["of_{database}"]
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two tickets, each in the folder of its database, and no fixture yet."""
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    for database in ("payments", "shop"):
        incident = Incident(
            id=f"{database}_1",
            invariant="one",
            database=database,
            engine="sqlite",
            sql=f"SELECT id FROM of_{database}",
            returns="rows",
            seed=(),
            observed=(TableRows(f"of_{database}", ("id",), (("1",),), ("integer",)),),
        )
        (tmp_path / f"{database}.sql").write_text(f"CREATE TABLE of_{database} (id INTEGER);\n", encoding="utf-8")
        folder = tmp_path / "tests" / "incidents" / database / incident.id
        folder.mkdir(parents=True)
        (folder / "incident.json").write_text(json.dumps(incident.as_data()), encoding="utf-8")
        text = TEST.format(database=database, checksum=incident.checksum)
        (folder / f"test_incident_{incident.id}.py").write_text(text, encoding="utf-8")
    return tmp_path


def test_a_fixture_that_asks_for_the_database_gives_each_incident_its_schema(repository: Path) -> None:
    (repository / "tests" / "conftest.py").write_text(EXAMPLE, encoding="utf-8")
    done = run_pytest("tests", folder=repository)
    assert "2 passed" in done.stdout, done.stdout


def test_a_folder_for_each_database_gives_each_incident_its_schema(repository: Path) -> None:
    for database in ("payments", "shop"):
        conftest = repository / "tests" / "incidents" / database / "conftest.py"
        conftest.write_text(BY_FOLDER.format(database=database), encoding="utf-8")
    done = run_pytest("tests", folder=repository)
    assert "2 passed" in done.stdout, done.stdout
