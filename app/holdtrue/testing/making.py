"""makes a race of what a test says: its parties, its database, its rule"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from holdtrue.errors import Refused
from holdtrue.testing import promises
from holdtrue.testing.barrier_databases import BarrierDatabase, open_control
from holdtrue.testing.controls import Control
from holdtrue.testing.plans import Plan
from holdtrue.testing.played import Limits
from holdtrue.testing.policies import Point
from holdtrue.testing.races import Race, Work
from holdtrue.testing.rules import find_rule

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Engine
    from sqlalchemy.ext.asyncio import AsyncEngine


def race(
    *,
    a: Work,
    b: Work,
    invariant: str,
    reset: Callable[[], object] | None = None,
    db: BarrierDatabase | Engine | AsyncEngine | str | None = None,
    hold: Point | Plan | Literal["server"] | None = None,
    limits: Limits | None = None,
    max_steps: int = 60,
    external_lock: bool = False,
    **more: Work,
) -> Race:
    """A race of two functions or more (``c=``, ``d=``, … up to ``h=``); nothing runs before ``assert_holds()``.

    ``invariant`` is SQL, or a name in the catalog. ``reset`` is called before every schedule and puts the rows there that the
    parties need. ``db`` is where the invariant is asked; without it, the database that the parties use. A ``barrier_db`` is
    set back to how it is now before ``reset`` is called, so ``reset`` may be left out. Without ``hold`` each party is held at
    every one of its boundaries; with it, at that point, or only the plan is played that it is: ``late_effect(…)``,
    ``force_order(…)``. With ``hold="server"`` the PostgreSQL server holds the parties, which may then be anything that ends
    when it is done: a function that runs a process, say.

    A party may be a coroutine function, and so may ``reset``; they share an event loop in a thread of its own. Inside a running
    loop use :func:`~holdtrue.testing.arace`.

    Raises:
        Refused: there is neither ``reset`` nor a ``barrier_db``.
        TypeError: an argument is neither known nor the next party.
    """
    works = {"A": a, "B": b}
    for letter, (name, work) in zip("cdefgh", more.items(), strict=False):
        if name != letter:
            break
        works[name.upper()] = work
    if len(works) < 2 + len(more):
        raise TypeError(f"race() takes the parties a, b, c … h without a gap, and no {[*more][len(works) - 2]!r}")
    rule = find_rule(invariant)
    control: Control | None = None
    expected: URL | None = None
    before = reset if reset is not None else _nothing
    if isinstance(db, BarrierDatabase):
        expected, control = db.sqlalchemy_url, db.control
        control.keep_baseline()

        def set_back() -> object:
            db.control.set_back()
            return before()

    else:
        if reset is None:
            raise Refused("nothing sets the database back", remedy="pass reset=, or db=barrier_db")
        if db is not None:
            from sqlalchemy import make_url  # the kit stays light: only a test that races needs SQLAlchemy

            expected = make_url(db) if isinstance(db, str) else db.url
            control = open_control(expected)

        def set_back() -> object:
            return before()

    kind = kind_of(hold)
    made = kind(
        works=works,
        rule=rule,
        set_back=set_back,
        control=control,
        expected=expected,
        hold=None if isinstance(hold, Plan | str) else hold,
        plans=(hold,) if isinstance(hold, Plan) else (),
        sweeps=not isinstance(hold, Plan),
        limits=limits or kind.LIMITS,
        max_steps=max_steps,
        external_lock=external_lock,
        owns_control=control is not None and not isinstance(db, BarrierDatabase),
    )
    promises.made.append(made)
    return made


def kind_of(hold: object) -> type[Race]:
    """Who holds the parties: this process, or the server."""
    if hold != "server":
        return Race
    from holdtrue.testing.server_races import ServerRace  # it is a race itself

    return ServerRace


def _nothing() -> None:
    """Stand for a reset that is not needed."""
