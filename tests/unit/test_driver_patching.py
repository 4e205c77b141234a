"""A driver's method is replaced for a while and is its own again afterwards; a layer above speaks for itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import ModuleType

import pytest

from holdtrue.testing.adapters.patching import is_reported_above, patched


class Cursor:
    def execute(self, text: str) -> str:
        return text


class Inherits(Cursor):
    pass


def louder(original: Callable[[object, str], str]) -> Callable[[object, str], str]:
    return lambda self, text: original(self, text).upper()


def test_a_method_is_the_drivers_own_again_whatever_happened() -> None:
    before = Cursor.__dict__["execute"]
    with patched(Cursor, "execute", louder):
        assert Cursor().execute("select") == "SELECT"
    with pytest.raises(AttributeError), patched(Cursor, "execute", louder):
        Cursor().execute(None)  # type: ignore[arg-type]
    assert Cursor.__dict__["execute"] is before


def test_a_method_that_was_inherited_is_inherited_again() -> None:
    with patched(Inherits, "execute", louder):
        assert (Inherits().execute("select"), Cursor().execute("select")) == ("SELECT", "select")
    assert "execute" not in Inherits.__dict__


def calling(name: str, call: Callable[[], bool]) -> Callable[[], bool]:
    """``call``, called from a module of this name."""
    module = ModuleType(name)
    exec("def run(): return call()", vars(module) | {"call": call, "__name__": name}, vars(module))  # noqa: S102
    made: Callable[[], bool] = vars(module)["run"]
    return made


@pytest.mark.parametrize(
    ("caller", "reported"),
    [
        ("app.refunds", False),
        ("sqlalchemy.engine.default", True),
        ("sqlalchemy_of_somebody", False),
        ("django.db.backends", True),
        ("holdtrue.testing.postgresql", True),
        ("holdtrue.testing.loops", False),
    ],
)
def test_the_first_frame_below_the_driver_says_whose_statement_it_is(caller: str, reported: bool) -> None:
    adapter = calling("holdtrue.testing.adapters.somedriver", partial(is_reported_above, "somedriver"))
    assert calling(caller, calling("somedriver.connections", adapter))() is reported
