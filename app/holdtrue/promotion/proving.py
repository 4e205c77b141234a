"""demands of an export that its seed holds and that seed and observed rows break the rule (semantics 9.2)"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from holdtrue.errors import NotTried, PromotionRefused
from holdtrue.model import DatabaseConfig, Dialect, Incident, Invariant, Tried
from holdtrue.promotion.choosing import Chosen
from holdtrue.promotion.refusals import NEXT
from holdtrue.rehearsal import Rehearse, Rehearsed
from holdtrue.scaffolding import NO_RUN_BEFORE, Finding, Wanted

_TRIED: Final = 12
_STATE: Final = re.compile(r"guessed as ['\"].*", re.DOTALL)
_BY_CALLER: Final = (
    "tried by the caller of the service on a scratch database of its own, made from incident_schema.sql: "
)
_TOLD: Final[Mapping[Finding, str]] = {
    Finding.BREAKS: _BY_CALLER + "the seed holds, and with the observed rows the rule breaks",
    Finding.SEED_REFUSED: _BY_CALLER + "the seed does not load",
    Finding.SEED_BREAKS: _BY_CALLER + "the seed alone breaks the rule already",
    Finding.OBSERVED_REFUSED: _BY_CALLER + "the observed rows do not load",
    Finding.NOT_BROKEN: _BY_CALLER + "the seed holds, and with the observed rows the rule still holds",
}
"""What a caller found, in words of ours: its own might say anything."""
_DENIED: Final = "permission denied"
_GRANT: Final = (
    "give the login SELECT on the tables of base_rows and on their foreign-key parents: then the next new violation keeps a"
    " schema, and can be promoted"
)
_WHERE: Final = "where the ticket is made, or where `holdtrue promote` runs: "
_WAY_ON: Final = (
    "take the rows untried, each file with the mark NOT LOOKED: holdtrue promote {} --untried,"
    " or `untried`: true in a request to the API"
)

Made = tuple[Incident, Chosen]


def first_that_breaks(
    made: Sequence[Made],
    invariant: Invariant,
    database: DatabaseConfig,
    rehearse: Rehearse,
    *,
    wanted: Wanted,
    alert: int,
) -> tuple[Made, Rehearsed, Tried]:
    """The first incident that does what it says; one that nobody could try only if it is wanted so, and then marked so.

    Those without a schema come last: nobody can try them, here or elsewhere, and they must not hide one that can be tried.

    Raises:
        PromotionRefused: some were tried, and none does; the sentence is that of the first. Nothing overrides it.
        NotTried: none could be tried, and they are not wanted untried.
    """
    failed: list[tuple[Made, Rehearsed]] = []
    unlooked: list[tuple[Made, Rehearsed]] = []
    nowhere: dict[str, Rehearsed] = {}
    for one in sorted(made, key=lambda one: not _has_schema(one))[:_TRIED]:
        schema_sql = one[1].kept.evidence.schema_sql
        found = nowhere.get(schema_sql) or rehearse(one[0], schema_sql, database)
        if not _has_schema(one):
            found = _without_schema(found, one[1].kept.evidence.incomplete)
        elif not found.place:
            nowhere[schema_sql] = found
        told = wanted.tried.get(one[0].checksum) if found.finding is Finding.NOT_LOOKED else None
        if told is not None and told is not Finding.NOT_LOOKED:
            found = Rehearsed(told, _TOLD[told])
        if found.finding is Finding.BREAKS:
            return one, found, Tried.HERE if told is None else Tried.BY_CALLER
        if found.finding is not Finding.NOT_LOOKED:
            failed.append((one, found))
        elif told is None and wanted.to_try and _has_schema(one):
            return one, found, Tried.UNTRIED
        else:
            unlooked.append((one, found))
    if failed:
        raise _refused(failed, len(unlooked), invariant)
    one, found = unlooked[0]
    if wanted.untried:
        return one, found, Tried.UNTRIED
    # A file of SQLite needs nothing that only one of the two machines has.
    where = "" if database.dialect is Dialect.SQLITE or not found.remedy or not _has_schema(one) else _WHERE
    raise NotTried(
        f"nobody could try whether what was kept of {invariant.name} breaks it: {found.sentence}",
        remedy="\n".join((*((where + found.remedy).split("\n") if found.remedy else ()), _WAY_ON.format(alert))),
    )


def _without_schema(found: Rehearsed, incomplete: str) -> Rehearsed:
    """What kept a schema from being taken, and whether the next violation will have one: not before a right is given."""
    said = f"{found.sentence}, for the run noted: {incomplete}" if incomplete else found.sentence
    if _DENIED not in incomplete:
        return replace(found, sentence=said)
    return replace(found, sentence=said, remedy=_GRANT)


def _has_schema(one: Made) -> bool:
    return bool(one[1].kept.evidence.schema_sql.strip())


def _refused(failed: Sequence[tuple[Made, Rehearsed]], unlooked: int, invariant: Invariant) -> PromotionRefused:
    (incident, chosen), rehearsed = failed[0]
    more = f", nor for {len(failed) - 1} more ways to read what was kept" if len(failed) > 1 else ""
    blind = f" ({unlooked} more could not be tried)" if unlooked else ""
    return PromotionRefused(
        f"what was kept of {invariant.name} makes no test{more}: {rehearsed.sentence}{blind}",
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
