"""decides what time alone, or leaving the catalog, means for an alert and its health"""

from __future__ import annotations

from datetime import datetime

from holdtrue.alerting.confirmation import NOT_LOOKED, is_overdue
from holdtrue.alerting.decision import fire, gathered_are_due, tell_gathered, worsen_unconfirmed
from holdtrue.alerting.episodes import Steps
from holdtrue.alerting.expiry import near_ends, tell_ends
from holdtrue.alerting.health import at, is_unchecked, why_unchecked
from holdtrue.model import (
    AlertState,
    Change,
    Decision,
    Ending,
    Episode,
    Invariant,
    Mark,
    Reason,
    Situation,
    Standing,
    Subject,
    show_duration,
)


def review(situation: Situation, invariant: Invariant, now: datetime) -> Decision | None:
    """What has become due by time alone; None if nothing has.

    That is staleness, ``unchecked``, reminders, gathered keys, ends that are near, and first readings that
    nobody could confirm in time. Time alone never ends an episode: only a good run does (semantics 0).
    """
    standing = at(situation.standing, invariant, now)
    changes: list[Change] = []
    why: list[str] = []
    if situation.unchecked is None and is_unchecked(standing, invariant, now):
        changes.append(_open_unchecked(standing, invariant, now))
        why.append(Reason.UNCHECKED.value)
    for episode in (situation.alert, situation.unchecked):
        if episode is None or not episode.open:
            continue
        if is_overdue(episode, now):
            changes.append(_tell_unconfirmed(Steps(episode), invariant, now))
            why.append(Mark.UNCONFIRMED.value)
        elif gathered_are_due(episode, invariant, now):
            changes.append(tell_gathered(Steps(episode), now, episode.last_run).change())
            why.append("worsened: keys that joined")
        elif _reminder_is_due(episode, invariant, now):
            changes.append(_remind(episode, standing, now))
            why.append(Reason.REMINDER.value)
    ends = near_ends(invariant, situation, now)
    if ends:
        changes.append(tell_ends(ends, standing, invariant, now))
        why.append(Reason.EXPIRING.value)
    if not changes and standing is situation.standing:
        return None
    said = ", ".join(why) or f"health is {standing.health.value}"
    return Decision(standing, tuple(changes), said, told_ends=tuple(one.told() for one in ends))


def withdraw(situation: Situation, now: datetime) -> Decision | None:
    """End what is open of a pair that left the catalog: withdrawn, never resolved (semantics 1.2); None if nothing is."""
    changes = []
    for episode in (situation.alert, situation.unchecked):
        if episode is None or not episode.open:
            continue
        steps = Steps(episode).end(Ending.WITHDRAWN, now)
        if episode.fired_at is None:
            changes.append(steps.step("withdrawn", now, detail="it left the catalog before it had to fire").change())
            continue
        if episode.subject is Subject.HEALTH:
            detail = "it left the catalog; nobody had been able to look"
        else:
            count = f"{'' if episode.count_complete else 'at least '}{episode.count}"
            detail = f"it left the catalog with {count} counted when last seen; no run saw it hold"
        changes.append(steps.tell(Reason.WITHDRAWN, now, detail=detail, run=episode.last_run).change())
    return Decision(situation.standing, tuple(changes), Reason.WITHDRAWN.value) if changes else None


def _tell_unconfirmed(steps: Steps, invariant: Invariant, now: datetime) -> Change:
    """Nobody could look a second time: not looking is not denying (semantics 5.2)."""
    episode = steps.episode
    if episode.state is not AlertState.PENDING:
        return worsen_unconfirmed(steps, now).change()
    count = f"{'' if episode.count_complete else 'at least '}{episode.count} counted"
    change, _ = fire(steps, None, invariant, now, detail=f"{count}; {NOT_LOOKED}", unconfirmed=True)
    return change


def _open_unchecked(standing: Standing, invariant: Invariant, now: datetime) -> Change:
    episode = Episode(
        invariant=standing.invariant,
        database=standing.database,
        subject=Subject.HEALTH,
        state=AlertState.FIRING,
        opened_at=now,
        definition=invariant.definition,
        severity=invariant.severity.value,
        owner=invariant.owner,
        fired_at=now,
        last_run=standing.good_run,
    )
    return Steps(episode).tell(Reason.UNCHECKED, now, detail=why_unchecked(standing, now)).change()


def _reminder_is_due(episode: Episode, invariant: Invariant, now: datetime) -> bool:
    every = invariant.policy.remind_every
    if every is None or episode.state is not AlertState.FIRING or episode.told_at is None:
        return False
    # Somebody has it: an acknowledged episode speaks again only when it grows or ends.
    return episode.acknowledged_at is None and now - episode.told_at >= every


def _remind(episode: Episode, standing: Standing, now: datetime) -> Change:
    if episode.subject is Subject.HEALTH:
        detail = why_unchecked(standing, now)
    else:
        detail = f"firing for {show_duration(now - (episode.fired_at or episode.opened_at))}"
    return Steps(episode).tell(Reason.REMINDER, now, detail=detail, run=episode.last_run).change()
