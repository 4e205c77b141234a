"""decides what a run means for its alert and its health"""

from __future__ import annotations

from datetime import datetime

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
        return Decision(standing, why=f"could not look: {reason_of(run)}")
    changes: list[Change] = []
    if situation.unchecked is not None and standing.health is Health.OK:
        changes.append(_recover(situation.unchecked, run, now))
    if run.outcome is Outcome.VIOLATED:
        change, why = _violated(run, situation, invariant, now)
        changes.append(change)
    elif situation.alert is None:
        why = "holds"
    elif not run.complete:
        # Nothing makes such a run today; if something ever does, it has not seen that the rows are gone.
        why = "held, but not to the end: takes nothing back"
    else:
        change, why = _held(run, situation, invariant, now, former)
        changes.append(change)
    return Decision(standing, tuple(changes), why)


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
        steps = steps.become(definition=run.definition).step("definition changed", now, detail=detail, run=_run_of(run))
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
    identified = bool(invariant.key) and invariant.returns is Returns.ROWS
    return steps.become(
        last_run=_run_of(run),
        count=count,
        count_complete=episode.count_complete if lower else run.complete,
        peak=max(episode.peak, count),
        held_in_a_row=0,
        violated_in_a_row=episode.violated_in_a_row + (run.kind is RunKind.SCHEDULED),
        new_since_told=episode.new_since_told + (run.new if identified else 0),
    )


def _maybe_fire(steps: Steps, run: Run, invariant: Invariant, now: datetime) -> tuple[Change, str]:
    episode, wanted = steps.episode, invariant.policy.fire_after
    # A run that somebody asked for does not stand for a scheduled one, unless one is all that it takes.
    if episode.violated_in_a_row < wanted and wanted > 1:
        if episode.events == 0:
            detail = f"{episode.violated_in_a_row} of {wanted} runs"
            steps = steps.step("opened", now, detail=detail, run=_run_of(run))
        return steps.change(), f"violated in {episode.violated_in_a_row} of {wanted} runs in a row"
    reason = Reason.FIRED if episode.follows is None else Reason.REOPENED
    fired = steps.become(
        state=AlertState.FIRING, fired_at=now, severity=invariant.severity.value, owner=invariant.owner
    )
    told = fired.tell(reason, now, detail=_found(run), run=_run_of(run), marks=_marks(run))
    return told.change(), reason.value


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
    """Owe ``worsened`` at once if the count doubled or an acknowledged alert gains a key, else gather (semantics 7.4)."""
    episode = steps.episode
    if episode.acknowledged_at is not None and episode.new_since_told:
        detail = f"{episode.new_since_told} new after {episode.acknowledged_by} acknowledged"
        steps = steps.become(acknowledged_by="", acknowledged_at=None)
        return steps.tell(
            Reason.WORSENED, now, detail=detail, run=_run_of(run)
        ).change(), "worsened: acknowledged rows grew"
    if episode.told_count and episode.count >= 2 * episode.told_count:
        detail = f"from {episode.told_count} to {'' if episode.count_complete else 'at least '}{episode.count}"
        detail = "; ".join([detail, *_beside(run)])
        told = steps.tell(Reason.WORSENED, now, detail=detail, run=_run_of(run), marks=_marks(run))
        return told.change(), "worsened: doubled"
    if gathered_are_due(episode, invariant, now):
        return tell_gathered(steps, now, _run_of(run)).change(), "worsened: new keys"
    return steps.change(), "still violated"


def gathered_are_due(episode: Episode, invariant: Invariant, now: datetime) -> bool:
    """Whether new keys were gathered and the last message is ``worsen_every`` old."""
    if not episode.new_since_told or episode.told_at is None or episode.state is not AlertState.FIRING:
        return False
    return now - episode.told_at >= invariant.policy.worsen_every


def tell_gathered(steps: Steps, now: datetime, run: int | None) -> Steps:
    """Owe one message for all new keys since the last."""
    return steps.tell(
        Reason.WORSENED, now, detail=f"{steps.episode.new_since_told} new since the last message", run=run
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
    if alert.state is AlertState.PENDING:
        detail = "held before it had to fire"
        return steps.end(Ending.NEVER_FIRED, now).step("ended", now, detail=detail, run=_run_of(run)).change(), detail
    if held < invariant.policy.resolve_after:
        return steps.change(), f"held in {held} of {invariant.policy.resolve_after} runs in a row"
    open_for = show_duration(now - (alert.fired_at or alert.opened_at))
    runs = "1 complete run" if held == 1 else f"{held} complete runs in a row"
    detail = f"held in {runs}; was firing for {open_for}, at most {alert.peak} counted{_not_counted(run)}"
    ending, reason = Ending.RESOLVED, Reason.RESOLVED
    if alert.definition != run.definition:
        ending, reason, changed = end_of(run, former, alert.peak if held > 1 else counted_before)
        detail = f"{detail}; {changed}" if ending is Ending.RESOLVED else changed
    return steps.end(ending, now).tell(reason, now, detail=detail, run=_run_of(run)).change(), reason.value


def _not_counted(run: Run) -> str:
    """Rows that are there and do not count are no fix, and must not look like one."""
    beside = [f"{count} {word}" for count, word in ((run.settling, "settling"), (run.waived, "waived")) if count]
    return f"; still returned: {', '.join(beside)}" if beside else ""
