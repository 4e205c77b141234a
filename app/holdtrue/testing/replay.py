"""the one schedule that `--holdtrue-schedule` asked for, and how a failing one is asked for again"""

from __future__ import annotations

import os
import re

OPTION = "--holdtrue-schedule"
_asked: list[str] = []


def ask_for(name: str) -> None:
    """Play only the schedule of this name; empty plays all again."""
    _asked[:] = [name] if name else []


def asked() -> str:
    """The schedule asked for; empty for all."""
    return _asked[0] if _asked else ""


def command(schedule: str) -> str:
    """The line that plays one schedule of the running test again."""
    current = re.sub(r" \(\w+\)$", "", os.environ.get("PYTEST_CURRENT_TEST", "…"))
    quoted = current if re.fullmatch(r"[\w./:…-]*", current) else f"'{current}'"
    return f"pytest {quoted} {OPTION} {schedule}"
