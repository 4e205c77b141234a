"""says where a command looked and why it could not, for people and for programs"""

from __future__ import annotations

from datetime import timedelta

from holdtrue.cli.terminal import visible
from holdtrue.model import Failure, Position, show_duration, show_moment

ACCEPTS_UNKNOWN = "accepts are not known here"
"""What is said where a violation was found without the store, which alone knows of accepts."""


def say_failure(failure: Failure) -> str:
    """Our own sentence, with the server's code and the place in the text."""
    said = visible(failure.sentence)
    if failure.sqlstate:
        said += f" (SQLSTATE {failure.sqlstate})"
    if failure.position is not None:
        said += f", at character {failure.position} of the text"
    return said


def where(position: Position, ago: timedelta | None = None) -> str:
    """Which replica was asked, how it stood, and how long ago that was."""
    told = f"asked {visible(position.replica)}"
    if position.role:
        told += f" ({position.role})"
    if position.lag is not None:
        told += f", lag {show_duration(position.lag)}"
    if position.log_position:
        told += f", at {position.log_position}"
    if ago is not None:
        told += f", {show_duration(ago)} ago"
    return told if position.freshness_proven else f"{told}; freshness not proven"


def failure_as_data(failure: Failure | None) -> dict[str, object] | None:
    """A failure's JSON; the server's own message only where it was asked for."""
    if failure is None:
        return None
    said: dict[str, object] = {
        "reason": failure.reason.value,
        "sentence": failure.sentence,
        "sqlstate": failure.sqlstate,
        "position": failure.position,
    }
    if failure.raw is not None:
        said["raw"] = failure.raw
    return said


def position_as_data(position: Position) -> dict[str, object]:
    """A position's JSON."""
    return {
        "replica": position.replica,
        "role": position.role,
        "moment": show_moment(position.moment),
        "lag_seconds": seconds(position.lag) if position.lag is not None else None,
        "freshness_proven": position.freshness_proven,
        "system": position.system,
        "timeline": position.timeline,
        "log_position": position.log_position,
        "snapshot": position.snapshot,
    }


def seconds(duration: timedelta) -> float:
    """A duration in seconds, to the microsecond."""
    return round(duration.total_seconds(), 6)
