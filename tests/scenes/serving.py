"""the web faces over a scene, and what a browser would send to them"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.testclient import TestClient

from holdtrue.errors import NotFound, NotTried, PromotionRefused
from holdtrue.metrics import Counters, Exposition
from holdtrue.model import Silence, Ticket, Tried
from holdtrue.scaffolding import Extra, Wanted
from holdtrue.web import Asked, ReloadResult, WebService, create_app
from scenes import Scene

VERSION = "0.0.test"

DRAFT = "a-draft"
FILES = (
    ("README.md", "# One settled refund per dispute\n\nRun `pytest`.\n"),
    ("test_incident.py", "from holdtrue.testing import race\n\n\ndef test_incident(barrier_db):\n    ...\n"),
)
UNTRIED = ("ticket.json", '{"rehearsed": {"result": "not looked", "sentence": "there is no PostgreSQL"}}\n')


@dataclass(eq=False)
class Calls:
    """What the faces asked the rest of the service for."""

    reloads: list[str] = field(default_factory=list)
    runs: list[tuple[str, str, str]] = field(default_factory=list)
    promotions: list[tuple[int, str, bool]] = field(default_factory=list)
    drafts: list[str] = field(default_factory=list)
    also: list[tuple[Extra, ...]] = field(default_factory=list)
    refusal: PromotionRefused | None = None
    reload_problems: tuple[str, ...] = ()

    def forget(self) -> None:
        """Begin anew."""
        self.reloads.clear()
        self.runs.clear()
        self.promotions.clear()
        self.drafts.clear()
        self.also.clear()
        self.refusal, self.reload_problems = None, ()


@dataclass
class Elsewhere:
    """Somewhere that carries state, where the same silence can be made, or cannot."""

    name: str
    problem: str = ""

    def silence(self, silence: Silence) -> str:
        """Make it there."""
        return self.problem and f"{self.problem} of {silence.id}"

    def unsilence(self, silence: Silence) -> str:
        """End it there."""
        return self.problem and f"{self.problem} of {silence.id}"


def web_service(scene: Scene, calls: Calls | None = None, **more: Any) -> WebService:
    """The service over a scene's real store; run-now goes through the store, promotion gives fixed files."""
    calls = calls or Calls()
    counters = Counters(version=VERSION)
    exposition = Exposition(store=scene.store, catalog=lambda: scene.catalog, counters=counters)

    def reload(who: str) -> ReloadResult:
        calls.reloads.append(who)
        return ReloadResult(not calls.reload_problems, calls.reload_problems, scene.store.catalogs.number())

    def run_now(invariant: str, database: str, who: str) -> Asked:
        calls.runs.append((invariant, database, who))
        return Asked(invariant, database, scene.store.leases.ask(invariant, database))

    def promote(alert: int, by: str, preview: bool, wanted: Wanted) -> Ticket:
        calls.promotions.append((alert, by, preview))
        calls.drafts.append(wanted.draft)
        calls.also.append(wanted.also)
        if calls.refusal is not None and not (wanted.untried and isinstance(calls.refusal, NotTried)):
            raise calls.refusal
        if not any(one.id == alert for one in scene.store.alerts.list(limit=1000)):
            raise NotFound(f"no alert has the number {alert}")
        episode = scene.store.alerts.get(alert).episode
        made = Ticket(f"inc-{alert}", alert, episode.invariant, episode.database, scene.clock(), by, FILES, DRAFT)
        return made if calls.refusal is None else replace(made, files=(*FILES, UNTRIED), tried=Tried.UNTRIED)

    service = WebService(
        store=scene.store,
        catalog=lambda: scene.catalog,
        generation=scene.store.catalogs.number,
        metrics=exposition.render,
        reload=reload,
        run_now=run_now,
        promote=promote,
        version=VERSION,
    )
    return replace(service, **more)


def client_of(service: WebService, *, host: str = "127.0.0.1:8080", **headers: str) -> TestClient:
    """A client that asks a loopback name, as a program on this machine would."""
    return client_over(create_app(service), host=host, **headers)


def client_over(app: FastAPI, *, host: str = "127.0.0.1:8080", **headers: str) -> TestClient:
    """A client of an application that is there already, with cookies of its own."""
    return TestClient(app, base_url=f"http://{host}", headers=headers, follow_redirects=False)


def form_token_of(page: str) -> str:
    """The token that a page gave its forms."""
    found = re.search(r'name="form_token" value="([0-9a-f]{64})"', page)
    assert found is not None
    return found.group(1)


@contextmanager
def served(service: WebService) -> Iterator[str]:
    """The service on a port of its own on loopback; its address."""
    server = uvicorn.Server(
        uvicorn.Config(create_app(service), host="127.0.0.1", port=0, log_config=None, access_log=False, lifespan="off")
    )
    thread = threading.Thread(target=server.run, name="web-under-test", daemon=True)
    thread.start()
    try:
        started = threading.Event()
        for _ in range(1000):
            if server.started:
                break
            started.wait(0.01)
        assert server.started
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(10)
