"""routes: who is told of which alerts"""

from __future__ import annotations

from dataclasses import dataclass

from holdtrue.model.silences import Matcher


@dataclass(frozen=True, slots=True)
class Route:
    """Tells ``notify`` of what all its conditions match; without a condition, of everything.

    The first route that matches decides, and those after it only where it ``goes_on``. ``line`` is where ``holdtrue.yaml``
    says it. Nobody in ``notify`` is meant: nobody is told.
    """

    conditions: tuple[Matcher, ...]
    notify: tuple[str, ...]
    goes_on: bool = False
    line: int = 0
