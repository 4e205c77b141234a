"""the invariant that a barrier test asserts: its text, or its name in the catalog"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdtrue.errors import NotFound
from holdtrue.model import NAME_PATTERN, Returns
from holdtrue.testing.verdicts import BadSeed

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Rule:
    """An invariant as a test asks it. ``returns`` and ``tolerate`` are the catalog's."""

    name: str
    sql: str
    returns: str = Returns.ROWS.value
    tolerate: int = 0

    def breaks(self, rows: Sequence[tuple[object, ...]]) -> str:
        """What is wrong in words; empty if the rule holds.

        Raises:
            BadSeed: under ``returns: count`` the text did not return one number.
        """
        if self.returns == Returns.COUNT.value:
            number = rows[0][0] if len(rows) == 1 and len(rows[0]) == 1 else None
            if not isinstance(number, int):
                raise BadSeed(f"{self.name} returns: count, but its text did not return one number")
            return f"{self.name} counted {number}" if number > self.tolerate else ""
        if len(rows) <= self.tolerate:
            return ""
        shown = ", ".join(repr(tuple(row)) for row in rows[:_SHOWN]) + (" …" if len(rows) > _SHOWN else "")
        return f"{self.name} returned {len(rows)} row{'' if len(rows) == 1 else 's'}: {shown}"


def find_rule(invariant: str, *, config: Path = Path("holdtrue.yaml")) -> Rule:
    """A name is looked up in the catalog beside ``config``; anything else is the text itself.

    Raises:
        NotFound: the catalog has no invariant of this name.
        CatalogRefused: the catalog cannot be read.
    """
    if not re.match(NAME_PATTERN, invariant):
        return Rule("the invariant", invariant)
    import os  # with the catalog: only a test that names an invariant reads files

    from holdtrue.catalog import load_catalog

    found = load_catalog(config, environ=os.environ, allow_empty=True).invariant(invariant)
    if found is None:
        raise NotFound(
            f"there is no invariant {invariant!r} beside {config}", remedy="run pytest where holdtrue.yaml is"
        )
    return Rule(found.name, found.sql, found.returns.value, found.policy.tolerate)
