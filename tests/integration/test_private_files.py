"""What we write holds rows, texts or secrets: it is for its owner alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdtrue.cli import run
from holdtrue.settings import line_that_makes_a_secret, load_settings
from holdtrue.store import open_store


@pytest.fixture(autouse=True)
def _open_handed() -> Iterator[None]:
    """The mask that lets everybody in."""
    former = os.umask(0)
    yield
    os.umask(former)


def modes(folder: Path) -> dict[str, str]:
    return {path.name: f"{path.stat().st_mode & 0o777:o}" for path in folder.iterdir() if path.is_file()}


def test_a_sqlite_store_is_its_owners_alone(tmp_path: Path) -> None:
    """Design 7: what is kept of rows is for nobody else of the machine."""
    store = open_store(f"sqlite:///{tmp_path / 'holdtrue.db'}")
    try:
        store.upgrade()
        assert "holdtrue.db-wal" in modes(tmp_path)
        assert set(modes(tmp_path).values()) == {"600"}
    finally:
        store.close()


def test_a_store_that_is_there_keeps_the_mode_that_its_operator_gave_it(tmp_path: Path) -> None:
    path = tmp_path / "holdtrue.db"
    path.touch()
    path.chmod(0o640)
    store = open_store(f"sqlite:///{path}")
    try:
        store.upgrade()
        assert set(modes(tmp_path).values()) == {"640"}
    finally:
        store.close()


def test_the_secret_that_init_writes_is_its_owners_alone(tmp_path: Path) -> None:
    """Semantics 4.2."""
    assert run(["init", str(tmp_path)]) == 0
    assert modes(tmp_path)[".env"] == "600"


def test_the_line_that_makes_a_secret_makes_it_for_its_owner_alone(tmp_path: Path) -> None:
    """Semantics 4.2: what `serve` without a secret prints, typed as it is."""
    folder = tmp_path / "it's here"
    folder.mkdir()
    line = line_that_makes_a_secret(folder / "holdtrue.yaml")
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout + done.stderr == ""
    assert modes(folder) == {".env": "600"}
    assert len(load_settings(folder / "holdtrue.yaml", {}).ledger_key()) == 64
