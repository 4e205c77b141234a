"""The line that replays a schedule is pasted into a shell: it names the test from there, and runs nothing else."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue.testing import replay

ROOT = Path("/projects/mono")
FILE = ROOT / "backend" / "tests" / "test_m.py"


def line(monkeypatch: pytest.MonkeyPatch, within: str, started_in: Path, schedule: str = "A1") -> str:
    node = f"backend/tests/test_m.py::{within}"
    monkeypatch.setenv("PYTEST_CURRENT_TEST", f"{node} (call)")
    monkeypatch.setattr(replay, "_running", [replay.Running(node, FILE, started_in)])
    return replay.command(schedule)


@pytest.mark.parametrize(
    ("started_in", "file"),
    [
        (ROOT, "backend/tests/test_m.py"),
        (ROOT / "backend", "tests/test_m.py"),
        (ROOT / "backend" / "tests", "test_m.py"),
        (ROOT / "frontend", "../backend/tests/test_m.py"),
    ],
)
def test_the_file_is_named_from_where_pytest_was_started(
    monkeypatch: pytest.MonkeyPatch, started_in: Path, file: str
) -> None:
    replays = line(monkeypatch, "TestThem::test_p[a]", started_in)
    assert shlex.split(replays) == ["pytest", f"{file}::TestThem::test_p[a]", "--holdtrue-schedule", "A1"]


@pytest.mark.parametrize(
    "parameter", ["it's $HOME `id`; a b", '"', "a (b)", "$(id)", "back\\slash", "ä|b>c", "x::y", "!!"]
)
def test_a_shell_takes_a_parameter_as_it_is_and_runs_nothing_of_it(
    monkeypatch: pytest.MonkeyPatch, parameter: str
) -> None:
    replays = line(monkeypatch, f"test_p[{parameter}]", ROOT / "backend")
    said = subprocess.run(
        ["sh", "-c", f"pytest() {{ printf '%s\\n' \"$@\"; }}; {replays}"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert said == [f"tests/test_m.py::test_p[{parameter}]", "--holdtrue-schedule", "A1"]


@given(within=st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1))
def test_whatever_the_name_of_a_test_is_it_stays_one_word(within: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        assert shlex.split(line(patch, within, ROOT))[1:] == [
            f"backend/tests/test_m.py::{within}",
            "--holdtrue-schedule",
            "A1",
        ]


def test_a_test_of_another_run_gives_its_folder_to_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    line(monkeypatch, "test_p", ROOT / "backend")
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "test_other.py::test_q (call)")
    assert replay.command("B2") == "pytest test_other.py::test_q --holdtrue-schedule B2"
