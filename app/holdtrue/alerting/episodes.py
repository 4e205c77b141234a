"""steps of an episode: each is a numbered event, and what owes a message says so"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from holdtrue.model import AlertState, Change, Ending, Episode, Event, Mark, Reason


@dataclass(frozen=True, slots=True)
class Steps:
    """An episode on its way through one decision, with the events it gained."""

    episode: Episode
    events: tuple[Event, ...] = ()

    def become(self, **fields: Any) -> Steps:  # noqa: ANN401 - dataclasses.replace checks the names
        """The same steps with the episode's fields replaced."""
        return Steps(replace(self.episode, **fields), self.events)

    def step(self, name: str, now: datetime, *, detail: str = "", run: int | None = None) -> Steps:
        """A silent step: it is in the timeline and owes nobody a message."""
        return self._add(name, None, now, detail, run=run)

    def tell(
        self, reason: Reason, now: datetime, *, detail: str = "", run: int | None = None, marks: tuple[Mark, ...] = ()
    ) -> Steps:
        """A step that owes a message; what people are told of is counted from here again."""
        told = self.become(told_count=self.episode.count, told_at=now, new_since_told=0)
        # What people hear it called stays, though the invariant is renamed (semantics 7.6).
        told = told.become(fired_as=self.episode.fired_as or self.episode.invariant)
        return told._add(reason.value, reason, now, detail, run=run, marks=marks)

    def end(self, ending: Ending, now: datetime) -> Steps:
        """The episode is over."""
        return self.become(state=AlertState.RESOLVED, ended_at=now, ending=ending, confirming=None)

    def change(self) -> Change:
        """What a decision carries."""
        return Change(self.episode, self.events)

    def _add(
        self,
        name: str,
        reason: Reason | None,
        now: datetime,
        detail: str,
        *,
        run: int | None,
        marks: tuple[Mark, ...] = (),
    ) -> Steps:
        number = self.episode.events + 1
        first_look = self.episode.at_first_look and reason is Reason.FIRED
        event = Event(
            number=number,
            name=name,
            at=now,
            reason=reason,
            marks=(Mark.AT_FIRST_LOOK, *marks) if first_look else marks,
            count=self.episode.count,
            detail=detail,
            run=run,
            episode=self.episode.id,
        )
        return Steps(replace(self.episode, events=number), (*self.events, event))
