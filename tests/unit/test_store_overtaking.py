from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from holdtrue.model import Mark, Message, MessageState, Reason
from holdtrue.store.overtaking import Waiting, Why, next_turn

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def message(number: int, reason: Reason = Reason.FIRED, **fields: object) -> Message:
    made = Message(100 + number, 1, number, "oncall", reason, MessageState.PENDING, NOW)
    return replace(made, **fields)  # type: ignore[arg-type]


moments = st.sampled_from([None, NOW - SECOND, NOW, NOW + SECOND])


@st.composite
def queues(draw: st.DrawFn) -> list[Waiting]:
    numbers = draw(st.lists(st.integers(1, 9), unique=True, max_size=6))
    return [
        Waiting(
            message(
                number,
                draw(st.sampled_from(list(Reason))),
                next_try_at=draw(moments),
                overtook=tuple(draw(st.lists(st.sampled_from(list(Reason)), max_size=2, unique=True))),
            ),
            draw(moments),
        )
        for number in numbers
    ]


@given(queues())
def test_the_newest_goes_and_nothing_is_dropped_without_it(waiting: list[Waiting]) -> None:
    """semantics 7.3: in order per episode and notifier; an overtaken message is superseded."""
    turn = next_turn(waiting, NOW)
    if turn.send is None:
        assert turn.superseded == ()
        return
    assert turn.send.number == max(one.message.number for one in waiting)
    assert {turn.send.id, *turn.superseded} == {one.message.id for one in waiting}
    assert len(turn.superseded) == len(waiting) - 1


@given(queues())
def test_what_was_overtaken_is_told_by_the_one_that_goes(waiting: list[Waiting]) -> None:
    """A resolved that overtakes fired says both: never are both dropped."""
    turn = next_turn(waiting, NOW)
    if turn.send is None:
        return
    older = [one.message for one in waiting if one.message.id != turn.send.id]
    untold = {one.reason for one in older} | {reason for one in waiting for reason in one.message.overtook}
    assert set(turn.overtook) == untold
    assert len(set(turn.overtook)) == len(turn.overtook)


@given(queues())
def test_one_goes_at_a_time_and_none_before_its_time(waiting: list[Waiting]) -> None:
    """semantics 7.3: one claim at a time."""
    turn = next_turn(waiting, NOW)
    claimed = any(one.claimed_until is not None and one.claimed_until >= NOW for one in waiting)
    later = any(one.message.next_try_at is not None and one.message.next_try_at > NOW for one in waiting)
    assert (turn.send is None) == (not waiting or claimed or later)


@given(queues())
def test_the_order_of_reading_decides_nothing(waiting: list[Waiting]) -> None:
    assert next_turn(waiting, NOW) == next_turn(list(reversed(waiting)), NOW)


def test_a_claim_that_ended_without_an_answer_may_be_a_repeat() -> None:
    """semantics 7.3: after a crash between sending and marking it is sent again, marked."""
    turn = next_turn([Waiting(message(1), NOW - SECOND)], NOW)
    assert (turn.why, turn.marks) == (Why.NEXT, (Mark.MAY_BE_A_REPEAT,))
    marked = message(1, marks=(Mark.AT_FIRST_LOOK, Mark.MAY_BE_A_REPEAT))
    assert next_turn([Waiting(marked, NOW - SECOND)], NOW).marks == (Mark.AT_FIRST_LOOK, Mark.MAY_BE_A_REPEAT)
    assert next_turn([Waiting(message(1))], NOW).marks == ()


def test_a_newer_message_is_no_repeat_of_one_whose_outcome_is_unknown() -> None:
    turn = next_turn([Waiting(message(1), NOW - SECOND), Waiting(message(2, Reason.RESOLVED))], NOW)
    assert (turn.why, turn.send, turn.marks) == (Why.OVERTAKES, message(2, Reason.RESOLVED), ())
    assert (turn.superseded, turn.overtook) == ((101,), (Reason.FIRED,))


def test_a_newer_message_waits_as_long_as_the_notifier_asked_the_older_one_to() -> None:
    waiting = [Waiting(message(1, next_try_at=NOW + SECOND)), Waiting(message(2))]
    assert next_turn(waiting, NOW).why is Why.NOT_YET
    assert next_turn(waiting, NOW + SECOND).send == message(2)


def test_nothing_owed_is_no_turn() -> None:
    assert next_turn([], NOW).why is Why.NOTHING_OWED
