"""decides when the canary is broken and mended, and what its rounds prove of each notifier"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from holdtrue.alerting.health import is_fresh, show_age
from holdtrue.model import (
    Canary,
    Episode,
    Invariant,
    Message,
    MessageState,
    Outcome,
    Proof,
    Round,
    Standing,
    show_duration,
)


class Turn(StrEnum):
    """What is done about the canary now."""

    NOTHING = "nothing"
    BREAK = "break"
    MEND = "mend"
    END = "end"


class WhyTurn(StrEnum):
    """Why."""

    DUE = "the next round is due"
    UNPROVEN = "a notifier waits for its first proof"
    NOT_YET = "the next round is not due"
    NOT_IN_FORCE = "another catalog is in force"
    NOT_HOLDING = "nobody has just seen it hold"
    FIRED = "its beginning was sent, or failed for good"
    FIRING = "its beginning is being told"
    UNTOLD = "its beginning was not told in time"
    OVER = "its end was sent, or failed for good"
    ENDING = "its end is being told"
    UNENDED = "its end was not told in time"


@dataclass(frozen=True, slots=True)
class Turned:
    """What is done, and the named reason; ``asked``: its rule is asked at once then, and not by its schedule."""

    turn: Turn
    why: WhyTurn
    asked: bool = False


@dataclass(frozen=True, slots=True)
class CanaryState:
    """What a turn is decided on; ``standing`` is None while the store does not know the canary.

    ``episode`` is its newest one, with the messages that were owed for it; ``proofs`` are the notifiers'.
    """

    round: Round | None = None
    standing: Standing | None = None
    episode: Episode | None = None
    messages: Sequence[Message] = ()
    proofs: Sequence[Proof] = ()


def turn(state: CanaryState, config: Canary, invariant: Invariant, now: datetime) -> Turned:
    """Whether the canary is broken, mended, or its round is over, now (semantics 7.7).

    A round waits for everybody who is to be told, but never for long: a notifier that cannot deliver keeps no other from its
    proof. It begins only after a run has seen the last one mended. Where a notifier waits for its first proof the schedule is
    not waited for, at most once in a round's patience: a notifier that is declared anew all the time must not flood people.
    """
    last = state.round
    if last is None or last.ended_at is not None:
        return _begin(state, config, invariant, now)
    episode = _of(last, state.episode)
    pending = [one for one in state.messages if one.state is MessageState.PENDING] if episode is not None else []
    if last.mended_at is None:
        asked = bool(_unproven(state, config))
        if episode is not None and episode.fired_at is not None and not pending:
            return Turned(Turn.MEND, WhyTurn.FIRED, asked)
        late = _is_past(last.begun_at, config.patience, now)
        return Turned(Turn.MEND, WhyTurn.UNTOLD, asked) if late else Turned(Turn.NOTHING, WhyTurn.FIRING)
    if episode is not None and not episode.open and not pending:
        return Turned(Turn.END, WhyTurn.OVER)
    late = _is_past(last.mended_at, config.patience, now)
    return Turned(Turn.END, WhyTurn.UNENDED) if late else Turned(Turn.NOTHING, WhyTurn.ENDING)


def _begin(state: CanaryState, config: Canary, invariant: Invariant, now: datetime) -> Turned:
    last, standing = state.round, state.standing
    waits = _unproven(state, config)
    if last is None or _is_past(last.begun_at, config.every, now):
        why = WhyTurn.DUE
    elif any(one.since > last.begun_at for one in waits):
        why = WhyTurn.UNPROVEN
    else:
        return Turned(Turn.NOTHING, WhyTurn.NOT_YET)
    held = (
        standing is not None
        and standing.good_outcome is Outcome.HELD
        and standing.good_at is not None
        and is_fresh(standing.good_at, invariant, now)
        and (last is None or last.mended_at is None or standing.good_at > last.mended_at)
    )
    if not held or (state.episode is not None and state.episode.open):
        return Turned(Turn.NOTHING, WhyTurn.NOT_HOLDING)
    asked = bool(waits) and (last is None or _is_past(last.begun_at, config.patience, now))
    return Turned(Turn.BREAK, why, asked)


def _unproven(state: CanaryState, config: Canary) -> list[Proof]:
    """What is known of those that wait for their first proof."""
    known = {one.notifier: one for one in state.proofs}
    return [one for one in map(known.get, config.notify) if one is not None and one.proven_at is None]


def _of(last: Round, episode: Episode | None) -> Episode | None:
    """The episode, if it is this round's."""
    return episode if episode is not None and episode.opened_at >= last.begun_at else None


def _is_past(since: datetime, length: timedelta, now: datetime) -> bool:
    # A moment that lies ahead was written before the clock was set back.
    return not timedelta(0) <= now - since < length


class WhyProven(StrEnum):
    """How it stands with the proof of one notifier."""

    PROVEN = "proven"
    TOO_OLD = "too long ago"
    WAITING = "not proven yet"
    NEVER = "never proven"


@dataclass(frozen=True, slots=True)
class Proven:
    """One notifier's last proof, judged, in words for people; only ``proven`` is good news."""

    notifier: str
    why: WhyProven
    sentence: str
    proven_at: datetime | None = None
    since: datetime | None = None
    alert: int | None = None
    problem: str = ""

    @property
    def well(self) -> bool:
        """Whether its last proof is young enough."""
        return self.why is WhyProven.PROVEN


def last_proven(config: Canary, proofs: Sequence[Proof], now: datetime) -> tuple[Proven, ...]:
    """How it stands with each notifier that the canary is to prove; one that nothing is known of is not proven."""
    known: Mapping[str, Proof] = {one.notifier: one for one in proofs}
    return tuple(_judged(known.get(name) or Proof(name, now), config, now) for name in config.notify)


def _judged(proof: Proof, config: Canary, now: datetime) -> Proven:
    at, lasts = proof.proven_at, config.proof_lasts
    if at is not None:
        young = -timedelta(minutes=1) <= now - at <= lasts
        why = WhyProven.PROVEN if young else WhyProven.TOO_OLD
        sentence = f"last proven {show_age(at, now)}"
    else:
        why = WhyProven.WAITING if timedelta(0) <= now - proof.since <= lasts else WhyProven.NEVER
        sentence = why.value
        if why is WhyProven.NEVER:
            sentence += f", declared {show_age(proof.since, now)}"
    if why is not WhyProven.PROVEN:
        sentence += f" (due every {show_duration(config.every)})"
        if proof.problem:
            sentence += f": {proof.problem}"
    return Proven(proof.notifier, why, sentence, at, proof.since, proof.alert, proof.problem)
