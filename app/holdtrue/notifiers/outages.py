"""one message for a database that nobody could look at: what it says as its alerts join and end (pure)"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from holdtrue.model import Ending, Mark, Parcel, Reason, Thread, show_moment
from holdtrue.notifiers.gathered import by_rank, reason_of, why_blind


@dataclass(frozen=True, slots=True)
class Outage:
    """The `unchecked` alerts of one database that stand in one message (semantics 7.4).

    ``news`` are told now; ``beside`` were told before. ``thread`` is where the message stands, if there is one already.
    ``aloud``: who joins is told where people look, and not by the number alone. ``anew``: what stood there was one query's
    own trouble for a while, of which nobody is called again.
    """

    database: str
    news: tuple[Parcel, ...]
    beside: tuple[Parcel, ...] = ()
    thread: Thread | None = None
    unreachable: bool = False
    aloud: bool = False
    anew: bool = False

    @property
    def now(self) -> datetime:
        """The moment of sending."""
        return self.news[0].now if self.news else self.beside[0].now

    @property
    def unchecked(self) -> tuple[Parcel, ...]:
        """What nobody has looked at yet."""
        return tuple(by_rank(one for one in (*self.news, *self.beside) if one.episode.open))

    @property
    def ended(self) -> tuple[Parcel, ...]:
        """What is over: looked at again, or gone from the catalog."""
        return tuple(by_rank(one for one in (*self.news, *self.beside) if not one.episode.open))

    @property
    def headline(self) -> str:
        """How many are unchecked, or that it is over; begins with a sign."""
        unchecked, ended = len(self.unchecked), len(self.ended)
        looked = sum(one.episode.ending is Ending.RECOVERED for one in self.ended)
        if unchecked:
            return f"⚫ {self.database}: {unchecked} unchecked" + (f", {looked} looked at again" if looked else "")
        if looked == ended:
            return f"🔵 {self.database}: all {looked} looked at again (recovered)"
        return f"⚪ {self.database}: {ended} ended, {looked} of them looked at again"

    @property
    def sentence(self) -> str:
        """Why, and since when; or what it means that it is over."""
        if self.unchecked:
            since = min(one.episode.fired_at or one.episode.opened_at for one in self.unchecked)
            return f"{why_blind(self.unreachable)}, since {show_moment(since)}"
        return "what was found then stands beside each; it is no word on whether all is well"

    @property
    def joining(self) -> tuple[Parcel, ...]:
        """Those of the news that were never told before, whatever has become of them since."""
        told = [one for one in self.news if Reason.UNCHECKED in (one.event.reason, *one.message.overtook)]
        return tuple(sorted(told, key=lambda one: one.episode.id))

    @property
    def loud(self) -> tuple[Parcel, ...]:
        """The news that more than the numbers change by: all but who joins, if not aloud, and who ends before the last."""
        quiet = set() if self.aloud else {Reason.UNCHECKED}
        if self.unchecked:
            quiet.add(Reason.RECOVERED)
        return tuple(by_rank(one for one in self.news if one.event.reason not in quiet))

    @property
    def notes(self) -> tuple[str, ...]:
        """What stands in small print."""
        notes = ["each has its own page, acknowledgement and end", f"as of {show_moment(self.now)}"]
        if any(Mark.MAY_BE_A_REPEAT in one.message.marks for one in self.news):
            notes.append(Mark.MAY_BE_A_REPEAT.value)
        return tuple(notes)


def line_of(parcel: Parcel) -> str:
    """What is known of one of them, without its name."""
    detail = f": {parcel.event.detail}" if parcel.event.detail else ""
    taken = f" · acknowledged by {parcel.episode.acknowledged_by}" if parcel.episode.acknowledged_by else ""
    return f"{reason_of(parcel)}{detail}{taken}"
