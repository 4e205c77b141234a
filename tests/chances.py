"""Histories drawn by chance, of runs, time, people and silences, played on an alert: what properties are held against."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from holdtrue.alerting import acknowledge, decide, lift, review, unacknowledge
from holdtrue.errors import Refused
from holdtrue.model import (
    Change,
    Decision,
    Episode,
    Event,
    Failure,
    FailureReason,
    Interval,
    Invariant,
    Outcome,
    Policy,
    Position,
    Reason,
    Run,
    RunKind,
    Situation,
    Standing,
    Telling,
)

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
LOST = Failure(FailureReason.LOST, "the replica went away")


STATE_ITSELF = (Reason.FIRED, Reason.REOPENED, Reason.WORSENED, Reason.UNCHECKED)


@dataclass(frozen=True)
class Step:
    """One thing that happens: a run, a person's act, or a look at the clock, ``minutes`` after the last."""

    minutes: int
    outcome: Outcome | None
    counted: int
    new: int
    complete: bool
    definition: str
    kind: RunKind
    act: str = ""
    rejoined: int = 0


policies = st.builds(
    Policy,
    fire_after=st.integers(1, 3),
    resolve_after=st.integers(1, 3),
    remind_every=st.sampled_from([None, timedelta(hours=2)]),
    worsen_every=st.sampled_from([timedelta(minutes=30), timedelta(hours=1)]),
)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    outcome = draw(st.sampled_from([None, None, *Outcome, Outcome.VIOLATED, Outcome.HELD]))
    violated = outcome is Outcome.VIOLATED
    counted = draw(st.integers(1, 9)) if violated else 0
    new = draw(st.integers(0, counted))
    return Step(
        minutes=draw(st.sampled_from([1, 15, 15, 40, 200])),
        outcome=outcome,
        counted=counted,
        new=new,
        complete=not violated or draw(st.booleans()),
        definition=draw(st.sampled_from(["d1", "d1", "d2"])),
        kind=draw(st.sampled_from([RunKind.SCHEDULED, RunKind.SCHEDULED, RunKind.ASKED])),
        act=draw(st.sampled_from(["", "ack", "ack", "unack"])) if outcome is None else "",
        rejoined=draw(st.integers(0, counted - new)),
    )


histories = st.lists(steps(), max_size=14)
windows = st.lists(st.tuples(st.integers(0, 600), st.integers(1, 600)), max_size=3)
"""Silences, by the minute they begin at and how many they last."""


@dataclass(frozen=True)
class Moment:
    """One step, with what was there before and what was decided."""

    step: Step
    run: Run | None
    before: Situation
    decision: Decision | None
    after: Situation
    now: datetime
    events: tuple[Event, ...]


def rule(policy: Policy, definition: str) -> Invariant:
    return Invariant(
        "gate_open", "SELECT 1", ("payments",), Interval(timedelta(minutes=15)), definition, key=("id",), policy=policy
    )


def applied(situation: Situation, decision: Decision, opened: int) -> Situation:
    """What the store makes of a decision."""
    one = replace(situation, standing=decision.standing)
    for change in decision.changes:
        episode = change.episode if change.episode.id else replace(change.episode, id=opened + 1)
        place = "alert" if episode.subject == "violation" else "unchecked"
        one = replace(one, **{place: episode if episode.open else None})  # type: ignore[arg-type]
        if not episode.open and place == "alert":
            one = replace(one, previous=episode)
    return one


def acted(situation: Situation, act: str, now: datetime) -> Decision | None:
    """What a person does, if it can be done."""
    alert = situation.alert or situation.unchecked
    if not act or alert is None:
        return None
    try:
        change = acknowledge(alert, "alice", "", now) if act == "ack" else unacknowledge(alert, "bob", now)
    except Refused:
        return None
    return Decision(situation.standing, (change,))


@dataclass
class Silences:
    """Silences, and what the store makes of the messages of every episode under them."""

    windows: list[tuple[datetime, datetime]]
    tellings: dict[int, list[Telling]] = field(default_factory=dict)
    sent: list[tuple[int, int]] = field(default_factory=list)
    episodes: dict[int, Episode] = field(default_factory=dict)

    def quiet(self, now: datetime) -> bool:
        return any(start <= now < end for start, end in self.windows)

    def owe(self, episode: Episode, change: Change, now: datetime) -> None:
        self.episodes[episode.id] = episode
        for event in change.events:
            if event.reason is not None:
                withheld = self.quiet(now)
                self.tellings.setdefault(episode.id, []).append(Telling(event.number, event.reason, withheld))
                self.sent += [] if withheld else [(episode.id, event.number)]

    def lift(self, episode: Episode, now: datetime) -> Change | None:
        """What the watch does with what ended silences withheld."""
        lifted = lift(episode, self.tellings.get(episode.id, ()), now, now)
        for number in lifted.send:
            self.sent.append((episode.id, number))
            mine = self.tellings[episode.id]
            mine[:] = [replace(one, withheld=False) if one.number == number else one for one in mine]
        return lifted.change


def silences_of(given: list[tuple[int, int]]) -> Silences:
    minute = timedelta(minutes=1)
    return Silences([(START + start * minute, START + (start + length) * minute) for start, length in given])


def play(
    history: list[Step],
    policy: Policy,
    silences: Silences | None = None,
    *,
    situation: Situation | None = None,
    now: datetime = START,
) -> Iterator[Moment]:
    situation = situation or Situation(Standing("gate_open", "payments", since=START))
    silences = silences or Silences([])
    opened = situation.previous.id if situation.previous else 0
    for number, step in enumerate(history):
        now += timedelta(minutes=step.minutes)
        invariant = rule(policy, step.definition)
        run: Run | None = None
        if step.outcome is None:
            decision = acted(situation, step.act, now) or review(situation, invariant, now)
        else:
            run = Run(
                "gate_open",
                "payments",
                step.definition,
                now,
                now,
                step.outcome,
                kind=step.kind,
                id=number + 1,
                counted=step.counted,
                new=step.new,
                rejoined=step.rejoined,
                complete=step.complete,
                failure=LOST if step.outcome is Outcome.ERRORED or not step.complete else None,
                position=Position("r1", now, freshness_proven=True),
            )
            decision = decide(run, situation, invariant, now)
        after, events = situation, ()
        if decision is not None:
            after = applied(situation, decision, opened)
            events = tuple(event for change in decision.changes for event in change.events)
            for change in decision.changes:
                episode = change.episode if change.episode.id else replace(change.episode, id=opened + 1)
                silences.owe(episode, change, now)
            opened += sum(not change.episode.id for change in decision.changes)
        yield Moment(step, run, situation, decision, after, now, events)
        if step.outcome is None and not silences.quiet(now):
            for episode in tuple(silences.episodes.values()):
                change = silences.lift(episode, now)
                if change is not None:
                    silences.owe(change.episode, change, now)
                    after = applied(after, Decision(after.standing, (change,)), opened)
        situation = after
