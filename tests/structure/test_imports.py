"""The import contracts of pyproject.toml hold, and the kit is light."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]

# What a user's own service would notice if our pytest plugin brought it along.
HEAVY = {
    "alembic", "apscheduler", "fastapi", "httpx2", "jinja2", "prometheus_client", "psycopg", "psycopg2", "pydantic",
    "pydantic_settings", "slack_sdk", "sqlalchemy", "starlette", "structlog", "typer", "uvicorn",
}  # fmt: skip


@pytest.fixture(scope="module")
def report() -> str:
    """What import-linter says of the tree as it stands."""
    ended = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.stdout + ended.stderr


@pytest.mark.parametrize("contract", [one["name"] for one in CONTRACTS])
def test_an_import_contract_is_kept(contract: str, report: str) -> None:
    flat = " ".join(report.split())  # its table wraps long names
    assert f"{contract} KEPT" in flat, report


@pytest.mark.parametrize(
    "module",
    [
        "holdtrue",
        "holdtrue.model",
        "holdtrue.errors",
        "holdtrue.catalog",
        "holdtrue.testing",
        "holdtrue.testing.plugin",
    ],
)
def test_importing_the_kit_loads_no_library_of_the_service(module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.partition(".")[0] for line in ended.stdout.splitlines()}
    assert "holdtrue" in loaded
    assert not loaded & HEAVY


@pytest.mark.parametrize("module", ["holdtrue.alerting", "holdtrue.ledger", "holdtrue.scaffolding", "holdtrue.model"])
def test_importing_a_decision_loads_no_io_library(module: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print('\\n'.join(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {line.partition(".")[0] for line in ended.stdout.splitlines()}
    assert not loaded & (HEAVY | {"sqlite3", "socket", "yaml"})


def test_importing_every_module_has_no_effect_and_needs_no_order() -> None:
    modules = [
        ".".join(path.relative_to(ROOT / "app").with_suffix("").parts).removesuffix(".__init__")
        for path in sorted((ROOT / "app" / "holdtrue").rglob("*.py"))
        if path.name != "__main__.py" and "versions" not in path.parts and path.name != "env.py"
    ]
    script = (
        "import importlib, sys, threading\n"
        f"for name in {modules[::-1]!r}: importlib.import_module(name)\n"
        "assert threading.active_count() == 1, threading.enumerate()\n"
    )
    ended = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ""
