"""decides whether a count may speak of the text rather than of the data"""

from __future__ import annotations

from enum import StrEnum

from holdtrue.ledger.tally import KEY_LIMIT
from holdtrue.model import Invariant, Outcome, Population


class Suspicion(StrEnum):
    """Why a count looks like a fault of the text, the schema or the load rather than of so many rows."""

    FROM_NONE_TO_LIMIT = "from none to the limit"
    WHOLE_POPULATION = "the whole population"


def suspicion(
    invariant: Invariant, outcome: Outcome, counted: int, *, counted_before: int | None, population: Population | None
) -> Suspicion | None:
    """Whether a good run's count is suspicious; it is marked as such and never held back.

    ``counted_before`` is the last good run's count, ``population`` the newest answer to a question of this definition.
    """
    if outcome is not Outcome.VIOLATED:
        return None
    at_limit = counted > KEY_LIMIT or (invariant.count_limit is not None and counted >= invariant.count_limit)
    if counted_before == 0 and at_limit:
        return Suspicion.FROM_NONE_TO_LIMIT
    if population is not None and population.number and counted >= population.number:
        return Suspicion.WHOLE_POPULATION
    return None
