"""who acts, in words"""

from __future__ import annotations

BY_STORE = "by store"
"""Who acts on the store itself, without a token (semantics 11.1)."""


def by_whom(identity: str) -> str:
    """``by alice (token)``; the one identity that says so itself is not said to be by it twice."""
    return identity if identity == BY_STORE else f"by {identity}"
