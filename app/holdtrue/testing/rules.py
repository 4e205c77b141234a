"""the invariant that a barrier test asserts: its text, or its name in the catalog"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from holdtrue.errors import CatalogRefused, NotFound
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

    from holdtrue.catalog import load_catalog, nearest

    if not config.is_file():
        raise NotFound(
            f"{invariant!r} would be an invariant's name, and there is no {config} here",
            remedy="run pytest where holdtrue.yaml is, or give the SQL itself",
        )
    try:
        catalog = load_catalog(config, environ=os.environ, allow_empty=True)
    except CatalogRefused as refused:
        for problem in refused.problems[:_SHOWN]:  # a test has no place of its own to list them
            refused.add_note(str(problem))
        raise
    found = catalog.invariant(invariant)
    if found is None:
        near = nearest(invariant, [one.name for one in catalog.invariants])
        raise NotFound(
            f"there is no invariant {invariant!r} beside {config}" + (f" (did you mean {near!r}?)" if near else ""),
            remedy="run pytest where holdtrue.yaml is",
        )
    return Rule(found.name, found.sql, found.returns.value, found.policy.tolerate)
