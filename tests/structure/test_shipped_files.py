"""The invariants that ship, and the one that the README shows, are ones that `holdtrue check` accepts."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdtrue.catalog import build_catalog

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "invariants").rglob("*.yaml"))
CONFIG = """
databases:
  payments:
    dialect: postgresql
    replicas: [{name: r1, url: "${PAYMENTS_REPLICA_URL}"}]
"""


def readme_invariant() -> str:
    """The YAML block of the README that begins a file of invariants."""
    (block,) = re.findall(r"```yaml\n(version: 1\n.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    return str(block)


def test_there_are_invariants() -> None:
    assert len(SHIPPED) >= 2


def test_check_accepts_what_ships(tmp_path: Path) -> None:
    names = {name for path in SHIPPED for name in re.findall(r"database: ?\"?([a-z_]+)", path.read_text())}
    databases = "".join(
        f'  {name}:\n    dialect: postgresql\n    replicas: [{{name: r1, url: "${{REPLICA_URL}}"}}]\n' for name in names
    )
    (tmp_path / "holdtrue.yaml").write_text(f"databases:\n{databases}")
    (tmp_path / "invariants").symlink_to(ROOT / "invariants")
    ended = subprocess.run(
        [sys.executable, "-m", "holdtrue", "check"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_readmes_invariant_is_accepted_without_a_warning() -> None:
    catalog = build_catalog({"holdtrue.yaml": CONFIG, "invariants/readme.yaml": readme_invariant()}, environ={})
    assert [one.name for one in catalog.invariants] == ["one_settled_refund_per_dispute"]
    assert catalog.warnings == ()


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_invariant_says_what_it_means_and_what_its_key_is(path: Path) -> None:
    catalog = build_catalog(
        {"holdtrue.yaml": CONFIG.replace("payments", _database(path)), f"invariants/{path.name}": path.read_text()},
        environ={},
    )
    assert catalog.invariants
    for invariant in catalog.invariants:
        assert invariant.description
        assert invariant.key or invariant.returns == "count", invariant.name


def _database(path: Path) -> str:
    found = re.search(r"database: ?\"?([a-z_]+)", path.read_text())
    assert found, "a shipped file names its database under `defaults`"
    return found[1]
