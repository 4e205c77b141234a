"""makes the same silence at every member of an Alertmanager cluster, takes it back, and says where it could not"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from holdtrue.model.masking import excerpt
from holdtrue.notifiers.alertmanager import Alertmanager, Member, Problem
from holdtrue.notifiers.alertmanager_alerts import moment_text, shown

_COMMENT_LIMIT = 500


@dataclass(frozen=True, slots=True)
class LabelMatch:
    """What a silence matches: a label of the alerts (``invariant``, ``database``, ``severity``, ``owner``) and its value.

    ``regex``: the value is a pattern in RE2's syntax for the whole label. Without ``equal`` everything else matches.
    """

    name: str
    value: str
    regex: bool = False
    equal: bool = True


@dataclass(frozen=True, slots=True)
class SilenceAnswer:
    """What one member made of it; ``problem`` is empty if it did, else our own words."""

    member: str
    problem: str = ""


def silence(
    cluster: Alertmanager,
    mark: str,
    matches: Sequence[LabelMatch],
    *,
    starts_at: datetime,
    ends_at: datetime,
    by: str,
    comment: str,
) -> tuple[SilenceAnswer, ...]:
    """Make this silence at every member, or change the one of the same ``mark`` there; one dead member stops no other.

    ``mark`` is ours, such as ``holdtrue silence 12``: it ends the comment, and is how the silence is found again. Members
    that gossip may show it more than once; all of them end together.
    """
    wanted = {
        "matchers": [
            {"name": one.name, "value": one.value, "isRegex": one.regex, "isEqual": one.equal} for one in matches
        ],
        "startsAt": moment_text(starts_at),
        "endsAt": moment_text(ends_at),
        "createdBy": shown(by, 100) or "holdtrue",
        "comment": f"{shown(comment, _COMMENT_LIMIT)} {_tag(mark)}".strip(),
    }
    return tuple(_silence(member, mark, wanted) for member in cluster.members)


def expire(cluster: Alertmanager, mark: str) -> tuple[SilenceAnswer, ...]:
    """End the silences of this mark at every member; one that has none is fine."""
    return tuple(_expire(member, mark) for member in cluster.members)


def _silence(member: Member, mark: str, wanted: dict[str, Any]) -> SilenceAnswer:
    there = _marked(member, mark)
    if isinstance(there, Problem):
        return SilenceAnswer(member.name, there.sentence)
    known = {"id": there[0]} if there else {}
    answer = member.ask("POST", "/api/v2/silences", {**known, **wanted})
    return SilenceAnswer(member.name, answer.sentence if isinstance(answer, Problem) else "")


def _expire(member: Member, mark: str) -> SilenceAnswer:
    there = _marked(member, mark)
    if isinstance(there, Problem):
        return SilenceAnswer(member.name, there.sentence)
    for reference in there:
        answer = member.ask("DELETE", f"/api/v2/silence/{reference}")
        if isinstance(answer, Problem):
            return SilenceAnswer(member.name, answer.sentence)
    return SilenceAnswer(member.name)


def _marked(member: Member, mark: str) -> list[str] | Problem:
    """The member's own numbers of the silences of this mark that have not ended."""
    answer = member.ask("GET", "/api/v2/silences")
    if isinstance(answer, Problem):
        return answer
    if not isinstance(answer, list):
        return Problem("it is no Alertmanager: it lists no silences")
    return [
        str(one["id"])
        for one in answer
        if isinstance(one, dict)
        and str(one.get("comment", "")).endswith(_tag(mark))
        and (one.get("status") or {}).get("state") != "expired"
    ]


def _tag(mark: str) -> str:
    return f"[{excerpt(mark, 60)}]"
