"""The wheel carries what the service needs at run time, and nothing of the repository beside it."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "app" / "holdtrue"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel as the image's build stage makes it."""
    folder = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        capture_output=True,
        check=True,
    )
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_every_tracked_file_of_the_package_is_in_the_wheel(wheel: zipfile.ZipFile) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "app"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\0")
    here = {name.removeprefix("app/") for name in listed if name and (ROOT / name).exists()}
    assert here <= set(wheel.namelist())


@pytest.mark.parametrize("folder", ["web/templates", "web/static", "store/migrations"])
def test_what_is_no_python_module_ships_too(folder: str, wheel: zipfile.ZipFile) -> None:
    files = {
        str(path.relative_to(ROOT / "app"))
        for path in (PACKAGE / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files
    assert files <= set(wheel.namelist())


def test_types_are_published(wheel: zipfile.ZipFile) -> None:
    assert "holdtrue/py.typed" in wheel.namelist()


def test_nothing_else_ships(wheel: zipfile.ZipFile) -> None:
    tops = {name.partition("/")[0] for name in wheel.namelist()}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"holdtrue"}
    assert not [name for name in wheel.namelist() if "__pycache__" in name or name.endswith((".db", ".env"))]


def test_the_command_and_the_pytest_plugin_are_registered(wheel: zipfile.ZipFile) -> None:
    (entries,) = [name for name in wheel.namelist() if name.endswith("entry_points.txt")]
    text = wheel.read(entries).decode()
    assert "holdtrue = holdtrue.cli:main" in text
    assert "[pytest11]\nholdtrue = holdtrue.testing.plugin" in text
