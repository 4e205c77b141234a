"""gathers neighbouring spans: for a chart's bound on points, and for the thinning of old counts (pure)"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from holdtrue.model import Outcome
from holdtrue.store.records import Span

_WORST_FIRST = (Outcome.VIOLATED, Outcome.ERRORED, Outcome.SKIPPED, Outcome.HELD)


def joined(neighbours: Sequence[Span]) -> Span:
    """One span for several neighbours, oldest first: lowest, highest and last count, and all their runs.

    Unlike outcomes become the worst of them; if one is incomplete the whole is.
    """
    first, last = neighbours[0], neighbours[-1]
    return replace(
        last,
        first_at=first.first_at,
        last_at=max(one.last_at for one in neighbours),
        outcome=min((one.outcome for one in neighbours), key=_WORST_FIRST.index),
        complete=all(one.complete for one in neighbours),
        runs=sum(one.runs for one in neighbours),
        lowest=min(one.lowest for one in neighbours),
        highest=max(one.highest for one in neighbours),
        first_run=first.first_run,
    )


def gathered(spans: Sequence[Span], limit: int) -> tuple[Span, ...]:
    """At most ``limit`` spans for many, by joining equally many neighbours each."""
    if limit < 1:
        raise ValueError("a chart has at least one point")
    if len(spans) <= limit:
        return tuple(spans)
    size = -(-len(spans) // limit)
    return tuple(joined(spans[start : start + size]) for start in range(0, len(spans), size))


def thinned(spans: Sequence[Span]) -> tuple[tuple[Span, ...], ...]:
    """Groups of neighbours, oldest first, that become one span each: within one hour and differing only in count.

    Spans that reach beyond their hour stay as they are (semantics 8.2).
    """

    def alike(span: Span) -> tuple[object, ...]:
        hour = _hour(span.first_at)
        own: object = None if hour == _hour(span.last_at) else span.first_run
        return (span.invariant, span.database, hour, own, span.outcome, span.definition, span.complete)

    return tuple(tuple(group) for _, group in itertools.groupby(spans, key=alike))


def _hour(moment: datetime) -> datetime:
    return moment.replace(minute=0, second=0, microsecond=0)
