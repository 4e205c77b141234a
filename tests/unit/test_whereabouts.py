"""An error is told with the line of the user's own code, never with one of a library, compiled or not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from holdtrue.testing import failures

_RAISES = "def raises():\n    raise LookupError('no row')\n"


def a_function(file: str, module_file: str) -> Callable[[], object]:
    """One that fails, compiled from a file of that name, in a module that was loaded from the other."""
    names: dict[str, object] = {"__name__": "a_module", "__file__": module_file}
    exec(compile(_RAISES, file, "exec"), names)  # noqa: S102  a text of this test
    found = names["raises"]
    assert callable(found)
    return found


def no_row() -> object:
    engine = create_engine("sqlite://")
    try:
        with engine.connect() as connection:
            return connection.execute(text("SELECT 1 WHERE 0")).one()
    finally:
        engine.dispose()


def bad_json() -> object:
    return json.loads("{")


def compiled_elsewhere() -> object:
    """As Cython has it: the file is that of where the library was built."""
    return a_function("lib/library/_result_cy.py", "/venv/lib/python3.11/site-packages/library/_result_cy.so")()


def compiled_from_a_file_that_is_there() -> object:
    """The working folder may have a file of the same name."""
    return a_function("pyproject.toml", "/venv/lib/python3.11/site-packages/library/_result_cy.so")()


def compiled_and_loaded_from_nowhere() -> object:
    return a_function("lib/library/_no_such_file.py", "")()


@pytest.mark.parametrize(
    "fails",
    [no_row, bad_json, compiled_elsewhere, compiled_from_a_file_that_is_there, compiled_and_loaded_from_nowhere],
)
def test_the_line_of_an_error_is_of_the_code_that_called_the_library(fails: Callable[[], object]) -> None:
    with pytest.raises(Exception, match=r".") as caught:
        fails()
    said = failures.told(caught.value)
    assert f"/tests/unit/{Path(__file__).name}:" in said
    assert said.endswith(f" in {fails.__name__}")


def test_a_file_of_theirs_that_is_named_from_the_working_folder_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "refunds.py").write_text(_RAISES, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LookupError) as caught:
        a_function("refunds.py", "refunds.py")()
    assert failures.told(caught.value) == "LookupError, at refunds.py:2 in raises"
