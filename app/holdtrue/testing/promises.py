"""what a test has made and must still play: forgotten, it would be green without having looked"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Promise(Protocol):
    """Something that is there to be played. ``forgotten`` says what was left out; empty once it is done."""

    @property
    def forgotten(self) -> str:
        """What to say of it now."""


@dataclass
class ToAwait:
    """A coroutine that has to be awaited."""

    forgotten: str

    def begins(self) -> None:
        """Somebody awaits it."""
        self.forgotten = ""


made: list[Promise] = []
"""All that the running test has made; the plugin fails the test if one of them was forgotten."""


before_parties: list[Callable[[], object]] = []
"""What must be done before parties begin: a database that one of them built would be steps of that party."""


def make_ready() -> None:
    """Do it, in the thread of the test."""
    for one in before_parties:
        one()


def forgotten() -> str:
    """What the running test left out; empty if nothing."""
    return next((one.forgotten for one in made if one.forgotten), "")
