"""which invariants a person means: by name, tag, owner and database"""

from __future__ import annotations

from collections.abc import Sequence

from holdtrue.catalog import nearest
from holdtrue.errors import NotFound, Refused
from holdtrue.model import Catalog, Invariant

SELECTORS = ("tag", "owner", "database")


def choose(catalog: Catalog, names: Sequence[str], selectors: Sequence[str]) -> tuple[tuple[Invariant, str], ...]:
    """The pairs to ask, in the catalog's order.

    Names narrow to these invariants. Selectors of one kind are alternatives, different kinds must all match:
    ``tag:money``, ``owner:payments-oncall``, ``database:payments``.

    Raises:
        NotFound: a name is no invariant's, or nothing matches: asking nothing must never look like good news.
        Refused: a selector is of no known kind.
    """
    known = {one.name for one in catalog.invariants}
    for name in names:
        if name not in known:
            meant = nearest(name, known)
            raise NotFound(
                f"there is no invariant {name!r} in the catalog",
                remedy=f"did you mean {meant!r}?" if meant else "`holdtrue check` reads the catalog",
            )
    wanted: dict[str, set[str]] = {}
    for selector in selectors:
        kind, colon, value = selector.partition(":")
        if kind not in SELECTORS or not colon or not value:
            raise Refused(f"--select {selector!r} is not understood", remedy="write tag:…, owner:… or database:…")
        wanted.setdefault(kind, set()).add(value)

    def matches(invariant: Invariant, database: str) -> bool:
        has = {"tag": set(invariant.tags), "owner": {invariant.owner}, "database": {database}}
        return (not names or invariant.name in names) and all(has[kind] & values for kind, values in wanted.items())

    chosen = tuple(pair for pair in catalog.entries() if matches(*pair))
    if not chosen:
        raise NotFound("nothing matches, so nothing was asked", remedy="give other names or --select, or none")
    return chosen
