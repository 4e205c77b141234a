"""decides whether a replica is fresh enough and not behind what was seen before (pure)"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from holdtrue.databases.mysql_gtid import check_gtid, has_gtid
from holdtrue.model import Failure, FailureReason, Freshness, Position, show_duration

_GRACE = timedelta(seconds=1)
USUAL_SILENCE = timedelta(seconds=31)
"""What the default of ``wal_receiver_timeout`` comes to: a longer one must not hide a lag behind an empty log."""


@dataclass(frozen=True, slots=True)
class Signs:
    """What a PostgreSQL server said of itself in the opening message.

    Positions are WAL byte positions. ``now`` is the server's own clock. ``receiver_visible`` is False where the role may not
    see the receiver's state (no ``pg_monitor``).
    """

    now: datetime
    in_recovery: bool
    received: int | None = None
    replayed: int | None = None
    paused: bool = False
    receiver_lives: bool = False
    receiver_visible: bool = True
    last_message: datetime | None = None
    last_commit: datetime | None = None
    receiver_timeout: timedelta = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Fresh:
    """Good enough to be asked; ``proven`` says that the lag was proven and not only not disproven."""

    role: str
    lag: timedelta | None
    proven: bool


def decide_freshness(signs: Signs, *, freshness: Freshness, max_lag: timedelta, allow_primary: bool) -> Fresh | Failure:
    """Judge a PostgreSQL server by semantics 2.1 and 2.2.

    An idle primary is no lag: receive = replay on a living link is lag 0 whatever the age of the last commit. Under
    *heartbeat* a server that may be asked is not proven fresh yet: its heartbeat has the word.
    """
    if not signs.in_recovery:
        if allow_primary and freshness is Freshness.HEARTBEAT:
            return Fresh("primary", None, proven=False)
        if allow_primary:
            return Fresh("primary", timedelta(0), proven=True)
        return Failure(FailureReason.IS_PRIMARY, "this server is a primary (allow_primary: true would ask it)")
    if signs.paused:
        return Failure(FailureReason.REPLAY_PAUSED, "replay is paused on this replica")
    if freshness is not Freshness.STREAMING:
        return Fresh("standby", None, proven=False)
    if not signs.receiver_lives:
        return Failure(FailureReason.CUT_OFF, "no WAL receiver runs on this replica: it hears nothing from its sender")
    proven = signs.receiver_visible
    if signs.receiver_visible:
        silence = silence_limit(signs.receiver_timeout)
        if signs.last_message is None or signs.now - signs.last_message > silence:
            heard = (
                "nothing yet" if signs.last_message is None else show_duration(signs.now - signs.last_message) + " ago"
            )
            return Failure(
                FailureReason.CUT_OFF,
                f"this replica last heard from its sender {heard} (limit {show_duration(silence)})",
            )
        proven = signs.now - signs.last_message <= max(USUAL_SILENCE, max_lag)
    lag = _lag(signs)
    if lag is None:
        return Failure(FailureReason.LAGGING, "this replica has replayed no commit yet: its lag is unknown")
    if lag > max_lag:
        return Failure(
            FailureReason.LAGGING, f"this replica is {show_duration(lag)} behind (max_lag {show_duration(max_lag)})"
        )
    return Fresh("standby", lag, proven=proven)


def silence_limit(receiver_timeout: timedelta) -> timedelta:
    """How long a sender may be silent; after half of ``wal_receiver_timeout`` the receiver itself asks for a sign of life."""
    if receiver_timeout <= timedelta(0):
        return USUAL_SILENCE
    return receiver_timeout / 2 + _GRACE


def measured_lag(signs: Signs, freshness: Freshness) -> timedelta | None:
    """The lag as far as the server's signs tell it, also of a replica that will not do; None where nothing is known."""
    if not signs.in_recovery and freshness is not Freshness.HEARTBEAT:
        return timedelta(0)
    return _lag(signs) if freshness is Freshness.STREAMING else None


def _lag(signs: Signs) -> timedelta | None:
    # After a restart the receiver begins at a segment's start, below what was replayed already.
    if signs.received is not None and signs.replayed is not None and signs.received <= signs.replayed:
        return timedelta(0)
    if signs.last_commit is None:
        return None
    return max(signs.now - signs.last_commit, timedelta(0))


def check_position(here: Position, newest_good: Position | None, accepted_system: str | None) -> Failure | None:
    """Runs never go back: judge a position against the newest good run's (semantics 2.3).

    A higher timeline is a failover and accepted, also where it stands behind: what it lacks is lost for good. (A standby asks
    for a new timeline only after it has replayed the old one to its end, so it is never merely behind.) A dialect without
    positions leaves them empty, and is not compared.
    """
    if newest_good is None or not here.system or not newest_good.system:
        return None
    if has_gtid(here) or has_gtid(newest_good):
        return check_gtid(here, newest_good, accepted_system)
    if here.system != newest_good.system:
        if here.system == accepted_system:
            return None
        return Failure(
            FailureReason.ANOTHER_SERVER,
            "this is another server than the one of the newest good run (its system identifier differs)",
        )
    if here.timeline and newest_good.timeline and here.timeline != newest_good.timeline:
        if here.timeline > newest_good.timeline:
            return None
        return Failure(
            FailureReason.WENT_BACK,
            f"this replica is on timeline {here.timeline}, the newest good run was on {newest_good.timeline}",
        )
    if read_lsn(here.log_position) < read_lsn(newest_good.log_position):
        return Failure(
            FailureReason.WENT_BACK,
            f"this replica stands at {here.log_position}, behind the newest good run ({newest_good.log_position})",
        )
    return None


def read_lsn(text: str) -> int:
    """A WAL position written ``16/B374D848`` as a number of bytes; 0 for the empty text."""
    if not text:
        return 0
    high, _, low = text.partition("/")
    return (int(high, 16) << 32) + int(low, 16)
