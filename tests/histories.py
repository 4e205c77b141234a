"""Plays runs and time on an alert, as the store would keep it: what the stories about alerting are told with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from holdtrue.alerting import decide, review
from holdtrue.model import (
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
    Severity,
    Situation,
    Standing,
)

START = datetime(2026, 11, 29, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
LOST = Failure(FailureReason.LOST, "the replica went away")


def invariant(
    *, key: Sequence[str] = ("id",), definition: str = "d1", every: timedelta = 15 * MINUTE, **policy: object
) -> Invariant:
    return Invariant(
        name="gate_open",
        sql="SELECT id FROM gate",
        databases=("payments",),
        schedule=Interval(every),
        definition=definition,
        key=tuple(key),
        owner="payments-oncall",
        severity=Severity.CRITICAL,
        policy=Policy(**policy),  # type: ignore[arg-type]
    )


class History:
    """Plays runs and time on an alert as the store would keep it."""

    def __init__(self, **policy: object) -> None:
        self.rule = invariant(**policy)  # type: ignore[arg-type]
        self.now = START
        self.situation = Situation(Standing("gate_open", "payments", since=START))
        self.episodes: dict[int, Episode] = {}
        self.events: list[Event] = []
        self.runs = 0

    def run(self, outcome: Outcome, counted: int = 0, *, after: timedelta = 15 * MINUTE, **of: object) -> Decision:
        self.now += after
        self.runs += 1
        failure = LOST if outcome is Outcome.ERRORED else None
        made = Run(
            "gate_open",
            "payments",
            self.rule.definition,
            self.now,
            self.now,
            outcome,
            id=self.runs,
            counted=counted,
            failure=failure,
            position=Position("r1", self.now, freshness_proven=True),
        )
        former = of.pop("former", None)
        made = replace(made, **of)  # type: ignore[arg-type]
        decision = decide(made, self.situation, self.rule, self.now, former=former)  # type: ignore[arg-type]
        self.take(decision)
        return decision

    def violated(self, counted: int = 1, **of: object) -> Decision:
        return self.run(Outcome.VIOLATED, counted, **of)  # type: ignore[arg-type]

    def held(self, **of: object) -> Decision:
        return self.run(Outcome.HELD, **of)  # type: ignore[arg-type]

    def errored(self, **of: object) -> Decision:
        return self.run(Outcome.ERRORED, **of)  # type: ignore[arg-type]

    def wait(self, how_long: timedelta) -> Decision | None:
        self.now += how_long
        decision = review(self.situation, self.rule, self.now)
        if decision is not None:
            self.take(decision)
        return decision

    def take(self, decision: Decision) -> None:
        one = replace(self.situation, standing=decision.standing)
        for change in decision.changes:
            episode = change.episode
            if not episode.id:
                episode = replace(episode, id=len(self.episodes) + 1)
            before = self.episodes.get(episode.id)
            numbers = [event.number for event in change.events]
            first = (before.events if before else 0) + 1
            assert numbers == list(range(first, first + len(numbers)))
            assert episode.events == first + len(numbers) - 1
            self.episodes[episode.id] = episode
            self.events += [replace(event, episode=episode.id) for event in change.events]
            place = "alert" if episode.subject == "violation" else "unchecked"
            if episode.open:
                one = replace(one, **{place: episode})
            else:
                one = replace(one, **{place: None})
                if place == "alert":
                    one = replace(one, previous=episode)
        self.situation = one

    @property
    def told(self) -> list[Reason]:
        return [event.reason for event in self.events if event.reason is not None]

    @property
    def alert(self) -> Episode:
        assert self.situation.alert is not None
        return self.situation.alert
