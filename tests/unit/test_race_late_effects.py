"""Who moves when while an effect is late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdtrue.testing import late_effect
from holdtrue.testing.late_effects import Late
from holdtrue.testing.policies import AtCheckpoint
from holdtrue.testing.statements import COMMIT, classify, step_outside
from holdtrue.testing.verdicts import Verdict
from modelled import LOCK, Model

ASK = step_outside("ask_provider")
KINDS = (classify("SELECT 1 FROM refunds"), classify("INSERT INTO refunds VALUES (1)"), LOCK, COMMIT)
statements = st.lists(st.sampled_from(KINDS), max_size=5)


@given(statements, statements, statements, statements)
def test_all_others_are_through_before_the_late_one_goes_on(
    before: list[object], after: list[object], second: list[object], third: list[object]
) -> None:
    model = Model({"A": [*before, ASK, *after], "B": second, "C": third})  # type: ignore[list-item]
    policy = Late("A", AtCheckpoint("ask_provider"), ("B", "C"), "A")
    model.play(policy)
    assert policy.missed is None
    assert [name for name, _ in model.done] == [
        *("A" for _ in before),
        *("B" for _ in second),
        *("C" for _ in third),
        *("A" for _ in (ASK, *after)),
    ]


@given(statements, statements)
def test_an_effect_of_its_own_lands_after_everything(second: list[object], effect: list[object]) -> None:
    model = Model({"A": [ASK, COMMIT], "B": second, "A's effect": effect})  # type: ignore[list-item]
    model.play(Late("A", AtCheckpoint("ask_provider"), ("A", "B"), "A's effect"))
    assert [name for name, _ in model.done] == ["A", "A", *("B" for _ in second), *("A's effect" for _ in effect)]


@given(statements, statements, st.booleans())
def test_without_the_checkpoint_all_come_to_their_ends_and_nothing_was_late(
    first: list[object], second: list[object], locks: bool
) -> None:
    model = Model({"A": first, "B": second}, locks)  # type: ignore[dict-item]
    policy = Late("A", AtCheckpoint("ask_provider"), ("B",), "A")
    model.play(policy)
    assert len(model.done) == len(first) + len(second)
    assert policy.missed == (
        Verdict.NOT_REACHED,
        "A never came to stand at checkpoint ask_provider, so no effect was late",
    )


def test_the_schedule_says_who_does_what_in_which_order() -> None:
    (plain,) = late_effect("ask_provider").schedules("ABC")
    assert (plain.name, plain.words) == (
        "late",
        "A is held at checkpoint ask_provider, its caller gives up, B, then C whole, then A's effect lands",
    )
    (told,) = late_effect("ask_provider", on_timeout=print).schedules("AB")
    assert [*told.more] == ["A's caller"]
    assert "its caller gives up, A's caller, then B whole" in told.words
    (its_own,) = late_effect("ask_provider", effect=print).schedules("AB")
    assert [*its_own.more] == ["A's effect"]
    assert "its caller gives up and goes on, B whole, then A's effect lands" in its_own.words
