"""The files of a ticket: whatever came from a database stays data (cases 118, 119, 123)."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import casebook
from holdtrue.model import Incident, Position, TableRows
from holdtrue.scaffolding import TicketContext, Writer, render, ticket_id
from holdtrue.testing import BadSeed, load_incident
from pytesting import run_pytest

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
HOSTILE = "\"\"\"\n'''\nimport os; os.system('touch /tmp/scaffold-pwned')\n{__import__('os')} %(x)s \\N{BULLET} \\"


def incident(**changes: Any) -> Incident:
    facts: dict[str, Any] = {
        "id": "one_7",
        "invariant": "one",
        "database": "payments",
        "engine": "postgresql",
        "sql": "SELECT id FROM t",
        "returns": "rows",
        "seed": (),
        "observed": (TableRows("t", ("id",), (("1",),), ("integer",)),),
    }
    return Incident(**{**facts, **changes})


def context(**changes: Any) -> TicketContext:
    return TicketContext(**{"alert": 7, "created_at": NOON, "created_by": "ana", **changes})


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")


def test_code_in_row_values_stays_data_byte_for_byte(tmp_path: Path) -> None:
    """case-118: it compiles, runs nothing but the test, and the rows read back are equal."""
    marker = Path("/tmp/scaffold-pwned")
    marker.unlink(missing_ok=True)
    case = casebook.case("118").raw
    values = [
        case["raw"]["postgresql"]["first_row"][1],
        '{__import__("os").system("touch /tmp/scaffold-pwned")}',
        "%(x)s \\N{BULLET} \\x41 \\",
        "\u2028\u202e\ud7ff# -*- coding: utf-7 -*-",
        HOSTILE,
        None,
        "",
    ]
    rows = tuple((str(number), value) for number, value in enumerate(values))
    made = incident(sql=case["invariant"]["sql"], observed=(TableRows("evil", ("id", "v"), rows),))
    hostile = context(
        description=HOSTILE,
        created_by=HOSTILE,
        assumes=HOSTILE,
        incomplete=HOSTILE,
        operation="os:system('touch /tmp/scaffold-pwned')",
        masked=(HOSTILE,),
        left_out=(HOSTILE,),
        writers=(Writer(5, NOON, (HOSTILE,)), Writer(6, None, (HOSTILE,))),
        rehearsed=HOSTILE,
        rehearsed_how=HOSTILE,
        lost=((HOSTILE, HOSTILE),),
        first_bad=Position(HOSTILE, NOON, log_position=HOSTILE, snapshot=HOSTILE),
    )
    made = Incident(**{**{name: getattr(made, name) for name in made.__slots__}, "marked": (HOSTILE, "a\n    b")})
    files = render(made, hostile)
    write(tmp_path, files)
    test = tmp_path / "test_incident_one_7.py"
    subprocess.run([sys.executable, "-m", "py_compile", str(test)], check=True)
    done = run_pytest(test, folder=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "NotWired" in done.stdout
    assert not marker.exists()
    read = load_incident(tmp_path / "incident.json", checksum=made.checksum)
    assert read.incident == made
    assert read.incident.observed[0].rows == rows
    assert all(line.startswith("--") for line in files["incident_schema.sql"].splitlines() if line)


def test_column_names_that_are_no_identifiers_are_strings(tmp_path: Path) -> None:
    """case-119."""
    case = casebook.case("119").raw
    raw = case["raw"]["postgresql"]
    table = TableRows("kw", tuple(raw["columns"]), (tuple(raw["first_row"]),))
    made = incident(observed=(table,), sql=case["invariant"]["sql"])
    write(tmp_path, render(made, context(masked=tuple(f"kw.{name}" for name in raw["columns"]))))
    ast.parse((tmp_path / "test_incident_one_7.py").read_text(encoding="utf-8"))
    assert load_incident(tmp_path / "incident.json", checksum=made.checksum).incident.observed == (table,)


def test_very_long_names_are_shortened_and_stay_two() -> None:
    """case-123: file names under 255 bytes, and both scaffolds exist."""
    case = casebook.case("123").raw
    names = [case["invariant"]["name"], case["invariant"]["name"].replace("_one", "_two")]
    ids = [ticket_id(name, 7) for name in names]
    assert ids[0] != ids[1]
    for one in ids:
        assert all(len(name.encode()) < 255 for name in render(incident(id=one), context()))


@given(st.text(), st.integers(1, 10**9))
def test_a_ticket_id_is_a_safe_name_for_any_invariant(name: str, alert: int) -> None:
    one = ticket_id(name, alert)
    assert f"test_incident_{one}".isidentifier()
    assert one.isascii()
    assert len(one) <= 80


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_leaves_exactly_the_functions_that_were_meant(words: str, sql: str) -> None:
    """Whatever a name or a text holds, the file has three functions and one assignment."""
    made = incident(sql=sql, marked=(words,), invariant=words, database=words, pattern=words)
    files = render(
        made,
        context(
            description=words,
            created_by=words,
            masked=(words,),
            writers=(Writer(1, None, (words,)),),
            rehearsed="breaks" if len(words) % 2 else words,
            rehearsed_how=words,
            lost=((words, words),),
        ),
    )
    tree = ast.parse(files["test_incident_one_7.py"])
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert functions == ["run_a", "run_b", "pre_image", "test_incident_one_7"]
    assert [type(node).__name__ for node in tree.body[1:4]] == ["ImportFrom", "ImportFrom", "Assign"]
    assert files["test_incident_one_7.py"].isascii()
    json.loads(files["ticket.json"])


def test_an_edited_frozen_block_is_an_error(tmp_path: Path) -> None:
    """semantics 9.6: never a quiet pass."""
    made = incident()
    write(tmp_path, render(made, context()))
    block = tmp_path / "incident.json"
    block.write_text(block.read_text(encoding="utf-8").replace("SELECT id FROM t", "SELECT id FROM t WHERE false"))
    with pytest.raises(BadSeed, match="was edited"):
        load_incident(block, checksum=made.checksum)
    block.write_text("{}", encoding="utf-8")
    with pytest.raises(BadSeed, match="no frozen incident"):
        load_incident(block, checksum=made.checksum)


def test_a_known_operation_is_suggested_where_it_is_to_be_called() -> None:
    files = render(incident(), context(operation="payments.refunds:issue_refund"))
    assert "# for example: from payments.refunds import issue_refund" in files["test_incident_one_7.py"]
    assert files["test_incident_one_7.py"].count("NotWired(") == 2


def test_the_line_that_runs_a_ticket_finds_code_that_is_not_installed(tmp_path: Path) -> None:
    """The manual's own line, in a repository whose package nobody installed."""
    manual = render(incident(), context())["README.md"]
    line = manual.partition("3. `")[2].partition("`")[0].split()
    assert line == ["python", "-m", "pytest", "tests/incidents/one_7"]
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    (tmp_path / "own_refunds.py").write_text("REFUNDED = True\n", encoding="utf-8")
    folder = tmp_path / "tests" / "incidents" / "one_7"
    folder.mkdir(parents=True)
    (folder / "test_it.py").write_text(
        "from own_refunds import REFUNDED\n\ndef test_it():\n    assert REFUNDED\n", encoding="utf-8"
    )
    done = run_pytest(*line[3:], folder=tmp_path)
    assert done.returncode == 0, done.stdout
