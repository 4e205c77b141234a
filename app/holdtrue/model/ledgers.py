"""what the ledger knew before a run, and what the run changed in it"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from holdtrue.model.runs import KeyState


@dataclass(frozen=True, slots=True)
class LedgerBefore:
    """The ledger of one invariant on one database, as the last good run left it.

    ``horizon`` is the key below which the ledger is whole, if the last run kept only a sample (semantics 4.3). A differing
    ``secret_id``, ``key_columns`` or ``timezone`` re-baselines (semantics 4.2).
    """

    keys: Mapping[str, KeyState] = field(default_factory=dict)
    looked_before: bool = False
    secret_id: str = ""
    key_columns: tuple[str, ...] = ()
    timezone: str = ""
    horizon: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """How the keys of a run differ from what was known.

    ``changed`` are the only ledger rows to write; ``never_seen`` the keys that no run returned before, in any disposition,
    whose evidence is to be taken. ``rebaselined`` says why all present keys became known; empty if they did not.
    ``horizon`` is the one to keep with the ledger. ``keeps_facts``: whether the run's secret, key columns and time zone
    become the ledger's; a run that could not re-baseline to the end leaves the former ones. ``novelties`` are by key.
    """

    new: int = 0
    known: int = 0
    came_back: int = 0
    fixed: int = 0
    healed: int = 0
    changed: tuple[KeyState, ...] = ()
    never_seen: tuple[str, ...] = ()
    of_a_sample: bool = False
    rebaselined: str = ""
    novelties: Mapping[str, str] = field(default_factory=dict)
    horizon: str | None = None
    keeps_facts: bool = True
