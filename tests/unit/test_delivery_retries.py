"""When an undelivered message is tried again: pure (case 103)."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from holdtrue.delivery import FIRST_WAIT, LOGIN_MENDED_WITHIN, LONGEST_WAIT, SHORTEST_WAIT, decide_retry
from holdtrue.model import Undelivered
from telling import START, drawn_by


@given(
    st.integers(0, 10_000),
    st.one_of(st.none(), st.floats(0, 10_000)),
    st.booleans(),
    st.integers(),
)
def test_a_retry_waits_as_long_as_asked_else_longer_each_time_and_never_for_ever(
    attempts: int, retry_after: float | None, permanent: bool, seed: int
) -> None:
    """Case 103: Retry-After is honoured as it stands, however often it was tried; nothing mendable is given up."""
    result = Undelivered("no", permanent=permanent, retry_after=retry_after)
    retry = decide_retry(result, attempts, START, drawn_by(seed))
    assert (retry.at is None) == permanent
    if retry.at is None:
        return
    waited = retry.at - START
    assert waited >= SHORTEST_WAIT
    if retry_after is not None:
        asked = timedelta(seconds=min(retry_after, 3600))
        assert asked <= waited <= max(SHORTEST_WAIT, asked) + min(FIRST_WAIT, max(SHORTEST_WAIT, asked) / 4)
    else:
        assert waited <= LONGEST_WAIT
    if retry_after is None and attempts <= 1:
        assert waited <= FIRST_WAIT


def test_a_refused_login_is_tried_for_days_and_then_given_up() -> None:
    """A token that was changed on one side only; a notifier that nobody mends is not owed to for ever."""
    refused = Undelivered("refused the login", login=True)
    for owed, given_up in (
        (timedelta(0), False),
        (LOGIN_MENDED_WITHIN - timedelta(seconds=1), False),
        (LOGIN_MENDED_WITHIN, True),
    ):
        retry = decide_retry(refused, 9, START, drawn_by(1), owed_at=START - owed)
        assert (retry.at is None) == given_up
    assert decide_retry(Undelivered("busy"), 9, START, drawn_by(1), owed_at=START - timedelta(days=99)).at is not None


def test_jitter_spreads_the_retries() -> None:
    """Full jitter: what failed together does not return together."""
    rng = drawn_by(3)
    waits = {decide_retry(Undelivered("no"), 8, START, rng).at for _ in range(50)}
    assert len(waits) == 50
