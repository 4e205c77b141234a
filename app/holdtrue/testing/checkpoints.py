"""marks a step outside the database at which a schedule may hold its party; nothing anywhere else"""

from __future__ import annotations

from collections.abc import Awaitable, Generator

from holdtrue.testing.parties import current_party


class _Passed:
    """What may be awaited, and is over at once."""

    __slots__ = ()

    def __await__(self) -> Generator[None, None, None]:
        return iter(())  # type: ignore[return-value]  # an iterator is all that await asks for


_PASSED = _Passed()


def checkpoint(name: str) -> Awaitable[None]:
    """Stand before a step outside the database, ``checkpoint("charge_card")``, until the schedule lets this party go on.

    In a coroutine it is awaited; in plain code the call itself waits. Outside a schedule it does nothing.
    """
    party = current_party.get()
    return _PASSED if party is None or party.passes is None else party.passes(name) or _PASSED
