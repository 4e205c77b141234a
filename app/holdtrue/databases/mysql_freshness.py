"""decides whether a MariaDB or MySQL replica is fresh enough, by what it says of its replication (pure)"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from holdtrue.databases.freshness import Fresh
from holdtrue.model import Failure, FailureReason, Freshness, show_duration

_USUAL_SILENCE = timedelta(seconds=60)


@dataclass(frozen=True, slots=True)
class Channel:
    """One source that a replica follows. ``behind`` is the server's own number, or None where it says NULL."""

    name: str
    receives: bool
    applies: bool
    behind: timedelta | None


@dataclass(frozen=True, slots=True)
class Standing:
    """What a server said of itself before the snapshot was taken.

    ``visible`` is False where the login may not read the replica's status. ``silence`` is ``slave_net_timeout``: so long a
    link may be dead before the replica notices.
    """

    read_only: bool
    channels: tuple[Channel, ...] = ()
    visible: bool = True
    silence: timedelta = _USUAL_SILENCE

    @property
    def role(self) -> str:
        """``standby`` if it follows somebody, or could not be written to; else ``primary``."""
        return "standby" if self.channels or self.read_only else "primary"

    @property
    def lag(self) -> timedelta | None:
        """The greatest lag of its channels; None where one is unknown."""
        if self.role == "primary":
            return timedelta(0) if self.visible else None
        known = [one.behind for one in self.channels if one.behind is not None]
        return max(known) if known and len(known) == len(self.channels) else None


def read_channels(rows: Sequence[Mapping[str, str | None]]) -> tuple[Channel, ...]:
    """The rows of SHOW ALL SLAVES STATUS (MariaDB), SHOW REPLICA STATUS or SHOW SLAVE STATUS (MySQL)."""
    return tuple(_read_channel({_said_anew(name): value for name, value in row.items()}) for row in rows)


def _said_anew(name: str) -> str:
    return name.lower().replace("slave", "replica").replace("master", "source")


def _read_channel(row: Mapping[str, str | None]) -> Channel:
    behind = row.get("seconds_behind_source")
    return Channel(
        name=row.get("connection_name") or row.get("channel_name") or "",
        # `Connecting` and MariaDB's `Preparing` receive nothing.
        receives=row.get("replica_io_running") == "Yes",
        applies=row.get("replica_sql_running") == "Yes",
        behind=timedelta(seconds=int(behind)) if behind is not None else None,
    )


def decide_replica(
    standing: Standing, *, freshness: Freshness, max_lag: timedelta, allow_primary: bool
) -> Fresh | Failure:
    """Judge a server by semantics 2.1 and 2.2: a stopped thread or an unknown lag is cut off; an idle primary is no lag.

    Under *heartbeat* a server that may be asked is not proven fresh yet: its heartbeat has the word.
    """
    beats = freshness is Freshness.HEARTBEAT
    if standing.role == "primary" and allow_primary and beats:
        return Fresh("primary", None, proven=False)
    if standing.role == "primary":
        if allow_primary:
            return Fresh("primary", standing.lag, proven=standing.visible)
        return Failure(FailureReason.IS_PRIMARY, "this server is a primary (allow_primary: true would ask it)")
    if allow_primary and standing.visible and not standing.channels:
        return Fresh("primary", None, proven=False) if beats else Fresh("primary", timedelta(0), proven=True)
    if beats or freshness is Freshness.NONE:
        return Fresh("standby", None, proven=False)
    if not standing.visible:
        return Failure(
            FailureReason.CUT_OFF,
            "the login may not read the replica's status: grant it (SLAVE MONITOR on MariaDB, REPLICATION CLIENT on MySQL),"
            " or use freshness: none",
        )
    if not standing.channels:
        return Failure(FailureReason.CUT_OFF, "this server is read-only and follows nobody")
    for channel in standing.channels:
        failure = _judge(channel, max_lag)
        if failure is not None:
            return failure
    return Fresh("standby", standing.lag, proven=standing.silence <= max(_USUAL_SILENCE, max_lag))


def _judge(channel: Channel, max_lag: timedelta) -> Failure | None:
    which = f" (channel {channel.name})" if channel.name else ""
    if not channel.receives:
        return Failure(
            FailureReason.CUT_OFF, f"this replica hears nothing from its source: its receiver is stopped{which}"
        )
    if not channel.applies:
        return Failure(FailureReason.CUT_OFF, f"this replica applies nothing: its applier is stopped{which}")
    if channel.behind is None:
        return Failure(FailureReason.CUT_OFF, f"this replica does not know how far behind it is{which}")
    if channel.behind > max_lag:
        return Failure(
            FailureReason.LAGGING,
            f"this replica is {show_duration(channel.behind)} behind (max_lag {show_duration(max_lag)}){which}",
        )
    return None
