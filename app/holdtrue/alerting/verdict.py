"""what a person sees: the outcome of the last good run and its age"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdtrue.alerting.health import VACUOUS, is_fresh, show_age
from holdtrue.model import (
    AlertState,
    Episode,
    Invariant,
    Outcome,
    Standing,
    Verdict,
    Word,
)

_VIOLATED = 1
_COULD_NOT_LOOK = 3


@dataclass(frozen=True, slots=True)
class _Seen:
    """The last good run against now: its age in words, whether it is known still, and whether it ran another text."""

    ago: str
    fresh: bool
    former: bool


def verdict(standing: Standing, alert: Episode | None, invariant: Invariant, now: datetime) -> Verdict:
    """The table of semantics 6: good news expires, bad news stays until a good run takes it back.

    ``alert`` is the open violation episode, if any. An alert that still waits for more good runs stays firing, and says so.
    """
    firing = alert is not None and alert.state is AlertState.FIRING
    if standing.good_at is None or standing.good_outcome is None:
        return _never(standing, firing=firing)
    seen = _Seen(
        ago=show_age(standing.good_at, now),
        fresh=is_fresh(standing.good_at, invariant, now),
        former=bool(standing.good_definition) and standing.good_definition != invariant.definition,
    )
    if standing.good_outcome is Outcome.VIOLATED:
        return _violated(standing, alert, seen, firing=firing)
    return _held(standing, alert, invariant, seen, firing=firing)


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


def _violated(standing: Standing, alert: Episode | None, seen: _Seen, *, firing: bool) -> Verdict:
    if not seen.fresh:
        sentence = f"violated, not seen since {seen.ago}"
    elif firing:
        sentence = f"violated, {seen.ago}"
    elif alert is not None and alert.confirming is not None:
        sentence = f"violated (confirming), {seen.ago}"
    else:
        sentence = f"violated, pending, {seen.ago}"
    if seen.fresh and not standing.good_complete:
        sentence += f" · at least {standing.good_count}"
    if seen.former:
        sentence += " · under the former definition"
    return Verdict(
        Word.VIOLATED,
        _with_notes(sentence, standing),
        firing=firing,
        unknown=not seen.fresh,
        violations=standing.good_count if seen.fresh else None,
        exit_code=_VIOLATED,
    )


def _held(standing: Standing, alert: Episode | None, invariant: Invariant, seen: _Seen, *, firing: bool) -> Verdict:
    # What held is the text that was run: of another one nobody has looked whether it does.
    known = seen.fresh and not seen.former
    if known:
        sentence = f"{_holds(standing)}, {seen.ago}"
    elif seen.former:
        sentence = f"unknown: not looked since the definition changed; the former one held {seen.ago}"
    else:
        sentence = f"unknown: last held {seen.ago}"
    if firing and alert is not None:
        sentence += f" · still firing: held in {alert.held_in_a_row} of {invariant.policy.resolve_after} runs"
    vacuous = standing.errors_in_a_row > 0 and standing.try_reason.startswith(VACUOUS)
    exit_code = _VIOLATED if firing else _COULD_NOT_LOOK if vacuous or not known else 0
    return Verdict(
        Word.HOLDS if known else Word.UNKNOWN,
        _with_notes(sentence, standing),
        firing=firing,
        unknown=not known,
        violations=standing.good_count if known else None,
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
