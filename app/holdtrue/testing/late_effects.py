"""an effect that lands after its caller has given up and somebody else has done the work again (semantics 9.5)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdtrue.errors import Refused
from holdtrue.testing.parties import Party
from holdtrue.testing.plans import Schedule
from holdtrue.testing.played import Line
from holdtrue.testing.policies import AtCheckpoint, named, next_of
from holdtrue.testing.verdicts import Verdict


@dataclass
class Late:
    """Leads ``caller`` to a checkpoint, lets the others run whole in ``order``, and then ``lands``: it, or its effect.

    Where its effect is another party, the caller hears of the timeout at the checkpoint and goes on, before all others.
    """

    caller: str
    point: AtCheckpoint
    order: tuple[str, ...]
    lands: str
    arrived: bool = field(default=False, init=False)
    _landed: bool = field(default=False, init=False)
    _owed: list[Line] = field(default_factory=list, init=False)

    @property
    def reached(self) -> bool:
        """Whether the caller came to the checkpoint."""
        return self.arrived

    @property
    def missed(self) -> tuple[Verdict, str] | None:
        """That nothing could be late."""
        if self.arrived:
            return None
        return Verdict.NOT_REACHED, f"{self.caller} never came to stand {self.point}, so no effect was late"

    def remarks(self) -> Sequence[Line]:
        """When the caller gives up, and when the effect lands."""
        owed, self._owed = self._owed, []
        return owed

    def choose(self, ready: Sequence[Party], parties: Sequence[Party]) -> Party:
        """The caller until it stands at the checkpoint; then the first of the others that can move; what is late last."""
        caller = named(parties, self.caller)
        if not self.arrived and caller in ready:
            if not self.point.reached(caller):
                return caller
            self.arrived = True
            self._owed.append(Line(self.caller, "its caller gives up: TimeoutError"))
            if self.lands != self.caller:
                caller.hears = TimeoutError(f"{self.point.name} took too long")
        chosen = next_of(self.order, ready, parties)
        if chosen.name == self.lands and self.arrived and not self._landed:
            self._landed = True
            self._owed.append(Line(self.caller, "its effect lands now"))
        return chosen


@dataclass(frozen=True, slots=True)
class LateEffect:
    """The plan of :func:`late_effect`."""

    name: str
    on_timeout: Callable[[], object] | None = None
    effect: Callable[[], object] | None = None

    def schedules(self, names: Sequence[str]) -> tuple[Schedule, ...]:
        """One: the first party is late."""
        late, *others = names
        point = AtCheckpoint(" ".join(self.name.split()))
        held = f"{late} is held {point}, its caller gives up"
        lands = f"then {late}'s effect lands"
        if self.effect is not None:
            policy = Late(late, point, (late, *others), f"{late}'s effect")
            words = f"{held} and goes on, {', then '.join(others)} whole, {lands}"
            return (Schedule("late", words, policy, {policy.lands: _if_late(policy, self.effect)}),)
        more = {f"{late}'s caller": self.on_timeout} if self.on_timeout is not None else {}
        policy = Late(late, point, (*more, *others), late)
        more = {name: _if_late(policy, work) for name, work in more.items()}
        return (Schedule("late", f"{held}, {', then '.join(policy.order)} whole, {lands}", policy, more),)


def _if_late(policy: Late, work: Callable[[], object]) -> Callable[[], object]:
    """What only happens where somebody gave up: else the rule would be broken by what the code never did."""
    return lambda: work() if policy.arrived else None


def late_effect(
    name: str, *, on_timeout: Callable[[], object] | None = None, effect: Callable[[], object] | None = None
) -> LateEffect:
    """A is held at ``checkpoint(name)``, its caller gives up and hears of a timeout, B runs whole, A's effect lands.

    A is the call that was slow, B the call that was made instead; ``on_timeout`` is what A's caller does about it, before B:
    mark the order as failed, say. Where A is the caller itself, pass as ``effect`` what the other side does in the end: A hears
    a ``TimeoutError`` at the checkpoint and goes on, B runs whole, and then ``effect`` does. For ``race(hold=…)`` and
    ``INCIDENT.check(also=…)``.

    Raises:
        Refused: both are given.
    """
    if on_timeout is not None and effect is not None:
        raise Refused(
            "late_effect(…) takes on_timeout or effect, not both",
            remedy="with effect=, A itself hears of the timeout and does what it does about it",
        )
    return LateEffect(name, on_timeout, effect)
