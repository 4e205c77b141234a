"""what the catalog adds to a message: texts for people, and where to read on"""

from __future__ import annotations

from collections.abc import Callable

from holdtrue.model import Catalog, Description, Episode


def describer(catalog: Callable[[], Catalog | None], own_url: Callable[[], str]) -> Callable[[Episode], Description]:
    """Describe an episode by the catalog in force; links lead to ``external_url`` if it is set, else to this instance."""

    def describe(episode: Episode) -> Description:
        in_force = catalog()
        base = (in_force.config.external_url if in_force else "") or own_url()
        invariant = in_force.invariant(episode.invariant) if in_force else None
        page = f"{base}/alerts/{episode.id}"
        if invariant is None:
            return Description(page_url=page)
        return Description(
            description=invariant.description,
            runbook_url=invariant.runbook_url,
            links=tuple((label, address) for label, address in invariant.links if "{" not in address),
            page_url=page,
            invariant=invariant,
        )

    return describe
