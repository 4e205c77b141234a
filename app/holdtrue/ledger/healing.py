"""suggests how long rows should settle, by how old they were when they healed"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Healing:
    """Of ``keys`` that healed: the age that 99 of 100 did not exceed, in whole seconds (semantics 5.1)."""

    keys: int
    p99: timedelta


def healing(ages: Sequence[timedelta]) -> Healing | None:
    """The suggested ``after``; None if no key has healed."""
    if not ages:
        return None
    ordered = sorted(ages)
    age = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return Healing(len(ordered), math.ceil(age / _SECOND) * _SECOND)
