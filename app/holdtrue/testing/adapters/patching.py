"""puts a method in the place of a driver's own for a while, and tells whose statement it is"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any

# What these send is reported by an adapter of their own, or is the kit's own question to the server.
_ABOVE = ("sqlalchemy", "django.db", "aiosqlite", "holdtrue.testing")
_PASSED = ("holdtrue.testing.adapters", "contextlib")  # a ``with`` block of a driver ends in the standard library
# They call the parties: a party may be nothing but one call of a driver.
_CALLERS = (
    "holdtrue.testing.loops",
    "holdtrue.testing.steps",
    "holdtrue.testing.forced",
    "holdtrue.testing.late_effects",
)
_ABSENT = object()


@contextmanager
def patched(owner: type | object, name: str, make: Callable[[Any], Any]) -> Iterator[None]:
    """``owner.name`` is what ``make`` returns for the original while the block runs; then all is as it was."""
    own = vars(owner).get(name, _ABSENT)
    setattr(owner, name, make(getattr(owner, name)))
    try:
        yield
    finally:
        if own is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, own)


@contextmanager
def patched_all(*methods: tuple[type | object, str, Callable[[Any], Any]]) -> Iterator[None]:
    """The same for several: each with its owner, the names of its methods with spaces between, and what makes the new one."""
    with ExitStack() as stack:
        for owner, names, make in methods:
            for name in names.split():
                stack.enter_context(patched(owner, name, make))
        yield


def is_reported_above(driver: str) -> bool:
    """Whether a layer above the driver reports what is about to be sent, so that the driver's adapter passes it over.

    ``driver`` is the driver's top package; its frames are passed over, and the first other one below them decides.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not any(_is_in(module, one) for one in (*_PASSED, driver)):
            return module not in _CALLERS and any(_is_in(module, one) for one in _ABOVE)
        frame = frame.f_back
    return False


def _is_in(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")
