"""what a person sees: the outcome of the last good run and its age"""

from __future__ import annotations

from datetime import datetime, timedelta

from holdtrue.alerting.health import VACUOUS
from holdtrue.model import (
    AlertState,
    Episode,
    Invariant,
    Outcome,
    Standing,
    Verdict,
    Word,
    fresh_for,
    show_duration,
)

_VIOLATED = 1
_COULD_NOT_LOOK = 3


def verdict(standing: Standing, alert: Episode | None, invariant: Invariant, now: datetime) -> Verdict:
    """The table of semantics 6: good news expires, bad news stays until a good run takes it back.

    ``alert`` is the open violation episode, if any. An alert that still waits for more good runs stays firing, and says so.
    """
    firing = alert is not None and alert.state is AlertState.FIRING
    if standing.good_at is None or standing.good_outcome is None:
        return _never(standing, firing=firing)
    age = max(now - standing.good_at, timedelta(0))
    fresh = age <= fresh_for(invariant.schedule, invariant.timeout)
    if standing.good_outcome is Outcome.VIOLATED:
        return _violated(standing, age, firing=firing, fresh=fresh)
    return _held(standing, alert, invariant, age, firing=firing, fresh=fresh)


def _never(standing: Standing, *, firing: bool) -> Verdict:
    sentence = _with_notes("unknown: never looked", standing, proven=True)
    if firing:
        # The store kept the alert and lost the look: still not good news.
        return Verdict(
            Word.VIOLATED,
            "violated, never looked since",
            firing=True,
            unknown=True,
            violations=None,
            exit_code=_VIOLATED,
        )
    return Verdict(Word.UNKNOWN, sentence, firing=False, unknown=True, violations=None, exit_code=_COULD_NOT_LOOK)


def _violated(standing: Standing, age: timedelta, *, firing: bool, fresh: bool) -> Verdict:
    shown = show_duration(age)
    if not fresh:
        sentence = f"violated, not seen since {shown} ago"
    elif firing:
        sentence = f"violated, {shown} ago"
    else:
        sentence = "violated, pending"
    if fresh and not standing.good_complete:
        sentence += f" · at least {standing.good_count}"
    return Verdict(
        Word.VIOLATED,
        _with_notes(sentence, standing),
        firing=firing,
        unknown=not fresh,
        violations=standing.good_count if fresh else None,
        exit_code=_VIOLATED,
    )


def _held(
    standing: Standing, alert: Episode | None, invariant: Invariant, age: timedelta, *, firing: bool, fresh: bool
) -> Verdict:
    shown = show_duration(age)
    sentence = f"{_holds(standing)}, {shown} ago" if fresh else f"unknown: last held {shown} ago"
    if firing and alert is not None:
        sentence += f" · still firing: held in {alert.held_in_a_row} of {invariant.policy.resolve_after} runs"
    vacuous = standing.errors_in_a_row > 0 and standing.try_reason.startswith(VACUOUS)
    exit_code = _VIOLATED if firing else _COULD_NOT_LOOK if vacuous or not fresh else 0
    return Verdict(
        Word.HOLDS if fresh else Word.UNKNOWN,
        _with_notes(sentence, standing),
        firing=firing,
        unknown=not fresh,
        violations=standing.good_count if fresh else None,
        exit_code=exit_code,
    )


def _holds(standing: Standing) -> str:
    """Rows that do not count, or are tolerated, stand right beside the word."""
    parts = ["holds"]
    for amount, word in (
        (standing.good_count or 0, "tolerated"),
        (standing.good_settling, "settling"),
        (standing.good_waived, "waived"),
    ):
        if amount:
            parts.append(f"{amount} {word}")
    return " · ".join(parts)


def _with_notes(sentence: str, standing: Standing, *, proven: bool | None = None) -> str:
    if standing.errors_in_a_row and standing.try_reason:
        sentence += f" · last try failed: {standing.try_reason}"
    known = standing.freshness_proven if proven is None else proven
    return sentence if known else f"{sentence} · freshness not proven"
