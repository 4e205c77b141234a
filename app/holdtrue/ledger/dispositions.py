"""decides whether a returned row counts, settles or is waived"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo

from holdtrue.ledger.keys import KEY_BYTES, KeyHasher, rank
from holdtrue.ledger.times import read_time
from holdtrue.model import Column, Disposition, Failure, FailureReason, Invariant, KeyState, Novelty, Row, Settle


@dataclass(frozen=True, slots=True)
class Past:
    """What dispositions need of the past of one invariant on one database.

    ``keys`` and ``horizon`` are the ledger's; ``comparable`` is False where its hashes were made otherwise than this run's
    (semantics 4.2). ``episode_since``: when the open episode opened, if there is one. ``accepted`` says of which keys (as
    hashed, without number) how many rows were accepted.
    """

    keys: Mapping[str, KeyState] = field(default_factory=dict)
    horizon: str | None = None
    comparable: bool = True
    episode_since: datetime | None = None
    accepted: Mapping[str, int] = field(default_factory=dict)


NOTHING_BEFORE = Past()
_NO_DATE = "0000-00-00"
"""MySQL's zero date: no time, and in doubt the row counts as it does with NULL."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The moments of one run: ``now`` is the one that waivers and first sights are measured by, ``as_of`` the database's.

    ``as_of`` is the database's now() minus the replica's lag: what the replica's rows are as of. ``zone`` is the database's.
    """

    now: datetime
    as_of: datetime
    zone: tzinfo = UTC


def is_young(moment: datetime, settle: Settle, as_of: datetime) -> bool:
    """Whether a row of that moment may settle still (semantics 5.1); one that lies more than ``after`` ahead may not.

    A little in the future is young: lag comes in steps (whole seconds, the age of a heartbeat), so that as-of may lie
    before rows that the replica has.
    """
    return -settle.after <= as_of - moment < settle.after


@dataclass(frozen=True, slots=True)
class Known:
    """What the ledger knows of the rows of one key together.

    ``counted``: whether one counted in the open episode; ``since``: since when some are there without a gap.
    """

    counted: bool = False
    since: datetime | None = None


def known_keys(past: Past) -> dict[str, Known]:
    """The ledger by key, as hashed, without number."""
    found: dict[str, Known] = {}
    for key, state in past.keys.items():
        base = key.partition("#")[0]
        former = found.get(base, _UNKNOWN)
        gone = state.novelty is Novelty.FIXED
        # One that was gone, or waived, before the episode opened has not counted in it; one that was waived in it may have.
        waived = state.disposition is Disposition.WAIVED and state.first_counted is not None
        stays = state.disposition is Disposition.COUNTED and not gone
        counted = past.episode_since is not None and (
            stays or ((waived or state.disposition is Disposition.COUNTED) and state.last_changed >= past.episode_since)
        )
        since = None if gone else state.present_since or state.first_seen
        both = [one for one in (former.since, since) if one is not None]
        found[base] = Known(former.counted or counted, min(both, default=None))
    return found


def may_settle(key: str, known: Mapping[str, Known], past: Past, settle: Settle, now: datetime) -> bool:
    """Whether a key may settle, whatever the age of its row (semantics 5.1): not for long, and never once it has counted.

    In doubt it counts: a key that the ledger cannot know (beyond its horizon, or hashed otherwise while an episode is open)
    does not settle.
    """
    if not past.comparable:
        return past.episode_since is None
    one = known.get(key)
    if one is None:
        return past.horizon is None or rank(key) <= rank(past.horizon)
    return not one.counted and (one.since is None or now - one.since < settle.at_most)


_UNKNOWN = Known()


class Dispositions:
    """Gives each row of one execution its disposition, in memory that does not grow with the rows."""

    def __init__(
        self, invariant: Invariant, columns: Sequence[Column], hasher: KeyHasher, *, past: Past, clock: Clock
    ) -> None:
        """Begin for a result with these columns; ``shape`` then says whether ``settle.column`` is among them."""
        self._past = past
        self._clock = clock
        self._settle = invariant.settle
        self._known = known_keys(past) if invariant.settle is not None else {}
        self._place = -1
        self._waived = _waived(invariant, hasher, clock.now)
        self._accepted = {bytes.fromhex(key): rows for key, rows in past.accepted.items()}
        self.shape: Failure | None = None
        if invariant.settle is not None:
            names = [column.name for column in columns]
            if invariant.settle.column in names:
                self._place = names.index(invariant.settle.column)
            else:
                self.shape = _shape(
                    f"`settle.column` names a column that the query does not return: {invariant.settle.column}"
                )

    @property
    def needed(self) -> bool:
        """Whether any row could do otherwise than count."""
        return bool(self._settle is not None or self._waived or self._accepted)

    def of(self, row: Row, key: bytes) -> tuple[Disposition, datetime | None]:
        """The disposition of a row with this key, and of one that settles its own moment."""
        if key in self._waived:
            return Disposition.WAIVED, None
        left = self._accepted.get(key)
        if left:
            # As many rows as were there when it was accepted: one more was not, and counts.
            self._accepted[key] = left - 1
            return Disposition.WAIVED, None
        if self._settle is None or self.shape is not None:
            return Disposition.COUNTED, None
        text = row[self._place]
        if text is None or text.startswith(_NO_DATE):
            return Disposition.COUNTED, None
        moment = read_time(text, self._clock.zone)
        if moment is None:
            if self.shape is None:
                self.shape = _shape(f"`settle.column` {self._settle.column} holds something that is no time")
            return Disposition.COUNTED, None
        if is_young(moment, self._settle, self._clock.as_of) and may_settle(
            key.hex(), self._known, self._past, self._settle, self._clock.now
        ):
            return Disposition.SETTLING, moment
        return Disposition.COUNTED, None


def _waived(invariant: Invariant, hasher: KeyHasher, now: datetime) -> frozenset[bytes]:
    """The keys whose waiver has not ended, hashed as the server's own text."""
    return frozenset(
        bytes.fromhex(hasher.hash([dict(waiver.key)[name] for name in invariant.key]))[:KEY_BYTES]
        for waiver in invariant.waive
        if now < waiver.until and {name for name, _ in waiver.key} == set(invariant.key)
    )


def _shape(sentence: str) -> Failure:
    return Failure(FailureReason.SHAPE, sentence)
