"""the one schedule that `--holdtrue-schedule` asked for, and how a failing one is asked for again"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

OPTION = "--holdtrue-schedule"


@dataclass(frozen=True, slots=True)
class Running:
    """A test: ``node`` is pytest's name for it, which begins at the project's root; ``path`` is its file."""

    node: str
    path: Path
    started_in: Path

    def from_where_it_was_started(self) -> str:
        """Its name as the shell there takes it."""
        _, _, within = self.node.partition("::")
        return "::".join(filter(None, (os.path.relpath(self.path, self.started_in), within)))


_asked: list[str] = []
_running: list[Running] = []


def ask_for(name: str) -> None:
    """Play only the schedule of this name; empty plays all again."""
    _asked[:] = [name] if name else []


def asked() -> str:
    """The schedule asked for; empty for all."""
    return _asked[0] if _asked else ""


def runs(test: Running) -> None:
    """This test runs now."""
    _running[:] = [test]


def command(schedule: str) -> str:
    """The line that plays one schedule of the running test again, for the shell that started pytest."""
    current = re.sub(r" \(\w+\)$", "", os.environ.get("PYTEST_CURRENT_TEST", "…"))
    named = next((one.from_where_it_was_started() for one in _running if one.node == current), current)
    # A name may hold whatever its parameters do, and somebody pastes this line.
    quoted = named if re.fullmatch(r"[\w./:…-]*", named) else shlex.quote(named)
    return f"pytest {quoted} {OPTION} {shlex.quote(schedule)}"
