"""demands of an export that its seed holds and that seed and observed rows break the rule (semantics 9.2), or says why not"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from holdtrue.errors import PromotionRefused
from holdtrue.model import DatabaseConfig, Incident, Invariant
from holdtrue.promotion.choosing import Chosen
from holdtrue.promotion.refusals import NEXT
from holdtrue.rehearsal import Finding, Rehearse, Rehearsed
from holdtrue.scaffolding import NO_RUN_BEFORE

_TRIED: Final = 12
_STATE: Final = re.compile(r"guessed as ['\"].*", re.DOTALL)

Made = tuple[Incident, Chosen]


def first_that_breaks(
    made: Sequence[Made], invariant: Invariant, database: DatabaseConfig, rehearse: Rehearse
) -> tuple[Made, Rehearsed]:
    """The first incident that does what it says; or the first that could not be tried, which is then marked so.

    Raises:
        PromotionRefused: each was tried, and none does; the sentence is that of the first.
    """
    tried: list[tuple[Made, Rehearsed]] = []
    for one in made[:_TRIED]:
        rehearsed = rehearse(one[0], one[1].kept.evidence.schema_sql, database)
        if rehearsed.finding in (Finding.BREAKS, Finding.NOT_LOOKED):
            return one, rehearsed
        tried.append((one, rehearsed))
    (incident, chosen), rehearsed = tried[0]
    more = f", nor for {len(tried) - 1} more ways to read what was kept" if len(tried) > 1 else ""
    raise PromotionRefused(
        f"what was kept of {invariant.name} makes no test{more}: {rehearsed.sentence}",
        remedy="; ".join([*what_is_missing(incident, chosen, rehearsed), f"{NEXT}: promote that one"]),
    )


def what_is_missing(incident: Incident, chosen: Chosen, rehearsed: Rehearsed) -> list[str]:
    """Why the rows do not do it, as far as is known: in words, and never a value."""
    evidence = chosen.kept.evidence
    missing = [f"a row of {parent} that a row of {child} refers to is gone" for child, parent in rehearsed.lost]
    missing += [one for one in evidence.incomplete.split("; ") if one]
    seed = rehearsed.finding in (Finding.SEED_BREAKS, Finding.SEED_REFUSED)
    guesses = [one for one in incident.marked if "guess" in one or "as it was" in one or "as it is" in one]
    if seed and guesses:
        # A state is a value of a row: this sentence may reach a log.
        missing += [f"a guess is wrong ({_STATE.sub('guessed as another state', one)})" for one in guesses]
    elif rehearsed.finding is Finding.SEED_BREAKS:
        missing.append(
            "the rows of before break the rule by themselves: it was broken before the window, by rows that were waived,"
            " settling or not returned then"
        )
    if chosen.assembled.split == NO_RUN_BEFORE:
        missing.append(NO_RUN_BEFORE)
    if rehearsed.finding in (Finding.SEED_REFUSED, Finding.OBSERVED_REFUSED) and chosen.masked:
        missing.append(
            f"stand-ins may be what is refused ({', '.join(chosen.masked)}): declare safe what holds nothing personal"
        )
    if rehearsed.finding is Finding.NOT_BROKEN:
        missing += [one for one in incident.marked if one not in guesses]
        read = {one.rpartition(".")[2] for one in (table.table for table in (*incident.seed, *incident.observed))}
        missing.append(
            f"what else the text reads has to be declared in base_rows (kept: {', '.join(sorted(read)) or 'nothing'})"
        )
        if evidence.left_out:
            missing.append(f"incident_schema.sql leaves out {', '.join(evidence.left_out)}")
        if chosen.masked:
            missing.append(f"stand-ins of columns by which the text may join or choose ({', '.join(chosen.masked)})")
    return list(dict.fromkeys(missing))
