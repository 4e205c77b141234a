"""what a schedule that was played showed, and what all of them came to"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from holdtrue.testing import pools, replay
from holdtrue.testing.costs import Costs
from holdtrue.testing.failures import kind_of
from holdtrue.testing.plans import Schedule
from holdtrue.testing.played import Line, Played
from holdtrue.testing.repetition import LONGEST, TIMES
from holdtrue.testing.verdicts import BarrierFailed, How, Verdict

_LISTED = 6


_REMEMBERS = (
    "something in the process, a cache or a flag, remembers what was set back, so nothing was tested (clear it in reset=, or "
    "in pre_image of an incident)"
)


@dataclass(frozen=True, slots=True)
class Judged:
    """A schedule that was played, and what it showed. ``changed``: a party may have changed a row in it."""

    schedule: Schedule
    played: Played
    verdict: Verdict
    how: How | None
    reason: str
    changed: bool = True

    def show(self) -> str:
        """The schedule in time order, and the line that plays it again."""
        lines = "\n".join(f"    {line.party}  {line.what}" for line in folded(self.played.lines))
        return (
            f"  schedule {self.schedule.name}: {self.schedule.words}\n{lines}\n"
            f"  replay: {replay.command(self.schedule.name)}"
        )

    def how_it_held(self) -> str:
        """In words, with what was refused and raised, and whether that is the server's own word."""
        errors = ", ".join(dict.fromkeys(kind_of(error) for error in self.played.errors.values()))
        if self.how is How.FAILED:
            return f"a party ended with {errors} while {'the other' if len(self.played.steps) == 2 else 'another'} was held"
        words = str(self.how)
        if self.how in (How.CONFLICTED, How.TRIED_AGAIN) and self.played.conflicts:
            words += f" ({', '.join(dict.fromkeys(self.played.conflicts))})"
        if self.how is How.BLOCKED and self.played.inferred:
            words += " (inferred: this database does not say)"
        return words + (f", and a party ended with {errors}" if errors else "")


@dataclass(frozen=True, slots=True)
class RaceReport:
    """What all schedules came to. ``steps`` are the most statements and commits each party made, party by party.

    ``cause`` is what the parties raised, where that is why nothing was tested.
    """

    verdict: Verdict
    reason: str
    judged: tuple[Judged, ...]
    steps: tuple[int, ...] = ()
    cause: BaseException | None = None

    def show(self) -> str:
        """The reason and, where one schedule is to blame, that schedule."""
        blamed = self.judged[-1] if self.judged and self.judged[-1].verdict is self.verdict else None
        return self.reason + (f"\n{blamed.show()}" if blamed is not None and self.verdict is not Verdict.HELD else "")

    def costs(self) -> Costs:
        """How long each party waited and held locks, in each schedule that was played."""
        return Costs({one.schedule.name: one.played.costs for one in self.judged})

    def require(self) -> RaceReport:
        """Itself, if it held.

        Raises:
            BarrierFailed: it did not.
        """
        __tracebackhide__ = True
        if self.verdict is not Verdict.HELD:
            raise BarrierFailed(self.verdict, self.show()) from self.cause
        return self


def how_held(played: Played, *, in_series: bool) -> How:
    """Why a schedule that broke nothing held."""
    if in_series:
        return How.IN_SERIES
    if played.tried_again:
        return How.TRIED_AGAIN
    if played.conflicts:
        return How.CONFLICTED
    if played.blocked:
        return How.BLOCKED
    return How.FAILED if played.errors else How.NEW_STATE


def hows_of(judged: Iterable[Judged]) -> str:
    """Why schedules held that were reached; where a party ended with an error, in which of them."""
    names: dict[str, list[str]] = {}
    for one in judged:
        if one.how is not None and one.played.reached:
            names.setdefault(one.how_it_held(), []).append(one.schedule.name if one.played.errors else "")
    return "; ".join(how + _listed([name for name in named if name]) for how, named in names.items())


def _listed(names: Sequence[str]) -> str:
    more = f", … {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f" ({', '.join(names[:_LISTED])}{more})" if names else ""


def folded(lines: Sequence[Line]) -> list[Line]:
    """The lines with each run of repetitions as one of them, and how often it came."""
    found: list[Line] = []
    at = 0
    while at < len(lines):
        length, times = _repeated(lines, at)
        found.extend(lines[at : at + length])
        if times > 1:
            found.append(Line(lines[at].party, f"… {times} times"))
        at += length * times
    return found


def _repeated(lines: Sequence[Line], at: int) -> tuple[int, int]:
    """How long the shortest run is that stands there often, and how often."""
    for length in range(1, LONGEST + 1):
        times = 1
        while lines[at : at + length] == lines[at + length * times : at + length * (times + 1)]:
            times += 1
        if times >= TIMES:
            return length, times
    return 1, 1


def kept_out(played: Played, names: Sequence[str], *, external_lock: bool) -> tuple[Verdict, str] | None:
    """Whether something outside the database kept a party from it while another one was held, and what that is.

    Who asked the database and left was kept out by what it saw there, which two processes see alike.
    """
    for name, gave_up in played.errors.items():
        if pools.gave_up(gave_up):
            return Verdict.SHARED_CONNECTION, (
                f"{name} ended with {kind_of(gave_up)}: it had no connection while another party held one, so the pool "
                "has too few (give the engine or the pool of the test two connections or more: pool_size=2, max_size=2)"
            )
    for name in played.kept_out:
        if name in names and not external_lock:
            error = played.errors.get(name)
            ended = f"ended with {kind_of(error)}" if error is not None else "ended"
            return Verdict.STALLED, (
                f"{name} {ended} without asking the database while another party was held; what kept it out lies in this "
                "process, a lock, a flag or a pool with no connection left, and does not protect two (if it asks for a lock "
                "that all processes share, pass external_lock=True)"
            )
    return None


def says_nothing_more(name: str, schedule: str) -> str:
    """That a party asks the database nothing any more, though nobody is in its way."""
    return (
        f"party {name} asked the database nothing in schedule {schedule}, nor alone when it was played again: "
        f"{_REMEMBERS}"
    )


def unchanged_rows(schedule: str, earlier: str) -> str:
    """That no party changes a row any more, or ever; ``earlier`` is a schedule in which one did."""
    if not earlier:
        return (
            "no party changed a row, in series neither, so nothing was tested (do the calls find the rows that they need once "
            "the database is set back, and do they commit?)"
        )
    return (
        f"no party changed a row in schedule {schedule}, nor in series when that was played again, though they did in "
        f"{earlier}: {_REMEMBERS}"
    )


def idle_since(party: str, schedule: str) -> str:
    """That one of them does not: it was not raced, whatever the others did."""
    return f"party {party} changed rows in schedule {schedule}, and in none since, nor when that was played again: {_REMEMBERS}"
