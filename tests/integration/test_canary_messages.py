"""Every kind of notifier says of the canary what it is (semantics 7.7)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from holdtrue.delivery import as_a_proof
from holdtrue.model import CANARY_NAME, CANARY_OWNER, Delivered, Episode, Mark, Reason, Undelivered
from scenes.told import EPISODE, KINDS, RESOLVED, UNCHECKED, Stand, parcel, standing

CANARY = replace(EPISODE, severity="info", owner=CANARY_OWNER, invariant=CANARY_NAME)


def test_a_round_that_only_some_recipients_took_proves_nothing() -> None:
    """Semantics 7.7: the address that refuses may be the one that wakes somebody."""
    some = Delivered(note="1 of 2 recipients were refused", partly=True)
    assert as_a_proof(some, CANARY) == Undelivered("1 of 2 recipients were refused", permanent=True)
    assert as_a_proof(Delivered(note="posted anew"), CANARY) == Delivered(note="posted anew")
    assert as_a_proof(some, EPISODE) is some


@pytest.fixture(params=KINDS)
def stand(request: pytest.FixtureRequest) -> Iterator[Stand]:
    with standing(request.param) as made:
        yield made


@pytest.mark.parametrize("episode", [EPISODE, RESOLVED, UNCHECKED], ids=["fired", "resolved", "unchecked"])
def test_the_canary_says_that_nothing_is_violated(stand: Stand, episode: Episode) -> None:
    """Semantics 7.7: a proof must not look like an alert, whatever becomes of it."""
    reasons = {EPISODE: Reason.FIRED, RESOLVED: Reason.RESOLVED, UNCHECKED: Reason.UNCHECKED}
    one = parcel(replace(episode, severity="info", owner=CANARY_OWNER, invariant=CANARY_NAME), reasons[episode])
    one = replace(one, event=replace(one.event, marks=(Mark.CANARY,)))
    assert isinstance(stand.notifier.deliver(one), Delivered)
    for told in stand.told():
        assert Mark.CANARY.value in told
        assert "holdtrue promote" not in told
        assert "critical" not in told
    assert stand.problems() == []
