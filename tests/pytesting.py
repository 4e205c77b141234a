"""Runs pytest as a user does: a process of its own, in a folder of the test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def run_pytest(*arguments: str | Path, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """What pytest says of ``folder``, or of what ``arguments`` name, within a minute."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, arguments)],
        cwd=folder,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
