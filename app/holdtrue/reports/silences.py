"""the JSON shapes of silences, of what they withheld and what they would match"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from holdtrue import alerting
from holdtrue.model import Matched, Matcher, Mirrored, Silence
from holdtrue.reports.records import Json, episode, moment
from holdtrue.store import SilenceDetail


def silences(found: Iterable[Silence], withheld: Mapping[int, int], now: datetime) -> Json:
    """Silences in the order given; ``episodes`` is of how many alerts each withheld messages."""
    return {
        "now": moment(now),
        "silences": [{**silence(one, now), "episodes": withheld.get(one.id, 0)} for one in found],
    }


def silence(one: Silence, now: datetime) -> Json:
    """One silence; its matchers are written as people write them."""
    state = "in force" if alerting.is_in_force(one, now) else "to come" if one.starts_at > now else "ended"
    return {
        "id": one.id,
        "state": state,
        "matchers": [str(matcher) for matcher in one.matchers],
        "comment": one.comment,
        "created_by": one.created_by,
        "created_at": moment(one.created_at),
        "starts_at": moment(one.starts_at),
        "ends_at": moment(one.ends_at),
        "ended_by": one.ended_by or None,
    }


def silence_detail(detail: SilenceDetail, now: datetime) -> Json:
    """One silence with the alerts that it withheld messages of, the newest first."""
    withheld = [{**episode(one.episode), "messages": one.messages} for one in detail.withheld]
    return {"now": moment(now), **silence(detail.silence, now), "withheld": withheld}


def silenced(one: Silence, elsewhere: Iterable[Mirrored], now: datetime) -> Json:
    """A silence that was just made or ended, and what became of the same one elsewhere; ``problem`` is null if it is there."""
    there = [{"name": mirrored.name, "problem": mirrored.problem or None} for mirrored in elsewhere]
    return {"now": moment(now), **silence(one, now), "elsewhere": there}


def matched(matchers: Iterable[Matcher], found: Iterable[Matched]) -> Json:
    """What a silence would match now, what is open first."""
    return {
        "matchers": [str(matcher) for matcher in matchers],
        "matched": [
            {
                "invariant": one.invariant,
                "database": one.database,
                "severity": one.severity,
                "owner": one.owner,
                "alert": one.alert,
                "unchecked": one.unchecked,
            }
            for one in found
        ],
    }
