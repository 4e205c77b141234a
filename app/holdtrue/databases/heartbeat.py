"""reads the answer to a database's heartbeat as a moment, and judges its age (pure)"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from holdtrue.databases.freshness import Fresh
from holdtrue.databases.looks import Answer
from holdtrue.model import Failure, FailureReason, show_duration

_CLOCKS_DIFFER: Final = timedelta(seconds=1)
_OF_THE_CONNECTION: Final = frozenset(
    {FailureReason.INTERRUPTED, FailureReason.LOST, FailureReason.REFUSED, FailureReason.CONFLICT}
)
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(Z|[+-]\d\d(?::?\d\d){0,2})?")
_SECONDS: Final = re.compile(r"\d{9,11}(?:\.\d+)?")


def beat_age(answer: Answer | Failure, *, now: datetime, timezone: str) -> timedelta | Failure:
    """How old the newest beat on a server is; a beat that is absent, no time, or of the future proves nothing.

    ``now`` is the server's own clock in the look that gave ``answer``; a time without zone is read in ``timezone``.
    """
    at = read_beat(answer, timezone)
    if isinstance(at, Failure):
        return at
    age = now - at
    if age < -_CLOCKS_DIFFER:
        return _none(f"the heartbeat lies {show_duration(-age)} in the future: the servers' clocks differ")
    return max(age, timedelta(0))


def decide_beat(role: str, age: timedelta | Failure, *, max_lag: timedelta) -> Fresh | Failure:
    """What the heartbeat says of a server that may be asked: it alone decides (semantics 2.1)."""
    if isinstance(age, Failure):
        return age
    if age > max_lag:
        return Failure(
            FailureReason.LAGGING,
            f"the heartbeat on this server is {show_duration(age)} old (max_lag {show_duration(max_lag)})",
        )
    return Fresh(role, age, proven=True)


def read_beat(answer: Answer | Failure, timezone: str) -> datetime | Failure:
    """The one moment that an answer gives; else why it gives none, in our own words."""
    if isinstance(answer, Failure):
        return _of_failure(answer)
    if len(answer.columns) != 1:
        return _none(f"the heartbeat gave {len(answer.columns)} columns instead of one")
    if answer.more or len(answer.rows) > 1:
        return _none("the heartbeat gave more than one row; ask for the newest (max)")
    if not answer.rows:
        return _none("the heartbeat gave no row: nothing was ever written, or it did not arrive here")
    text = answer.rows[0][0]
    if text is None:
        return _none("the heartbeat gave NULL: nothing was ever written, or it did not arrive here")
    at = _read(text.strip(), timezone)
    return at if at is not None else _none("the heartbeat gave something that is no time")


def _read(text: str, timezone: str) -> datetime | None:
    if _SECONDS.fullmatch(text):
        return datetime.fromtimestamp(float(text), UTC)
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    try:
        at = datetime.fromisoformat(text)
        if found[1] is not None:
            return at.astimezone(UTC)
        # In the hour that a zone has twice, the older reading: a replica must not look an hour fresher than it is.
        both = (at.replace(tzinfo=ZoneInfo(timezone), fold=fold).astimezone(UTC) for fold in (0, 1))
        return min(both)
    except (ValueError, OverflowError):
        return None


def _of_failure(failure: Failure) -> Failure:
    if failure.reason is FailureReason.INTERRUPTED:
        return failure
    kept = failure.reason in _OF_THE_CONNECTION
    # The position is one in the heartbeat's text, and would be taken for one in the invariant's.
    return replace(
        failure,
        reason=failure.reason if kept else FailureReason.NO_HEARTBEAT,
        sentence=f"heartbeat: {failure.sentence}",
        position=None,
    )


def _none(sentence: str) -> Failure:
    return Failure(FailureReason.NO_HEARTBEAT, sentence)
