"""why nothing can be said of a schedule, each time with what helps"""

from __future__ import annotations

from collections.abc import Sequence

from holdtrue.testing.loops import RaceLoop
from holdtrue.testing.parties import Party
from holdtrue.testing.statements import Statement
from holdtrue.testing.verdicts import Verdict

POOL_OF_TWO = "give the engine a pool of two or more: no StaticPool, no session joined to an outer transaction"


def shares(alone: str) -> str:
    """That two parties use one connection; ``alone`` is how each gets one of its own."""
    return (
        "two parties speak through one connection, so neither can be held while the other moves "
        f"({alone or POOL_OF_TWO})"
    )


def comes_late(party: Party, statement: Statement | None) -> str:
    """That a party ended before all that it had started."""
    return (
        f"party {party.name} ended while a thread or task that it had started was still at work, before {statement}: "
        "join the thread, await the task"
    )


def lives_on(names: Sequence[str]) -> str:
    """That parties were given up and did not end for it."""
    return (
        f"party {' and party '.join(names)} was given up and is still at work: what it sends from now on is "
        "refused, and no other schedule is played (let the call end when it is cancelled or its connection is gone)"
    )


def repeats(party: Party) -> str:
    """That a party does the same again and again, and nobody else can do anything about it."""
    return (
        f"; {party.name} sends the same statements again and again, and nothing comes of it (does it read in one transaction "
        "what it waits for, which then never changes? Or is it a lock that a session outside of the race keeps?)"
    )


def stands_still(party: Party, parties: Sequence[Party], loop: RaceLoop, stall: float) -> tuple[Verdict, str]:
    """Why a party does nothing, here or on the server, while another one is held."""
    if party.waits_in_pool():
        too_few = f"{party.name} waits for a connection that another party holds: the pool has too few"
        return Verdict.SHARED_CONNECTION, f"{too_few} (give the engine of the test pool_size=2 or more)"
    if party.task is not None and loop.is_blocked(stall):
        return Verdict.STALLED, loop.say_blocks(party.name)
    unnumbered = [one.name for one in parties if one.is_unnumbered]
    if unnumbered:
        reason = (
            f"{party.name} did nothing while another party was held, and nobody can tell whether it waited in the database: "
            f"which session there is that of {' and '.join(unnumbered)} their driver does not tell"
        )
        return (
            Verdict.NOT_REACHED,
            f'{reason} (race the code through another driver, or on PostgreSQL with hold="server")',
        )
    where = party.where()
    return (
        Verdict.STALLED,
        f"{party.name} waited outside the database while another party was held"
        + (f", at {where}" if where else "")
        + "; a lock inside one process does not protect two (if it waits for a lock that all processes share, "
        "pass external_lock=True; if it is only slow, limits=Limits(stall=…))",
    )
