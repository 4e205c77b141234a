"""an effect that lands after its caller has given up and somebody else has done the work again (semantics 9.5)"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from holdtrue.testing.parties import Party
from holdtrue.testing.plans import Schedule
from holdtrue.testing.played import Line
from holdtrue.testing.policies import AtCheckpoint, Hold
from holdtrue.testing.verdicts import Verdict


@dataclass
class Late(Hold):
    """Holds a party at a checkpoint outside the database until all others are through, and says what that means."""

    _owed: list[Line] = field(default_factory=list, init=False)
    _landed: bool = field(default=False, init=False)

    @property
    def missed(self) -> tuple[Verdict, str] | None:
        """That nothing could be late."""
        if self.arrived:
            return None
        return Verdict.NOT_REACHED, f"{self.held} never came to stand {self.point}, so no effect was late"

    def remarks(self) -> Sequence[Line]:
        """When the caller gives up, and when the effect lands."""
        owed, self._owed = self._owed, []
        return owed

    def choose(self, ready: Sequence[Party], parties: Sequence[Party]) -> Party:
        """As one that is held; what it means is said beside it."""
        before = self.arrived
        chosen = super().choose(ready, parties)
        if self.arrived and not before:
            self._owed.append(Line(self.held, "its caller gives up: TimeoutError"))
        if self.arrived and chosen.name == self.held and not self._landed:
            self._landed = True
            self._owed.append(Line(self.held, "its effect lands now"))
        return chosen


@dataclass(frozen=True, slots=True)
class LateEffect:
    """The plan of :func:`late_effect`."""

    name: str
    on_timeout: Callable[[], object] | None = None

    def schedules(self, names: Sequence[str]) -> tuple[Schedule, ...]:
        """One: the first party is late."""
        late, *others = names
        caller = f"{late}'s caller"
        point = AtCheckpoint(" ".join(self.name.split()))
        more = {} if self.on_timeout is None else {caller: self.on_timeout}
        whole = ", then ".join([*more, *others])
        return (
            Schedule(
                "late",
                f"{late} is held {point}, its caller gives up, {whole} whole, then {late}'s effect lands",
                Late(late, point, (*more, *others)),
                more,
            ),
        )


def late_effect(name: str, *, on_timeout: Callable[[], object] | None = None) -> LateEffect:
    """A is held at ``checkpoint(name)``, its caller gives up and hears of a timeout, B runs whole, A's effect lands.

    A is the call that was slow, B the call that was made instead. ``on_timeout`` is what A's caller does when it hears of the
    timeout, before B: mark the order as failed, say. For ``race(hold=…)`` and ``INCIDENT.check(also=…)``.
    """
    return LateEffect(name, on_timeout)
