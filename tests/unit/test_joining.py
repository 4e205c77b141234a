"""Which keys join an open alert, over the ledger and the decision together (semantics 7.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from histories import History
from holdtrue.alerting import acknowledge
from holdtrue.ledger import compare, rejoined
from holdtrue.model import (
    AlertState,
    Comparison,
    Decision,
    Disposition,
    LedgerBefore,
    Outcome,
    Reason,
    Tallied,
)
from tallies import HASHER, key_of, rows_of, tally


class Looked:
    """An alert's story over the keys that its runs return: what monitoring makes of a ledger and a decision."""

    def __init__(self, **policy: object) -> None:
        self.story = History(**policy)
        self.before = LedgerBefore()

    def look(self, *keys: str, complete: bool = True) -> Decision:
        return self.take(tally(rows_of(keys)), complete=complete)

    def settle(self, *keys: str) -> Decision:
        """The rows are there, and too young to count."""
        found = tally(rows_of(keys))
        settling = {key: (Disposition.SETTLING, shown) for key, (_, shown) in found.keys.items()}
        return self.take(replace(found, counted=0, settling=len(keys), keys=settling))

    def take(self, found: Tallied, *, complete: bool = True) -> Decision:
        now = self.story.now + timedelta(minutes=15)
        result = compare(self.before, found, complete=complete, now=now, secret_id=HASHER.secret_id, timezone="UTC")
        alert = self.story.situation.alert
        joined = rejoined(self.before, result, alert.opened_at if alert is not None else None)
        self.keep(result, found)
        outcome = Outcome.VIOLATED if found.counted else Outcome.HELD
        return self.story.run(
            outcome, found.counted, new=result.new, came_back=result.came_back, rejoined=joined, complete=complete
        )

    def keep(self, result: Comparison, found: Tallied) -> None:
        keys = {**self.before.keys, **{state.key: state for state in result.changed}}
        self.before = LedgerBefore(keys, True, HASHER.secret_id, found.key_columns, "UTC", result.horizon)

    def acknowledge(self) -> None:
        change = acknowledge(self.story.alert, "alice", "", self.story.now)
        self.story.take(Decision(self.story.situation.standing, (change,)))


def test_a_key_of_an_earlier_alert_ends_an_acknowledgement_as_a_new_one_does() -> None:
    """Semantics 7.4: whoever acknowledged four keys has not seen the fifth, however old it is."""
    one = Looked()
    one.look("1")
    one.look()
    one.look("10", "11", "12", "13")
    one.acknowledge()
    one.look("1", "10", "11", "12", "13")
    assert one.story.told[-1] is Reason.WORSENED
    assert one.story.events[-1].detail == "1 joined after alice acknowledged"
    assert one.story.alert.acknowledged_at is None


def test_a_key_that_only_went_and_came_back_within_the_alert_ends_no_acknowledgement() -> None:
    """Semantics 7.4: it was on the page that was acknowledged."""
    one = Looked()
    one.look("1")
    one.look()
    one.look("1", "2")
    one.acknowledge()
    one.look("2")
    one.look("1", "2")
    assert one.story.told[-1] is Reason.ACKNOWLEDGED
    assert one.story.alert.acknowledged_by == "alice"


def test_a_key_of_an_earlier_alert_that_settles_first_joins_when_it_counts() -> None:
    """Semantics 7.4, 5.1: it counts in the open episode for the first time."""
    one = Looked()
    one.look("1")
    one.settle("1")
    one.look()
    one.look("2", "3", "4")
    one.acknowledge()
    both = tally(rows_of(["1", "2", "3", "4"]))
    young = {**both.keys, key_of("1"): (Disposition.SETTLING, "id=1")}
    one.take(replace(both, counted=3, settling=1, keys=young))
    assert one.story.alert.acknowledged_by == "alice"
    one.look("1", "2", "3", "4")
    assert one.story.told[-1] is Reason.WORSENED


def test_keys_of_an_earlier_alert_are_gathered_with_the_new_ones() -> None:
    """Semantics 7.4: told at most once per `worsen_every`."""
    one = Looked(worsen_every=timedelta(hours=1))
    one.look("1")
    one.look()
    one.look("2", "3", "4", "5")
    one.look("1", "2", "3", "4", "5")
    assert one.story.told[-1] is Reason.REOPENED
    one.story.wait(timedelta(hours=1))
    assert one.story.events[-1].detail == "1 joined since the last message"


@dataclass(frozen=True)
class Look:
    """What a run finds, and whether somebody acknowledges after it."""

    keys: frozenset[str]
    complete: bool
    acknowledged: bool


looks = st.lists(
    st.builds(Look, keys=st.frozensets(st.sampled_from("abcd")), complete=st.booleans(), acknowledged=st.booleans()),
    max_size=14,
)


@given(looks, st.integers(1, 2), st.integers(1, 2))
def test_an_acknowledgement_ends_exactly_when_a_key_counts_that_had_not_in_the_open_episode(
    history: list[Look], fire_after: int, resolve_after: int
) -> None:
    """Semantics 7.4, by plain sets of keys, whatever came and went in this episode and in those before it."""
    one = Looked(fire_after=fire_after, resolve_after=resolve_after)
    mine: frozenset[str] = frozenset()
    for look in history:
        alert = one.story.situation.alert
        had = alert is not None and alert.acknowledged_at is not None
        one.look(*sorted(look.keys), complete=look.complete or not look.keys)
        after = one.story.situation.alert
        if had and look.keys:
            assert after is not None
            assert (after.acknowledged_at is None) == bool(look.keys - mine)
            assert (one.story.told[-1] is Reason.WORSENED) or not look.keys - mine
        mine = mine | look.keys if after is not None else frozenset()
        if look.acknowledged and after is not None and after.state is AlertState.FIRING:
            one.acknowledge()
