"""Exit codes, and which of several wins (design 10)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue import reports
from holdtrue.cli.exits import ExitCode, worst

PRECEDENCE = [ExitCode.REFUSED, ExitCode.VIOLATED, ExitCode.COULD_NOT_LOOK, ExitCode.FAILED]


@given(st.lists(st.sampled_from(list(ExitCode)), max_size=8))
def test_the_first_code_of_the_precedence_that_occurs_wins(codes: list[ExitCode]) -> None:
    """Design 10: precedence 2, 1, 3, 4; 0 only where nothing else is."""
    expected = next((code for code in PRECEDENCE if code in codes), ExitCode.HOLDS)
    assert worst(codes) == expected


@given(st.lists(st.sampled_from(list(ExitCode)), min_size=1, max_size=8), st.randoms())
def test_no_order_decides(codes: list[ExitCode], random: object) -> None:
    shuffled = codes[:]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert worst(shuffled) == worst(codes) == worst(codes * 2)


@given(st.lists(st.sampled_from(list(ExitCode)), min_size=1, max_size=8))
def test_nothing_but_holds_gives_zero(codes: list[ExitCode]) -> None:
    assert (worst(codes) == 0) == all(code == 0 for code in codes)


def test_a_code_that_is_not_ours_is_an_error() -> None:
    with pytest.raises(ValueError, match="7"):
        worst([0, 7])


def test_the_api_and_the_commands_use_one_precedence() -> None:
    assert list(reports.EXIT_PRECEDENCE) == PRECEDENCE
