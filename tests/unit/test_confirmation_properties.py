"""What no history may do where a second reading is wanted (semantics 5.2, 7.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from holdtrue.alerting import decide, review
from holdtrue.model import (
    AlertState,
    Decision,
    Ending,
    Event,
    Failure,
    FailureReason,
    Interval,
    Invariant,
    Mark,
    Outcome,
    Policy,
    Position,
    Reason,
    Run,
    RunKind,
    Situation,
    Standing,
)

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
EVERY = timedelta(minutes=15)
CONFIRM = timedelta(seconds=30)
TIMEOUT = timedelta(seconds=10)
BEGINS = frozenset({Reason.FIRED, Reason.REOPENED})
LOST = Failure(FailureReason.LOST, "the replica went away")


@dataclass(frozen=True)
class Step:
    """What a run would find, or (None) that it cannot look; and whether somebody asks in between."""

    keys: frozenset[str] | None
    complete: bool = True
    asked: bool = False
    lost: bool = False


steps = st.builds(
    Step,
    keys=st.one_of(st.none(), st.frozensets(st.sampled_from("abcd"), max_size=3)),
    complete=st.sampled_from([True, True, True, False]),
    asked=st.sampled_from([False, False, False, True]),
    lost=st.sampled_from([False, False, False, True]),
)
histories = st.lists(steps, min_size=1, max_size=14)
policies = st.builds(Policy, fire_after=st.integers(1, 2), resolve_after=st.integers(1, 2))


@dataclass(frozen=True)
class Moment:
    """One run, or a look at the clock, and what it meant."""

    run: Run | None
    keys: frozenset[str] | None
    before: Situation
    after: Situation
    decision: Decision | None
    events: tuple[Event, ...]
    now: datetime


class World:
    """A schedule with one extra place, a ledger, and the watch: what the store and the scheduler do, in small."""

    def __init__(self, policy: Policy) -> None:
        self.rule = Invariant(
            "gate_open",
            "SELECT 1",
            ("payments",),
            Interval(EVERY),
            "d1",
            key=("id",),
            policy=policy,
            confirm=CONFIRM,
            timeout=TIMEOUT,
        )
        self.situation = Situation(Standing("gate_open", "payments", since=START))
        self.now = START
        self.opened = self.made = 0
        self.last: frozenset[str] = frozenset()
        self.new: frozenset[str] = frozenset()

    def play(self, history: list[Step]) -> Iterator[Moment]:
        """Scheduled runs a quarter of an hour apart; a confirming one where one is wanted and the step does not lose it."""
        begun = START
        for step in history:
            begun += EVERY
            while self.now + timedelta(seconds=90) < begun:
                self.now += timedelta(seconds=90)
                yield self.watch()
            self.now = begun
            yield self.run(step, RunKind.ASKED if step.asked else RunKind.SCHEDULED)
            moment = self.wanted
            if moment is not None and not step.lost and moment < begun + EVERY:
                self.now = moment
                other = history[(self.made * 7) % len(history)]
                yield self.run(other, RunKind.CONFIRMING)

    def run(self, step: Step, kind: RunKind) -> Moment:
        self.made += 1
        keys, complete = step.keys, step.complete
        if keys is None:
            outcome = Outcome.ERRORED
        else:
            outcome = Outcome.VIOLATED if keys else Outcome.HELD
            complete = complete or not keys
        found = keys or frozenset()
        again, again_new, new = found & self.last, found & self.new, found - self.last
        run = Run(
            "gate_open",
            "payments",
            "d1",
            self.now,
            self.now,
            outcome,
            kind=kind,
            id=self.made,
            counted=len(found),
            new=len(new),
            complete=complete,
            failure=LOST if keys is None or not complete else None,
            position=Position("r1", self.now, freshness_proven=True),
            again=len(again) if keys is not None else None,
            again_new=len(again_new),
        )
        before = self.situation
        decision = decide(run, before, self.rule, self.now)
        if keys is not None:
            self.new = (self.new - found if not complete else frozenset()) | new
            self.last = found if complete else self.last | found
        self.wanted = decision.confirm.due_at if decision.confirm is not None else None
        return self.take(run, keys, before, decision)

    def watch(self) -> Moment:
        before = self.situation
        return self.take(None, None, before, review(before, self.rule, self.now))

    def take(
        self, run: Run | None, keys: frozenset[str] | None, before: Situation, decision: Decision | None
    ) -> Moment:
        one, events = before, ()
        if decision is not None:
            one = replace(one, standing=decision.standing)
            for change in decision.changes:
                episode = change.episode if change.episode.id else replace(change.episode, id=self.opened + 1)
                self.opened = max(self.opened, episode.id)
                place = "alert" if episode.subject == "violation" else "unchecked"
                one = replace(one, **{place: episode if episode.open else None})  # type: ignore[arg-type]
                if not episode.open and place == "alert":
                    one = replace(one, previous=episode)
                events += tuple(event for event in change.events if episode.subject == "violation")
        self.situation = one
        return Moment(run, keys, before, one, decision, events, self.now)


def told(moment: Moment) -> list[Event]:
    return [event for event in moment.events if event.reason is not None]


@given(histories, policies)
def test_a_run_that_could_not_look_changes_no_alert_field(history: list[Step], policy: Policy) -> None:
    """Semantics 7.2, 5.2: no confirming run either."""
    for moment in World(policy).play(history):
        if moment.run is not None and not moment.run.good:
            assert moment.after.alert == moment.before.alert
            assert moment.events == ()


@settings(max_examples=300)
@given(histories, policies)
def test_not_looking_is_not_denying(history: list[Step], policy: Policy) -> None:
    """Semantics 5.2: a first reading is told, denied by a good run that saw all rows, or still waits within its time."""
    for moment in World(policy).play(history):
        first = moment.before.alert.confirming if moment.before.alert is not None else None
        if first is None:
            continue
        after = moment.after.alert
        if after is not None and after.confirming == first:
            assert moment.now < first.until or moment.run is not None
            continue
        if told(moment):
            continue
        assert moment.run is not None
        assert moment.run.good
        assert moment.run.complete
        assert moment.run.again == 0 or moment.before.alert.state is AlertState.FIRING  # type: ignore[union-attr]


@given(histories, policies)
def test_nobody_is_told_of_a_beginning_that_was_seen_once_unless_it_says_so(
    history: list[Step], policy: Policy
) -> None:
    """Semantics 5.2: keys counted in both runs, or the mark."""
    for moment in World(policy).play(history):
        for event in told(moment):
            if event.reason not in BEGINS or Mark.UNCONFIRMED in event.marks:
                continue
            assert moment.run is not None
            assert moment.before.alert is not None
            assert moment.before.alert.confirming is not None
            assert moment.run.again


@given(histories, policies)
def test_an_episode_begins_for_people_once_and_ends_once_if_they_heard_of_it(
    history: list[Step], policy: Policy
) -> None:
    """Semantics 5.2, 7.3: no message twice for one event; what was transient is never told."""
    heard: dict[int, list[Reason]] = {}
    for moment in World(policy).play(history):
        episode = moment.after.alert or moment.after.previous
        for event in told(moment):
            assert episode is not None
            heard.setdefault(episode.id, []).append(event.reason)  # type: ignore[arg-type]
        ended = moment.after.previous
        if ended is not None and ended.ending in (Ending.TRANSIENT, Ending.NEVER_FIRED):
            assert ended.id not in heard
    for reasons in heard.values():
        assert reasons[0] in BEGINS
        assert sum(reason in BEGINS for reason in reasons) == 1
        assert reasons.count(Reason.RESOLVED) <= 1
        assert Reason.RESOLVED not in reasons[:-1]


@given(histories, policies)
def test_a_confirming_run_never_wants_another(history: list[Step], policy: Policy) -> None:
    """Semantics 5.2: executed once; a database is not asked without end because its rows change."""
    for moment in World(policy).play(history):
        if moment.run is not None and moment.run.kind is RunKind.CONFIRMING:
            assert moment.decision is not None
            assert moment.decision.confirm is None


@given(histories, policies)
def test_resolving_is_never_confirmed(history: list[Step], policy: Policy) -> None:
    """Semantics 5.2, 7.2: it takes exactly the wanted complete runs that held, of whatever kind."""
    row = 0
    for moment in World(policy).play(history):
        run = moment.run
        if run is None or not run.good:
            continue
        row = row + 1 if run.outcome is Outcome.HELD else 0
        before = moment.before.alert
        if before is not None and before.state is AlertState.FIRING:
            assert (moment.after.alert is None) == (row >= policy.resolve_after)
        if before is None:
            row = 0


@given(histories, policies)
def test_fire_after_counts_scheduled_runs_and_no_other(history: list[Step], policy: Policy) -> None:
    """Semantics 5.2."""
    for moment in World(policy).play(history):
        before, after = moment.before.alert, moment.after.alert
        if moment.run is not None and moment.run.outcome is Outcome.VIOLATED and after is not None:
            was = before.violated_in_a_row if before is not None else 0
            assert after.violated_in_a_row == was + (moment.run.kind is RunKind.SCHEDULED)
