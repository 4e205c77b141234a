"""Runs pytest as a user does: a process of its own, in a folder of the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

# Where one of these is set, pytest's summary repeats whole messages; what is read of it must not hang on where we run.
OUTER = frozenset({"CI", "BUILD_NUMBER", "PYTEST_ADDOPTS"})


def run_pytest(*arguments: str | Path, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """What pytest says of ``folder``, or of what ``arguments`` name, within a minute."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, arguments)],
        cwd=folder,
        env={**{key: value for key, value in os.environ.items() if key not in OUTER}, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
