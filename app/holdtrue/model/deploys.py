"""a deploy that a pipeline told of, and where it lies beside the window of a violation"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from holdtrue.model.actors import by_whom
from holdtrue.model.moments import show_duration, show_moment

SERVICE_LIMIT = 100
VERSION_LIMIT = 200
AHEAD = timedelta(minutes=15)
"""How far a pipeline's clock may be ahead of the store's."""
LOOK_BACK = timedelta(hours=24)
"""How long before a window a deploy is still told of beside it."""
NEAR = 5
"""How many deploys are told of beside one window, the latest ones."""


@dataclass(frozen=True, slots=True)
class Deploy:
    """A version of a service that went out ``at`` some moment, by the word of ``by``."""

    service: str
    version: str
    at: datetime
    by: str
    recorded_at: datetime
    id: int = 0

    @property
    def name(self) -> str:
        """The service and its version."""
        return f"{self.service} {self.version}"


@dataclass(frozen=True, slots=True)
class Window:
    """When a violation came about: after ``opened``, the last run without it, and before ``closed``, the first with it.

    ``opened`` is None where no run was made before it.
    """

    opened: datetime | None
    closed: datetime


@dataclass(frozen=True, slots=True)
class NearDeploy:
    """A deploy beside a window; ``where`` says how far: ``3m before the window``."""

    deploy: Deploy
    where: str

    def __str__(self) -> str:
        """One line for people: ``deployed payments 1.4.2, 3m before the window (2026-11-29T13:51:45Z, by ci)``."""
        return f"deployed {self.deploy.name}, {self.where} ({show_moment(self.deploy.at)}, {by_whom(self.deploy.by)})"


def problem_of_deploy(service: str, version: str, at: datetime, now: datetime, oldest: timedelta) -> str:
    """Why a deploy cannot be kept as it was told, in words; empty if it can."""
    for name, text, limit in (("service", service, SERVICE_LIMIT), ("version", version, VERSION_LIMIT)):
        if not text:
            return f"a deploy needs a {name}"
        if len(text) > limit:
            return f"a {name} has at most {limit} characters"
    if at > now + AHEAD:
        return f"{show_moment(at)} is in the future"
    if at < now - oldest:
        return f"{show_moment(at)} is more than {show_duration(oldest)} ago, and would not be kept"
    return ""


def near(deploys: Iterable[Deploy], window: Window) -> tuple[NearDeploy, ...]:
    """The latest few that went out in the window or in the day before it, the latest first. None of them need be the cause."""
    start = (window.opened or window.closed) - LOOK_BACK
    found = sorted((one for one in deploys if start <= one.at <= window.closed), key=lambda one: one.at, reverse=True)
    return tuple(NearDeploy(one, where(one, window)) for one in found[:NEAR])


def where(deploy: Deploy, window: Window) -> str:
    """How a deploy lies beside a window."""
    if window.opened is None:
        return f"{_whole(window.closed - deploy.at)} before it was first seen"
    if deploy.at < window.opened:
        return f"{_whole(window.opened - deploy.at)} before the window"
    return "in the window" if deploy.at <= window.closed else f"{_whole(deploy.at - window.closed)} after the window"


def _whole(duration: timedelta) -> str:
    return show_duration(timedelta(seconds=max(1, round(duration.total_seconds()))))
