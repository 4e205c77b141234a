"""The step scheduler against a server that answers as slowly as a test wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from holdtrue.testing.parties import Party, State, current_party
from holdtrue.testing.policies import Hold, Step
from holdtrue.testing.statements import Statement
from holdtrue.testing.steps import StepScheduler

LIMIT = 10.0
LOCK, WORK, FREE = (Statement(verb) for verb in ("LOCK", "WORK", "FREE"))


@dataclass
class SlowServer:
    """One lock, and an answer about it that is over by the time it is heard."""

    inferred: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: set[str] = field(default_factory=set)
    heard: threading.Event = field(default_factory=threading.Event)
    asked_again: threading.Event = field(default_factory=threading.Event)

    def waits(self, parties: Sequence[Party]) -> Mapping[str, str]:
        first, second = parties
        edges = {second.name: first.name} if second.name in self.waiting else {}
        if self.heard.is_set():
            self.asked_again.set()
        if edges and first.state is State.MOVING and not self.heard.is_set():
            self.heard.set()  # only now does the holder let go, and it stands ready again before the answer is out
            while first.state is not State.READY or second.name in self.waiting:
                time.sleep(0.001)
        return edges

    def is_busy(self, party: Party) -> bool:
        return True

    def cancel(self, party: Party) -> None:
        """Nothing is ever given up here."""

    def end_sessions(self, party: Party) -> None:
        """Nor anybody's session ended."""

    def has_written(self, pid: int) -> bool:
        return False

    def has_left_open(self, party: Party) -> bool:
        return False


def test_an_answer_that_was_over_before_it_was_heard_does_not_choose_who_moves() -> None:
    """Else the order after a lock is given back would depend on how quickly the server answers."""
    server = SlowServer()
    scheduler = StepScheduler(server)

    def stop(statement: Statement) -> None:
        party = current_party.get()
        assert party is not None
        scheduler.stop_before(party, statement, None, id(party))

    def first() -> None:
        stop(LOCK)
        server.lock.acquire()
        stop(FREE)
        assert server.heard.wait(LIMIT)
        server.lock.release()
        stop(WORK)

    def second() -> None:
        stop(LOCK)
        server.waiting.add("B")
        assert server.lock.acquire(timeout=LIMIT)
        server.waiting.discard("B")
        assert server.asked_again.wait(LIMIT)
        stop(WORK)

    played = scheduler.play(Hold("A", Step(1), ("B",)), {"A": first, "B": second})
    assert not played.errors
    assert [f"{line.party} {line.what}" for line in played.lines] == [
        "A START",
        "A LOCK",
        "B START",
        "B LOCK",
        "B waits for A (the server says)",
        "A FREE",
        "B WORK",
        "A WORK",
    ]
