"""what can go wrong, as one tree

    HoldtrueError
    ├── Refused                     the user's input is wrong; nothing was done (exit 2)
    │   ├── CatalogRefused          invariants or holdtrue.yaml; carries every Problem
    │   ├── SettingsRefused         environment or flags
    │   ├── NotFound                a name or number that does not exist
    │   ├── PromotionRefused        an alert that cannot become a ticket as it is
    │   │   └── NotTried            one whose rows nobody could try; whoever says so takes them all the same
    │   └── MissingInstallSet       a part of Holdtrue that is not installed
    ├── StoreError                  our own database (exit 4)
    │   ├── StoreUnreachable
    │   ├── StoreOutdated           its schema is not the one this version speaks
    │   └── StoreNotShareable       SQLite where several hosts would share it
    └── ServiceError                the API at HOLDTRUE_URL (exit 4)

A query that fails, a replica that lags and a message that is refused are not here: they are expected, and are
data (``model.Failure``, ``model.Undelivered``). Neither text nor message of these exceptions ever carries a value
of a row or a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdtrue.model import Problem


class HoldtrueError(Exception):
    """Root of all that Holdtrue raises; ``exit_code`` is what a command ends with."""

    exit_code = 4

    def __init__(self, message: str, *, remedy: str = "") -> None:
        """Say what is wrong in ``message`` and what to do about it in ``remedy``."""
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        """The message, then the remedy."""
        return f"{self.message} ({self.remedy})" if self.remedy else self.message


class Refused(HoldtrueError):
    """What was given is wrong, and nothing was done."""

    exit_code = 2


class CatalogRefused(Refused):
    """Invariants or ``holdtrue.yaml`` are wrong; ``problems`` lists all of them, with their places."""

    def __init__(self, problems: Sequence[Problem], *, remedy: str = "run `holdtrue check`") -> None:
        """Carry every problem found."""
        count = len(problems)
        super().__init__(f"{count} problem{'s' if count != 1 else ''} in the catalog", remedy=remedy)
        self.problems = tuple(problems)


class SettingsRefused(Refused):
    """An environment variable or flag is missing or wrong."""


class NotFound(Refused):
    """No invariant, database or alert has this name or number."""


class PromotionRefused(Refused):
    """This alert cannot become a ticket as it is; the remedy says what to add."""


class NotTried(PromotionRefused):
    """Nobody could try whether the rows do what a ticket says; the remedy is the ways out, one in each line."""

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways out."""
        return tuple(line for line in self.remedy.split("\n") if line)

    def __str__(self) -> str:
        """The message, then the ways out, in one line."""
        return f"{self.message} ({'; '.join(self.ways)})" if self.ways else self.message


class MissingInstallSet(Refused):
    """This command needs a part of Holdtrue that is not installed."""


class StoreError(HoldtrueError):
    """Our own database failed us."""


class StoreUnreachable(StoreError):
    """The store did not answer."""


class StoreOutdated(StoreError):
    """The store's schema is not the one this version speaks; run `holdtrue store upgrade`."""


class StoreNotShareable(StoreError):
    """A SQLite store serves the processes of one host only."""


class ServiceError(HoldtrueError):
    """The service at HOLDTRUE_URL refused or did not answer."""
