"""decides which two of the commits of a window the runs of a test stand for (pure)"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from holdtrue.model import Traces
from holdtrue.scaffolding.commits import Commit
from holdtrue.scaffolding.overlaps import NOT_PROVED, prove_overlap


def pair_of(commits: Sequence[Commit], traces: Traces) -> tuple[Commit, ...]:
    """Those that most likely raced, in their order; all of them where there are no more than two.

    Who wrote rows behind the violation comes before who made their parents, which nobody raced for; of those two that wrote
    rows of one table, then two that are known to have run at once, then the newest.
    """
    if len(commits) <= 2:
        return tuple(commits)

    def tells(pair: tuple[tuple[int, Commit], tuple[int, Commit]]) -> tuple[bool, int, bool, int, int]:
        (place, one), (later, other) = pair
        overlap = prove_overlap((*one.writers, *other.writers), traces)
        return (
            bool(one.behind & other.behind),
            bool(one.behind) + bool(other.behind),
            not overlap.startswith(NOT_PROVED),
            later,
            place,
        )

    chosen = max(combinations(enumerate(commits), 2), key=tells)
    return tuple(commit for _, commit in chosen)
