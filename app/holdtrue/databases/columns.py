"""names of result columns, made unique within their result"""

from __future__ import annotations

from collections.abc import Sequence


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names in order; a repeated one gets a number that no other column has: ``id``, ``id_2``."""
    if len(set(names)) == len(names):
        return tuple(names)
    given = set(names)
    used: set[str] = set()
    result = []
    for name in names:
        unique, number = name, 2
        while unique in used:
            candidate = f"{name}_{number}"
            number += 1
            if candidate not in given:
                unique = candidate
        used.add(unique)
        result.append(unique)
    return tuple(result)
