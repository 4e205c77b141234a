"""many alerts in one message: what stands first, and what each of them is in a line (pure)"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from holdtrue.model import Mark, Parcel, Subject
from holdtrue.notifiers.wording import sign

_RANK = {"critical": 0, "warning": 1, "info": 2}


@dataclass(frozen=True, slots=True)
class Blind:
    """The alerts of one database that nobody could look at, and why in words."""

    database: str
    why: str
    parcels: tuple[Parcel, ...]


@dataclass(frozen=True, slots=True)
class Gathered:
    """What is violated first, the most severe on top; then what nobody could look at, database by database; then what ended."""

    headline: str
    broken: tuple[Parcel, ...]
    blind: tuple[Blind, ...]
    ended: tuple[Parcel, ...]
    notes: tuple[str, ...]

    @property
    def all(self) -> tuple[Parcel, ...]:
        """Every one of them, in this order."""
        return (*self.broken, *(parcel for one in self.blind for parcel in one.parcels), *self.ended)


def by_rank(parcels: Iterable[Parcel]) -> list[Parcel]:
    """The most severe first, then by name."""
    return sorted(parcels, key=lambda one: (_RANK.get(one.episode.severity, 9), one.episode.invariant, one.episode.id))


def gathered(parcels: Sequence[Parcel], unreachable: Collection[str] = ()) -> Gathered:
    """Put them in order. ``unreachable`` are the databases of which no replica can be asked."""
    seen = by_rank(parcels)
    going = [one for one in seen if one.episode.open]
    broken = [one for one in going if one.episode.subject is Subject.VIOLATION]
    unseen = [one for one in going if one.episode.subject is not Subject.VIOLATION]
    ended = [one for one in seen if not one.episode.open]
    counts = ((broken, "violated"), (unseen, "unchecked"), (ended, "ended"))
    headline = ", ".join(f"{len(ones)} {word}" for ones, word in counts if ones)
    notes = [f"{len(parcels)} alerts in one message; each has its own page, acknowledgement and end"]
    if any(Mark.MAY_BE_A_REPEAT in one.message.marks for one in parcels):
        notes.append(Mark.MAY_BE_A_REPEAT.value)
    return Gathered(
        f"{sign(broken[0]) if broken else '⚫' if unseen else '⚪'} {headline}",
        tuple(broken),
        tuple(
            _blind(unseen, database, unreachable) for database in dict.fromkeys(one.episode.database for one in unseen)
        ),
        tuple(ended),
        tuple(notes),
    )


def reason_of(parcel: Parcel) -> str:
    """What has happened, in the one word that the documents use."""
    return (parcel.event.reason.value if parcel.event.reason is not None else parcel.event.name).replace("_", " ")


def _blind(unseen: Sequence[Parcel], database: str, unreachable: Collection[str]) -> Blind:
    return Blind(
        database, why_blind(database in unreachable), tuple(one for one in unseen if one.episode.database == database)
    )


def why_blind(unreachable: bool) -> str:
    """Why alerts of a database are unchecked."""
    return "no replica of it can be asked" if unreachable else "nobody has looked for too long"
