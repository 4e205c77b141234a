"""Which schedules are played for how many parties, and who has to move where many wait."""

from __future__ import annotations

import subprocess
import sys
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdtrue import testing
from holdtrue.testing.blocking import roots
from holdtrue.testing.plans import held, in_series, orders

NAMES = "ABCDEFGH"


@given(st.integers(2, 8))
def test_every_order_runs_each_party_once_and_every_party_is_first_and_last_somewhere(parties: int) -> None:
    found = orders(NAMES[:parties], parties=parties)
    assert len(set(found)) == len(found)
    assert all(sorted(one) == list(NAMES[:parties]) for one in found)
    assert {one[0] for one in found} == {one[-1] for one in found} == set(NAMES[:parties])


@given(st.integers(2, 4))
def test_up_to_four_parties_run_in_every_order(parties: int) -> None:
    assert set(orders(NAMES[:parties], parties=parties)) == set(permutations(NAMES[:parties]))


@pytest.mark.parametrize(
    ("parties", "serial", "per_boundary"), [(2, 2, 1), (3, 6, 2), (4, 24, 6), (5, 5, 4), (8, 8, 7)]
)
def test_how_many_schedules_that_makes(parties: int, serial: int, per_boundary: int) -> None:
    """The bound that docs/testing.md states."""
    names = tuple(NAMES[:parties])
    assert len(in_series(names)) == serial
    assert len(held("A", names, None, 1)) == per_boundary


@given(st.integers(2, 8), st.integers(1, 3))
def test_no_two_schedules_of_a_race_have_one_name(parties: int, steps: int) -> None:
    names = tuple(NAMES[:parties])
    made = [
        *in_series(names),
        *(one for name in names for number in range(1, steps + 1) for one in held(name, names, None, number)),
    ]
    assert len({one.name for one in made}) == len(made)


def test_two_parties_keep_their_short_names() -> None:
    assert [one.name for one in in_series(("A", "B"))] == ["AB", "BA"]
    assert [one.name for one in held("B", ("A", "B"), None, 2)] == ["B2"]
    three = held("B", ("A", "B", "C"), None, 2)
    assert [one.name for one in three] == ["B2.AC", "B2.CA"]
    assert three[0].words == "B is held after its step 2, A, then C run whole, then B"


@given(st.dictionaries(st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES), min_size=1)))
def test_who_has_to_move_is_somebody_who_waits_for_nobody_if_there_is_one(held_up: dict[str, set[str]]) -> None:
    for waiter, root in roots(held_up).items():
        free = held_up[waiter] - set(held_up)
        assert root in (free or held_up[waiter])


def test_every_public_name_of_the_kit_is_there_and_an_unknown_one_is_not() -> None:
    assert {name for name in testing.__all__ if getattr(testing, name, None) is None} == set()
    assert set(testing.__all__) == {"checkpoint", *testing._HOME}
    with pytest.raises(AttributeError, match="no attribute 'rase'"):
        _ = testing.rase
    with pytest.raises(ImportError):
        from holdtrue.testing import rase  # type: ignore[attr-defined]  # noqa: F401


def test_a_service_with_a_checkpoint_in_it_loads_that_alone() -> None:
    code = (
        "import sys\nfrom holdtrue.testing import checkpoint\ncheckpoint('charge_card')\n"
        "heavy = {'sqlalchemy', 'psycopg', 'sqlglot', 'yaml', 'holdtrue.model', 'holdtrue.testing.races'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
