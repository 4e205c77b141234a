"""decides what a run means for its alert and its health"""

from __future__ import annotations

from datetime import datetime

from holdtrue.alerting.confirmation import (
    AWAITED,
    NOT_LOOKED,
    Reading,
    begin,
    not_again,
    not_counted,
    read_again,
    wanted,
)
from holdtrue.alerting.episodes import Steps
from holdtrue.alerting.health import reason_of, standing_after
from holdtrue.alerting.redefinition import end_of, held_in_a_row
from holdtrue.model import (
    AlertState,
    Change,
    Decision,
    Ending,
    Episode,
    Former,
    Health,
    Invariant,
    Mark,
    Outcome,
    Reason,
    Returns,
    Run,
    RunKind,
    Situation,
    Subject,
    show_duration,
)


def decide(
    run: Run, situation: Situation, invariant: Invariant, now: datetime, *, former: Former | None = None
) -> Decision:
    """What ``run`` means: the new standing, the changed episodes with their events, and why, in words.

    A run that could not look changes no alert (semantics 7.2); it moves the health. A run that was cut short can open, keep
    and worsen an alert, never end it or lower its count (semantics 3.4). ``former`` is what the former definition came to,
    where this run would end an alert that was opened under it (semantics 1.2).
    """
    standing = standing_after(run, situation.standing, invariant, now)
    if not run.good:
        still_wanted = wanted(situation.alert, run, now)
        return Decision(standing, why=f"could not look: {reason_of(run)}", confirm=still_wanted)
    alert = situation.alert
    changes: list[Change] = []
    if situation.unchecked is not None and standing.health is Health.OK:
        changes.append(_recover(situation.unchecked, run, now))
    if run.outcome is Outcome.VIOLATED:
        change, why = _violated(run, situation, invariant, now)
        alert = change.episode
        changes.append(change)
    elif situation.alert is None:
        why = "holds"
    elif not run.complete:
        # Nothing makes such a run today; if something ever does, it has not seen that the rows are gone.
        why = "held, but not to the end: takes nothing back"
    else:
        change, why = _held(run, situation, invariant, now, former)
        alert = change.episode
        changes.append(change)
    return Decision(standing, tuple(changes), why, confirm=wanted(alert, run, now))


def _run_of(run: Run) -> int | None:
    return run.id or None


def _recover(unchecked: Episode, run: Run, now: datetime) -> Change:
    found = "it holds" if run.outcome is Outcome.HELD else f"it is violated, {run.show_count()} counted"
    blind = show_duration(now - unchecked.opened_at)
    told = Steps(unchecked).become(last_run=_run_of(run)).end(Ending.RECOVERED, now)
    return told.tell(Reason.RECOVERED, now, detail=f"looked again after {blind}: {found}", run=_run_of(run)).change()


def _violated(run: Run, situation: Situation, invariant: Invariant, now: datetime) -> tuple[Change, str]:
    alert = situation.alert
    steps = Steps(alert) if alert is not None else _open(run, situation, invariant, now)
    if alert is not None and alert.definition != run.definition:
        detail = "the definition changed; the rule is still broken under the new one"
        # A first reading of another text waits for nothing any more.
        steps = steps.become(definition=run.definition, confirming=None)
        steps = steps.step("definition changed", now, detail=detail, run=_run_of(run))
    steps = _count(steps, run, invariant)
    if steps.episode.state is AlertState.PENDING:
        return _maybe_fire(steps, run, invariant, now)
    return _maybe_worsen(steps, run, invariant, now)


def _open(run: Run, situation: Situation, invariant: Invariant, now: datetime) -> Steps:
    return Steps(
        Episode(
            invariant=run.invariant,
            database=run.database,
            subject=Subject.VIOLATION,
            state=AlertState.PENDING,
            opened_at=now,
            definition=run.definition,
            severity=invariant.severity.value,
            owner=invariant.owner,
            first_run=_run_of(run),
            at_first_look=situation.standing.good_at is None,
            follows=_follows(situation.previous, invariant, now),
        )
    )


def _follows(previous: Episode | None, invariant: Invariant, now: datetime) -> int | None:
    """The episode that this one reopens (semantics 7.2); one that nobody heard of passes its own link on."""
    if previous is None or previous.ended_at is None or now - previous.ended_at > invariant.policy.reopen_within:
        return None
    return previous.follows if previous.fired_at is None else previous.id


def _count(steps: Steps, run: Run, invariant: Invariant) -> Steps:
    """Take the run's count; "at least n" never lowers one (semantics 3.4)."""
    episode = steps.episode
    lower = not run.complete and run.counted < episode.count
    count = episode.count if lower else run.counted
    new = _joined(run, invariant) if invariant.confirm is None else run.again_new
    return steps.become(
        last_run=_run_of(run),
        count=count,
        count_complete=episode.count_complete if lower else run.complete,
        peak=max(episode.peak, count),
        held_in_a_row=0,
        violated_in_a_row=episode.violated_in_a_row + (run.kind is RunKind.SCHEDULED),
        new_since_told=episode.new_since_told + new,
    )


def _joined(run: Run, invariant: Invariant) -> int:
    """The run's keys that the episode did not have yet; without a key novelty owes no message (semantics 4.2)."""
    return run.new + run.rejoined if invariant.key and invariant.returns is Returns.ROWS else 0


def _maybe_fire(steps: Steps, run: Run, invariant: Invariant, now: datetime) -> tuple[Change, str]:
    episode, wanted = steps.episode, invariant.policy.fire_after
    # A run that somebody asked for does not stand for a scheduled one, unless one is all that it takes.
    if episode.violated_in_a_row < wanted and wanted > 1:
        if episode.events == 0:
            detail = f"{episode.violated_in_a_row} of {wanted} runs"
            steps = steps.step("opened", now, detail=detail, run=_run_of(run))
        return steps.change(), f"violated in {episode.violated_in_a_row} of {wanted} runs in a row"
    if invariant.confirm is None:
        return fire(steps, run, invariant, now, detail=_found(run))
    first = episode.confirming
    reading = read_again(run, first, invariant) if first is not None else None
    if reading is Reading.CONFIRMED:
        both = f"; {run.again} of them in both runs" if run.again is not None else "; in both runs"
        return fire(steps, run, invariant, now, detail=_found(run) + both)
    if reading is Reading.NONE and run.kind is RunKind.SCHEDULED:
        return fire(steps, run, invariant, now, detail=f"{_found(run)}; {NOT_LOOKED}", unconfirmed=True)
    if reading is Reading.NONE:
        return steps.change(), AWAITED
    if reading is Reading.TRANSIENT:
        steps = steps.become(first_run=_run_of(run)).step("transient", now, detail=not_again(run), run=_run_of(run))
    return begin(steps, run, invariant, now, found=_found(run)).change(), "confirming"


def fire(
    steps: Steps, run: Run | None, invariant: Invariant, now: datetime, *, detail: str, unconfirmed: bool = False
) -> tuple[Change, str]:
    """A pending alert fires; without a run it is time alone that lets it (semantics 5.2)."""
    reason = Reason.FIRED if steps.episode.follows is None else Reason.REOPENED
    fired = steps.become(
        state=AlertState.FIRING,
        fired_at=now,
        severity=invariant.severity.value,
        owner=invariant.owner,
        confirming=None,
    )
    marks = (_marks(run) if run is not None else ()) + ((Mark.UNCONFIRMED,) if unconfirmed else ())
    last = _run_of(run) if run is not None else steps.episode.last_run
    return fired.tell(reason, now, detail=detail, run=last, marks=marks).change(), reason.value


def _found(run: Run) -> str:
    found = f"{run.show_count()} counted" if run.complete else f"{run.show_count()} counted, then: {reason_of(run)}"
    return "; ".join([found, *_beside(run)])


def _beside(run: Run) -> list[str]:
    """What must be said next to a count: why it may speak of the text, or that keys were compared anew."""
    said = [f"suspicious: {run.suspicious}"] if run.suspicious else []
    return said + ([f"compared anew: {run.rebaselined}"] if run.rebaselined else [])


def _marks(run: Run) -> tuple[Mark, ...]:
    return (Mark.SUSPICIOUS,) if run.suspicious else ()


def _maybe_worsen(steps: Steps, run: Run, invariant: Invariant, now: datetime) -> tuple[Change, str]:
    """Owe ``worsened`` at once if the count doubled or an acknowledged alert gains a key, else gather (semantics 7.4).

    With ``confirm`` only what was counted twice is told at once; what would be told of this run alone waits (semantics 5.2).
    """
    episode, first = steps.episode, steps.episode.confirming
    if invariant.confirm is None:
        worse = _worse(steps.become(confirming=None), run, invariant, now, count=episode.count)
        return worse or (steps.become(confirming=None).change(), "still violated")
    reading = read_again(run, first, invariant) if first is not None else None
    twice = min(first.count, run.counted) if first is not None and reading is Reading.CONFIRMED else 0
    worse = _worse(steps.become(confirming=None), run, invariant, now, count=twice)
    if worse is not None:
        return worse
    if reading is Reading.CONFIRMED and not run.complete:
        # Cut short before it saw what had grown: a key in common says nothing of that.
        reading = Reading.NONE
    if reading is Reading.NONE and run.kind is not RunKind.SCHEDULED:
        return steps.change(), AWAITED
    if reading is Reading.NONE:
        return worsen_unconfirmed(steps, now).change(), "worsened: unconfirmed"
    if reading is not None:
        detail = "what had grown was not counted a second time"
        steps = steps.become(confirming=None).step("transient", now, detail=detail, run=_run_of(run))
    alone = steps.become(new_since_told=episode.new_since_told + _joined(run, invariant))
    if _worse(alone, run, invariant, now, count=episode.count) is None:
        return steps.change(), "still violated"
    return begin(steps, run, invariant, now, found=_found(run)).change(), "confirming"


def _worse(steps: Steps, run: Run, invariant: Invariant, now: datetime, *, count: int) -> tuple[Change, str] | None:
    """What is owed because it worsened, ``count`` being what is held against the last message; None if nothing is."""
    episode = steps.episode
    if episode.acknowledged_at is not None and episode.new_since_told:
        detail = f"{episode.new_since_told} joined after {episode.acknowledged_by} acknowledged"
        steps = steps.become(acknowledged_by="", acknowledged_at=None, note="")
        return steps.tell(
            Reason.WORSENED, now, detail=detail, run=_run_of(run)
        ).change(), "worsened: acknowledged rows grew"
    if episode.told_count and count >= 2 * episode.told_count:
        detail = f"from {episode.told_count} to {'' if episode.count_complete else 'at least '}{episode.count}"
        detail = "; ".join([detail, *_beside(run)])
        told = steps.tell(Reason.WORSENED, now, detail=detail, run=_run_of(run), marks=_marks(run))
        return told.change(), "worsened: doubled"
    if gathered_are_due(episode, invariant, now):
        return tell_gathered(steps, now, _run_of(run)).change(), "worsened: keys that joined"
    return None


def worsen_unconfirmed(steps: Steps, now: datetime) -> Steps:
    """Owe what a first reading found and no second one could deny (semantics 5.2)."""
    episode, first = steps.episode, steps.episode.confirming
    assert first is not None  # noqa: S101 - the caller looked
    grown = (
        f"from {episode.told_count} to {first.count}" if first.count != episode.told_count else f"{first.count} counted"
    )
    news = f", {first.new} joined" if first.new else ""
    told = steps.become(confirming=None, acknowledged_by="", acknowledged_at=None)
    return told.tell(
        Reason.WORSENED, now, detail=f"{grown}{news}; {NOT_LOOKED}", run=first.run, marks=(Mark.UNCONFIRMED,)
    )


def gathered_are_due(episode: Episode, invariant: Invariant, now: datetime) -> bool:
    """Whether keys that joined were gathered and the last message is ``worsen_every`` old."""
    if not episode.new_since_told or episode.told_at is None or episode.state is not AlertState.FIRING:
        return False
    return now - episode.told_at >= invariant.policy.worsen_every


def tell_gathered(steps: Steps, now: datetime, run: int | None) -> Steps:
    """Owe one message for all keys that joined since the last."""
    return steps.tell(
        Reason.WORSENED, now, detail=f"{steps.episode.new_since_told} joined since the last message", run=run
    )


def _held(
    run: Run, situation: Situation, invariant: Invariant, now: datetime, former: Former | None
) -> tuple[Change, str]:
    alert = situation.alert
    assert alert is not None  # noqa: S101 - the caller looked
    held = held_in_a_row(alert, situation.standing, run.definition)
    counted_before = alert.count
    steps = Steps(alert).become(
        last_run=_run_of(run), count=run.counted, count_complete=True, held_in_a_row=held, violated_in_a_row=0
    )
    # What another text no longer finds may be there still.
    redefined = alert.definition != run.definition
    if alert.state is AlertState.PENDING and alert.confirming is not None and not redefined:
        ended = steps.end(Ending.TRANSIENT, now).step("transient", now, detail=not_again(run), run=_run_of(run))
        return ended.change(), "transient"
    if alert.state is AlertState.PENDING:
        detail = "held before it had to fire"
        if redefined:
            detail = "the definition changed, and the new one held, before it had to fire"
        return steps.end(Ending.NEVER_FIRED, now).step("ended", now, detail=detail, run=_run_of(run)).change(), detail
    if held < invariant.policy.resolve_after and alert.confirming is not None:
        name, detail = ("definition changed", "the new one held") if redefined else ("transient", not_again(run))
        steps = steps.become(confirming=None).step(name, now, detail=detail, run=_run_of(run))
    if held < invariant.policy.resolve_after:
        return steps.change(), f"held in {held} of {invariant.policy.resolve_after} runs in a row"
    open_for = show_duration(now - (alert.fired_at or alert.opened_at))
    runs = "1 complete run" if held == 1 else f"{held} complete runs in a row"
    detail = f"held in {runs}; was firing for {open_for}, at most {alert.peak} counted{not_counted(run)}"
    ending, reason = Ending.RESOLVED, Reason.RESOLVED
    if redefined:
        ending, reason, changed = end_of(run, former, alert.peak if held > 1 else counted_before)
        detail = f"{detail}; {changed}" if ending is Ending.RESOLVED else changed
    return steps.end(ending, now).tell(reason, now, detail=detail, run=_run_of(run)).change(), reason.value
